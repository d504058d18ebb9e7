from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from clinical_envs.errors import InvalidArgument, MissingExtra
from clinical_envs.factcheck.corpus import Article, LabelledClaim
from clinical_envs.factcheck.query import MAX_DEPTH, Match
from clinical_envs.factcheck.query_error import QueryError, QueryProblem
from clinical_envs.factcheck.search import LocalSearch, SearchBackend, SearchResult


@pytest.fixture(scope="module")
def local(articles: tuple[Article, ...]) -> Iterator[LocalSearch]:
    index = LocalSearch.build(articles)
    yield index
    index.close()


def found(local: SearchBackend, query: str, match: Match = "all") -> SearchResult:
    result = local.search(query, match=match)
    assert isinstance(result, SearchResult), result
    return result


def test_sqlite_accepts_the_deepest_queries_on_either_side(local: LocalSearch) -> None:
    left = right = "2001:2009[dp]"
    for i in range(MAX_DEPTH - 1):
        operator = ("AND", "OR", "NOT")[i % 3]
        left = f"({left}) {operator} asthma"
        right = f"asthma {operator} ({right})"
    for query in (left, right):
        assert isinstance(local.search(query), SearchResult)


def test_sqlite_accepts_two_thousand_terms(local: LocalSearch) -> None:
    assert found(local, "x " * 2_000).count == 0


@pytest.mark.parametrize(
    ("query", "pmids"),
    [
        ("IL-6 AND aspirin", {"101"}),
        ("TNF-alpha", {"102"}),
        ("tnf-Α", {"102"}),
        ("covid-19 NOT (children OR infant*)", set()),
        ("vitamin D[tiab]", {"102", "103"}),
        ("vitamin D[mesh]", {"103"}),
        ("infant* OR child*", {"102", "103"}),
        ("infan*[mesh]", {"103"}),
        ("asthma NOT infants", {"104"}),
        ("asthma AND 1987[dp]", {"104"}),
        ("2011:2021[dp]", {"101", "102", "103"}),
        ("2011", set()),
        ("101[pmid] OR 104[pmid]", {"101", "104"}),
        ("0101[pmid]", set()),
        ("results", set()),
        ("result*", set()),
        ("supplements[tiab]", {"103"}),
        ("supplements[ti]", set()),
        ("CO2 rose", {"102"}),
        ("fever＂ OR ＂asthma", {"103", "104"}),
    ],
)
def test_a_query_finds(local: LocalSearch, query: str, pmids: set[str]) -> None:
    assert set(found(local, query).pmids) == pmids


def test_a_bad_query_is_a_value_and_finds_nothing(local: LocalSearch) -> None:
    result = local.search("(asthma AND")
    assert isinstance(result, QueryError)
    assert result.problem is QueryProblem.MISSING_OPERAND


def test_zero_hits_name_the_terms_that_occur_nowhere(local: LocalSearch) -> None:
    result = found(local, "asthma zeppelin[tiab] stroke")
    assert (result.count, result.pmids) == (0, ())
    assert result.query_translation == '"asthma zeppelin"[tiab] AND "stroke"'
    assert result.warnings[-1] == 'not found: "asthma zeppelin"[tiab]'


def test_a_relaxed_search_finds_more_and_says_that_it_was_relaxed(local: LocalSearch) -> None:
    question = "does vitamin D prevent asthma in covid-19?"
    assert found(local, question).count == 0
    relaxed = found(local, question, "any")
    assert set(relaxed.pmids) == {"102", "103", "104"}
    assert any(warning.startswith("relaxed") for warning in relaxed.warnings)


def test_the_limit_cuts_the_list_but_not_the_count(local: LocalSearch) -> None:
    result = local.search("1900:2100[dp]", limit=2)
    assert isinstance(result, SearchResult)
    assert (result.count, result.pmids) == (4, ("101", "102"))
    with pytest.raises(InvalidArgument, match="limit is 0"):
        local.search("asthma", limit=0)


def test_ties_go_to_the_smaller_pmid_whatever_the_order_of_the_corpus() -> None:
    same = [Article(pmid=pmid, title="asthma in adults") for pmid in ("9", "10", "2")]
    for corpus in (same, same[::-1]):
        local = LocalSearch.build(corpus)
        assert found(local, "asthma").pmids == ("2", "9", "10")
        local.close()


def test_a_word_in_the_title_outranks_the_same_word_in_the_abstract() -> None:
    local = LocalSearch.build(
        [
            Article(pmid="1", title="cough", abstract="asthma"),
            Article(pmid="2", title="asthma", abstract="cough"),
            Article(pmid="3", title="rash", abstract="rash"),
        ]
    )
    assert found(local, "asthma").pmids == ("2", "1")
    local.close()


def test_articles_come_back_whole_and_unknown_pmids_are_absent(
    local: LocalSearch, articles: tuple[Article, ...]
) -> None:
    wanted = ["103", "999", "101", "0101", " 102", "PMC102", "\ud800", "9" * 30]
    assert local.fetch(wanted) == {"103": articles[2], "101": articles[0]}


def test_an_index_file_answers_as_the_index_in_memory(
    local: LocalSearch, articles: tuple[Article, ...], tmp_path: Path
) -> None:
    path = tmp_path / "corpus.sqlite"
    LocalSearch.build(articles, path).close()
    with pytest.raises(InvalidArgument, match="exists"):
        LocalSearch.build(articles, path)
    opened = LocalSearch.open(path)
    assert opened.search("vitamin OR aspirin") == local.search("vitamin OR aspirin")
    assert opened.fetch(["102"]) == local.fetch(["102"])
    opened.close()


def test_a_file_that_is_no_complete_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no index file"):
        LocalSearch.open(tmp_path / "absent")
    text = tmp_path / "text"
    text.write_text("not a database, but long enough to be looked at" * 100)
    unfinished = tmp_path / "unfinished"
    with pytest.raises(InvalidArgument, match="PMID 1 occurs twice"):
        LocalSearch.build([Article(pmid="1"), Article(pmid="1")], unfinished)
    for path in (text, unfinished):
        with pytest.raises(InvalidArgument, match="is no index of layout"):
            LocalSearch.open(path)


def test_an_sqlite_without_fts5_gives_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutFTS5(sqlite3.Connection):
        def executescript(self, script: str, /) -> sqlite3.Cursor:
            return super().executescript(script.replace("USING fts5", "USING fts5_is_not_here"))

    connect = sqlite3.connect
    without = partial(connect, factory=WithoutFTS5)
    monkeypatch.setattr(sqlite3, "connect", without)
    with pytest.raises(MissingExtra, match=r"^this Python's SQLite was built without FTS5.*$"):
        LocalSearch.build([])


def test_questions_find_their_own_abstract_among_a_thousand(
    pubmedqa: tuple[tuple[Article, ...], tuple[LabelledClaim, ...]],
) -> None:
    corpus, claims = pubmedqa
    local = LocalSearch.build(corpus)
    start = time.process_time()
    results = [local.search(claim.text, match="any") for claim in claims]
    seconds = time.process_time() - start
    local.close()
    hits = [
        isinstance(result, SearchResult) and claim.pmids[0] in result.pmids
        for claim, result in zip(claims, results, strict=True)
    ]
    assert sum(hits) / len(claims) >= 0.98
    assert seconds / len(claims) <= 0.008
