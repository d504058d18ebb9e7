"""Laws of queries: total, unambiguous, and meaning what their tree says."""

from __future__ import annotations

import re
from typing import assert_never

from hypothesis import given, settings
from hypothesis import strategies as st

from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.query import Match, Query, parse_query
from clinical_envs.factcheck.query_ast import (
    And,
    Field,
    Node,
    Not,
    Or,
    Term,
    Years,
    index_text,
    to_pubmed,
)
from clinical_envs.factcheck.query_error import QueryError, QueryProblem
from clinical_envs.factcheck.query_tokens import uses_boolean
from clinical_envs.factcheck.search import LocalSearch, SearchResult

WORDS = ("fever", "cough", "rash", "asthma", "infant", "fever*", "inf-ant", "TNF-α")


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from([" AND ", " OR ", " NOT ", " "])
    joined = st.builds(lambda a, op, b: f"{a}{op}{b}", inner, operators, inner)
    return joined | joined.map(lambda text: f"({text})")


_phrases = st.lists(st.sampled_from(["fever", "cough", "rash"]), min_size=1, max_size=3).map(
    lambda words: f'"{" ".join(words)}"'
)
_terms = st.builds(
    lambda term, tag: term + tag,
    st.sampled_from(WORDS) | _phrases,
    st.sampled_from(["", "", "", "[tiab]", "[ti]", "[mesh]", "[Title/Abstract]"]),
)
_leaves = _terms | st.sampled_from(["2001[dp]", "1999:2010[dp]", "1[pmid]"])

well_formed = st.recursive(_leaves, _combined, max_leaves=8)

_PIECES = """
    AND OR NOT and ( ) " [tiab] [dp] [pmid] [ ] * : - + ^ , { } NEAR(a,2) title:x -- ; ' “ asthma
    IL-6 covid-19 TNF-α child* 2010:2015 12 vitamin DROP
"""
_pieces = [*_PIECES.split(), "\x00", "\ud800", "\u0301", "²", "＂", "\n"]
_hostile = st.lists(st.sampled_from(_pieces), max_size=25).flatmap(
    lambda pieces: st.sampled_from(["", " "]).map(lambda space: space.join(pieces))
)
anything = st.text() | st.text(st.characters(categories=["Cs", "Cc", "P", "L", "N"])) | _hostile


@given(anything)
def test_any_text_becomes_a_query_or_an_error_that_points_into_it(text: str) -> None:
    parsed = parse_query(text)
    if isinstance(parsed, QueryError):
        assert 0 <= parsed.position <= len(text)
        assert len(parsed.message.splitlines()) == 1
    assert isinstance(uses_boolean(text), bool)


@given(well_formed | anything)
def test_a_query_written_out_parses_to_the_same_tree_without_warnings(text: str) -> None:
    parsed = parse_query(text)
    if isinstance(parsed, Query):
        again = parse_query(to_pubmed(parsed.root))
        if not (isinstance(again, QueryError) and again.problem is QueryProblem.TOO_LONG):
            assert again == Query(root=parsed.root)


@given(well_formed)
def test_every_well_formed_query_is_accepted(text: str) -> None:
    assert isinstance(parse_query(text), Query)


def tokens(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", index_text(text).lower())


def holds(node: Node, article: Article) -> bool:
    """What a query means, straight from its tree."""
    match node:
        case Years(first=first, last=last):
            return article.year is not None and first <= article.year <= last
        case And(parts=parts):
            return all(holds(part, article) for part in parts)
        case Or(parts=parts):
            return any(holds(part, article) for part in parts)
        case Not(keep=keep, drop=drop):
            return holds(keep, article) and not holds(drop, article)
        case Term(text=text, field=Field.PMID):
            return article.pmid == text
        case Term(text=text, field=field, prefix=prefix):
            columns = [article.title] * (field is not Field.MESH)
            columns += [article.text] * (field in (Field.ALL, Field.TITLE_ABSTRACT))
            columns += [" ; ".join(article.mesh)] * (field in (Field.ALL, Field.MESH))
            wanted = tokens(text)
            return any(
                column[i : i + len(wanted) - 1] == wanted[:-1]
                and (
                    column[i + len(wanted) - 1].startswith(wanted[-1])
                    if prefix
                    else column[i + len(wanted) - 1] == wanted[-1]
                )
                for column in map(tokens, columns)
                for i in range(len(column) - len(wanted) + 1)
            )
        case _:
            assert_never(node)


_texts = st.lists(
    st.sampled_from(
        ["fever", "fevers", "cough", "rash", "asthma", "infant", "inf-ant", "TNF-alpha"]
    ),
    max_size=5,
).map(" ".join)
_articles = st.builds(
    Article,
    pmid=st.integers(1, 6).map(str),
    title=_texts,
    abstract=_texts,
    mesh=_texts.map(lambda text: (text,)),
    year=st.sampled_from([None, 1998, 2001, 2010]),
)
_corpora = st.lists(_articles, max_size=5, unique_by=lambda article: article.pmid)

CORPUS = (Article(pmid="1", title="asthma"), Article(pmid="2", abstract="IL-6 and vitamin D"))


@given(_corpora, well_formed, st.sampled_from(["all", "any"]))
def test_the_index_finds_exactly_the_articles_for_which_the_query_holds(
    corpus: list[Article], text: str, match: Match
) -> None:
    parsed = parse_query(text, match)
    assert isinstance(parsed, Query)
    local = LocalSearch.build(corpus)
    result = local.search(text, match=match)
    local.close()
    assert isinstance(result, SearchResult)
    assert sorted(result.pmids) == sorted(a.pmid for a in corpus if holds(parsed.root, a))
    assert result.count == len(result.pmids)


@given(anything, st.sampled_from(["all", "any"]))
@settings(max_examples=300)
def test_no_text_of_a_user_is_fts5_syntax(text: str, match: Match) -> None:
    local = LocalSearch.build(CORPUS)
    result = local.search(text, match=match)
    assert isinstance(result, SearchResult | QueryError)
    assert local.fetch(["1", "2"]) == {article.pmid: article for article in CORPUS}
    local.close()
