from __future__ import annotations

import pytest

from clinical_envs.factcheck.query import MAX_CHARACTERS, MAX_DEPTH, Match, Query, parse_query
from clinical_envs.factcheck.query_ast import depth, to_pubmed
from clinical_envs.factcheck.query_error import QueryError, QueryProblem
from clinical_envs.factcheck.query_tokens import uses_boolean


def translated(text: str, match: Match = "all") -> str:
    parsed = parse_query(text, match)
    assert isinstance(parsed, Query), parsed
    return to_pubmed(parsed.root)


def rejected(text: str) -> QueryError:
    parsed = parse_query(text)
    assert isinstance(parsed, QueryError), parsed
    return parsed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("asthma OR copd AND child", '("asthma" OR "copd") AND "child"'),
        ("asthma AND copd OR child", '("asthma" AND "copd") OR "child"'),
        ("asthma NOT copd AND child", '("asthma" NOT "copd") AND "child"'),
        ("asthma OR (copd AND child)", '"asthma" OR ("copd" AND "child")'),
        ("zinc OR vitamin c", '"zinc" OR ("vitamin" AND "c")'),
        ("a AND (b AND (c AND d))", '"a" AND "b" AND "c" AND "d"'),
        ("IL-6 AND TNF-α", '"IL-6" AND "TNF-α"'),
        ("covid-19 NOT (children OR infant*)", '"covid-19" NOT ("children" OR "infant*")'),
        ("vitamin D[tiab]", '"vitamin D"[tiab]'),
        ("infant* vitamin D [Title]", '"infant*" AND "vitamin D"[ti]'),
        ('"a AND b"', '"a AND b"'),
        ("“heart failure”[MeSH Terms]", '"heart failure"[mesh]'),
        ('"breast feed*"', '"breast feed*"'),
        ("aspirin and stroke", '"aspirin" AND "stroke"'),
        ("with* and cand*", '"with*" AND "cand*"'),
        ("the of", '"the" AND "of"'),
        ("vitamin A, or C?", '"vitamin" AND "A" AND "C"'),
        ("CYP2D6*4 OR HLA-B*27", '"CYP2D6*4" OR "HLA-B*27"'),
        ("asthma 2010:2015[dp]", '"asthma" AND 2010:2015[dp]'),
        ("2010/05/01[Date - Publication]", "2010:2010[dp]"),
        ("12345[uid]", '"12345"[pmid]'),
        ("fever : a symptom", '"fever" AND "symptom"'),
    ],
)
def test_a_query_is_read_as_pubmed_reads_it(text: str, expected: str) -> None:
    assert translated(text) == expected


@pytest.mark.parametrize(
    ("text", "problem", "position"),
    [
        ("", QueryProblem.EMPTY, 0),
        (" \x00\n", QueryProblem.EMPTY, 0),
        ("?!", QueryProblem.EMPTY, 0),
        ("asthma AND --", QueryProblem.EMPTY, 11),
        ("AND", QueryProblem.MISSING_OPERAND, 0),
        ("AND OR NOT", QueryProblem.MISSING_OPERAND, 0),
        ("NOT asthma", QueryProblem.MISSING_OPERAND, 0),
        ("asthma AND NOT copd", QueryProblem.MISSING_OPERAND, 11),
        ("(asthma AND", QueryProblem.MISSING_OPERAND, 11),
        ("()", QueryProblem.MISSING_OPERAND, 1),
        ("(asthma", QueryProblem.UNBALANCED_PARENTHESIS, 0),
        ("asthma) OR b", QueryProblem.UNBALANCED_PARENTHESIS, 6),
        ('asthma "heart failure', QueryProblem.UNCLOSED_QUOTE, 7),
        ("asthma[tiab", QueryProblem.UNCLOSED_TAG, 6),
        ("[tiab]", QueryProblem.TAG_WITHOUT_TERM, 0),
        ("[tiab] OR [ti]", QueryProblem.TAG_WITHOUT_TERM, 0),
        ("(a OR b)[ti]", QueryProblem.TAG_WITHOUT_TERM, 8),
        ("asthma[journal]", QueryProblem.UNKNOWN_FIELD, 6),
        ("can*", QueryProblem.BAD_TRUNCATION, 0),
        ("IL*", QueryProblem.BAD_TRUNCATION, 0),
        ("*itis", QueryProblem.BAD_TRUNCATION, 0),
        ("tum*r", QueryProblem.BAD_TRUNCATION, 0),
        ("PMC123[pmid]", QueryProblem.BAD_PMID, 0),
        ("asthma 12a[pmid]", QueryProblem.BAD_PMID, 7),
        ("last year[dp]", QueryProblem.BAD_YEAR, 5),
        ("2015:2010[dp]", QueryProblem.BAD_YEAR, 0),
        ('"2015"[dp] : "3000"[dp]', QueryProblem.BAD_YEAR, 11),
    ],
)
def test_a_bad_query_is_named_and_located(text: str, problem: QueryProblem, position: int) -> None:
    error = rejected(text)
    assert (error.problem, error.position) == (problem, position)


def test_what_was_ignored_or_reread_is_said_in_the_warnings() -> None:
    parsed = parse_query("does vitamin D[tiab] & zinc help in asthma")
    assert isinstance(parsed, Query)
    assert parsed.warnings == (
        '[tiab] read as covering the phrase "does vitamin D"',
        "ignored, no letter or digit: &",
        "common words ignored: in",
    )


def test_matching_any_relaxes_adjacent_terms_and_no_operator() -> None:
    text = "aspirin stroke AND 2010:2015[dp] NOT (mice rats)"
    assert translated(text, "any") == (
        '(("aspirin" OR "stroke") AND 2010:2015[dp]) NOT ("mice" OR "rats")'
    )
    parsed = parse_query(text, "any")
    assert isinstance(parsed, Query)
    assert parsed.warnings == ("relaxed: adjacent terms match any of them, not all",)
    assert parse_query("asthma", "any") == parse_query("asthma")


def test_the_longest_query_is_read_and_one_character_more_is_not() -> None:
    longest = " OR ".join(f"drug{i:03d}" for i in range(363))
    longest += "s" * (MAX_CHARACTERS - len(longest))
    assert len(longest) == MAX_CHARACTERS
    assert translated(longest).count("OR") == 362
    assert rejected(longest + "s").problem is QueryProblem.TOO_LONG


def test_a_query_nests_up_to_the_limit_and_no_deeper() -> None:
    alternating = "a" + "".join(f" {('AND', 'OR')[i % 2]} a" for i in range(MAX_DEPTH - 1))
    parsed = parse_query(alternating)
    assert isinstance(parsed, Query)
    assert depth(parsed.root) == MAX_DEPTH
    assert rejected(alternating + " NOT a").problem is QueryProblem.TOO_DEEP
    assert translated("(" * (MAX_DEPTH - 1) + "a" + ")" * (MAX_DEPTH - 1)) == '"a"'
    one_more = "(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH
    assert rejected(one_more).problem is QueryProblem.TOO_DEEP
    assert rejected("(" * 1_900 + "a").problem is QueryProblem.TOO_DEEP


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("IL-6 AND TNF-α", True),
        ("a OR b", True),
        ("(a)OR(b)", True),
        ("asthma[tiab] AND child[mesh]", True),
        ("asthma[tiab]", False),
        ("a NOT b", False),
        ("aspirin and stroke", False),
        ("ANDROGEN ORAL", False),
        ("AND-gate", False),
        ('"a AND b"', False),
        ('"a AND b" OR c', True),
        ("“a AND b”", False),
        ("(asthma AND", True),
        ('"a AND b', True),
        ("", False),
    ],
)
def test_a_search_is_boolean_when_and_or_or_stands_alone_outside_quotes(
    text: str, expected: bool
) -> None:
    assert uses_boolean(text) is expected
