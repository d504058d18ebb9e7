"""PubMed through E-utilities: what is sent, what comes back, what is kept, what is refused."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from clinical_envs.errors import ClinicalEnvsError, InvalidArgument, MissingExtra
from clinical_envs.factcheck import ncbi_transport
from clinical_envs.factcheck.ncbi import NcbiSearch
from clinical_envs.factcheck.ncbi_error import SearchUnavailable
from clinical_envs.factcheck.query_error import QueryError, QueryProblem
from clinical_envs.factcheck.search import SearchBackend, SearchResult
from tests.ncbi.conftest import Connect
from tests.ncbi.server import (
    ARTICLES,
    COUNT,
    KEY,
    PMIDS,
    TRANSLATION,
    EutilsServer,
    Failure,
    FakeClock,
    search_answer,
)

FOUND = SearchResult(count=COUNT, pmids=PMIDS, query_translation=TRANSLATION, warnings=())


def test_a_search_and_its_articles_come_back_in_the_order_of_pubmed(connect: Connect) -> None:
    backend: SearchBackend = connect()
    assert backend.search("aspirin AND stroke") == FOUND
    assert backend.fetch(PMIDS[::-1]) == dict(reversed(ARTICLES.items()))
    assert list(backend.fetch(["103", "101", "103"])) == ["103", "101"]


def test_what_is_sent(
    connect: Connect, server: EutilsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCBI_API_KEY", KEY)
    monkeypatch.setenv("NCBI_EMAIL", "someone@example.org")
    backend = connect()
    backend.search("  IL-6   AND\nTNF-α\x00", limit=3)
    backend.fetch(["101", "102"])
    common = {
        "db": "pubmed",
        "tool": "clinical-envs",
        "email": "someone@example.org",
        "api_key": KEY,
    }
    assert server.requests == [
        (
            "esearch",
            common
            | {"term": "IL-6 AND TNF-α", "retmax": "3", "retmode": "json", "sort": "relevance"},
        ),
        ("efetch", common | {"id": "101,102", "retmode": "xml"}),
    ]


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("", QueryProblem.EMPTY),
        ("AND", QueryProblem.MISSING_OPERAND),
        ("(asthma AND", QueryProblem.MISSING_OPERAND),
        ('"asthma', QueryProblem.UNCLOSED_QUOTE),
        ("[tiab]", QueryProblem.TAG_WITHOUT_TERM),
        ("x" * 4_001, QueryProblem.TOO_LONG),
    ],
)
def test_what_pubmed_would_mend_in_silence_is_refused_before_it_is_sent(
    connect: Connect, server: EutilsServer, query: str, problem: QueryProblem
) -> None:
    found = connect().search(query)
    assert isinstance(found, QueryError)
    assert found.problem is problem
    assert server.requests == []


@pytest.mark.parametrize(
    "query", ["smith j[au]", '"last 5 years"[dp]', "wom*n", "humans[mh:noexp]"]
)
def test_syntax_that_only_pubmed_knows_is_left_to_pubmed(
    connect: Connect, server: EutilsServer, query: str
) -> None:
    assert connect().search(query) == FOUND
    assert server.requests[0][1]["term"] == query


def test_matching_any_sends_the_alternatives_and_says_that_the_query_was_relaxed(
    connect: Connect, server: EutilsServer
) -> None:
    found = connect().search("does aspirin prevent stroke", match="any")
    assert server.requests[0][1]["term"] == '"aspirin" OR "prevent" OR "stroke"'
    assert isinstance(found, SearchResult)
    assert any(warning.startswith("relaxed") for warning in found.warnings)
    assert isinstance(connect().search("smith j[au]", match="any"), QueryError)


def test_a_query_that_ncbi_refuses_is_a_value_and_is_not_put_again(
    connect: Connect, server: EutilsServer
) -> None:
    error = "temporarily unavailable. Cannot search because the number of wildcards (*) exceeds 256"
    server.answers["esearch"] = search_answer(ERROR=error)
    found = connect().search("care*")
    assert isinstance(found, QueryError)
    assert found.problem is QueryProblem.BAD_TRUNCATION
    assert len(server.requests) == 1
    assert connect(offline=True).search("care*") == found


@pytest.mark.parametrize("limit", [0, 10_000])
def test_a_limit_that_pubmed_cannot_serve_is_refused(connect: Connect, limit: int) -> None:
    with pytest.raises(InvalidArgument, match="1 to 9999"):
        connect().search("aspirin", limit=limit)


def test_five_times_429_then_an_answer_and_every_pause_is_told(
    connect: Connect, server: EutilsServer, clock: FakeClock
) -> None:
    server.failures.extend([Failure.TOO_MANY] * 5)
    said: list[str] = []
    assert connect(say=said.append).search("aspirin") == FOUND
    assert [pause for pause in clock.sleeps if pause >= 1] == [1, 2, 4, 8, 16]
    assert said[-1].startswith("NCBI esearch: HTTP 429; asking again in 16 s (patience: ")
    assert len(said) == 5


def test_the_pause_that_the_server_asks_for_is_kept(
    connect: Connect, server: EutilsServer, clock: FakeClock
) -> None:
    server.failures.extend([Failure.TOO_MANY_WITH_PAUSE] * 2)
    assert connect().search("aspirin") == FOUND
    assert clock.sleeps == [3, 3]


@pytest.mark.parametrize("failure", [f for f in Failure if f is not Failure.MISSING])
def test_an_outage_raises_one_line_when_the_patience_is_over(
    connect: Connect, server: EutilsServer, clock: FakeClock, failure: Failure
) -> None:
    server.forever = failure
    real = {Failure.SLOW: 0.1, Failure.TRICKLE: 0.1}.get(failure, 5.0)
    options = {"clock": None, "patience_s": 0.3} if failure is Failure.TRICKLE else {}
    backend = connect(timeout_s=real, **{"patience_s": 20.0} | options)
    began = clock.now()
    for call in (lambda: backend.search("aspirin"), lambda: backend.fetch(["101"])):
        with pytest.raises(SearchUnavailable, match=r"gave no answer: .* tries") as caught:
            call()
        assert len(str(caught.value).splitlines()) == 1
        assert caught.value.__cause__ is caught.value.__context__ is None
    assert isinstance(caught.value, ClinicalEnvsError)
    assert clock.now() - began <= 2 * 20


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (400, f'{{"error":"API key invalid","api-key":"{KEY}"}}', "correct it or unset it"),
        (404, "not here", "answers HTTP 404; check the address"),
        (301, "", "answers HTTP 301; check the address"),
    ],
)
def test_what_no_patience_can_mend_raises_at_once(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, status: int, body: str, message: str
) -> None:
    httpx = pytest.importorskip("httpx", reason="pip install 'clinical-envs[evidence]'")
    monkeypatch.setenv("NCBI_API_KEY", KEY)
    answers = httpx.MockTransport(lambda _: httpx.Response(status, text=body))
    monkeypatch.setattr(httpx, "Client", partial(httpx.Client, transport=answers))
    with pytest.raises(SearchUnavailable, match=message) as caught:
        connect().search("aspirin")
    assert KEY not in str(caught.value)


def test_a_flood_is_not_taken_in(
    connect: Connect, server: EutilsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ncbi_transport, "MAX_ANSWER_BYTES", 10_000)
    server.answers["esearch"] = b" " * 20_000
    with pytest.raises(SearchUnavailable, match="more than 10000 bytes"):
        connect().search("aspirin")
    assert len(server.requests) == 1


def test_a_record_that_is_left_out_is_asked_for_once_more(
    connect: Connect, server: EutilsServer
) -> None:
    server.failures.append(Failure.MISSING)
    said: list[str] = []
    assert connect(say=said.append).fetch(PMIDS) == ARTICLES
    assert [form["id"] for _, form in server.requests] == [",".join(PMIDS)] * 2
    assert said == []


def test_three_of_five_records_are_three_articles_and_a_report_of_two(
    connect: Connect, server: EutilsServer
) -> None:
    said: list[str] = []
    backend = connect(say=said.append)
    asked = ["101", "8", "102", "9", "103"]
    found = backend.fetch(asked)
    assert list(found) == ["101", "102", "103"]
    assert said == ["NCBI has no record of PMID 8, 9"]
    assert [form["id"] for _, form in server.requests] == ["101,8,102,9,103", "8,9"]
    assert connect(offline=True).fetch(asked) == found
    backend.fetch(asked)  # a record may have come since
    assert server.requests[-1][1]["id"] == "8,9"


def test_many_records_are_fetched_in_batches(connect: Connect, server: EutilsServer) -> None:
    asked = [str(pmid) for pmid in range(101, 301)]
    assert set(connect().fetch([*asked, "301"])) == set(PMIDS)
    assert [form["id"].count(",") + 1 for _, form in server.requests] == [200, 195, 1, 1]


@pytest.mark.parametrize("pmids", [[], ["PMC1"], ["0012"], [""], ["１２"], ["1 OR 2"]])
def test_what_is_no_pmid_is_absent_and_is_not_sent(
    connect: Connect, server: EutilsServer, pmids: list[str]
) -> None:
    assert connect().fetch(pmids) == {}
    assert server.requests == []


def test_what_was_answered_once_is_not_asked_again_until_it_is_refreshed(
    connect: Connect, server: EutilsServer
) -> None:
    first = connect()
    first.search("aspirin")
    first.fetch(PMIDS)
    sent = len(server.requests)
    assert connect().search(" aspirin ") == FOUND
    assert connect().fetch(PMIDS[:2]) == {p: ARTICLES[p] for p in PMIDS[:2]}
    assert len(server.requests) == sent
    server.answers["esearch"] = search_answer(count="2000")
    fresh = connect(refresh=True)
    found = fresh.search("aspirin")
    assert isinstance(found, SearchResult)
    assert found.count == 2000
    assert fresh.fetch(PMIDS) == ARTICLES
    assert len(server.requests) == sent + 2
    assert connect(offline=True).search("aspirin") == found


def test_offline_replay_gives_the_same_and_sends_nothing(
    connect: Connect, server: EutilsServer
) -> None:
    online = connect()
    queries = ["aspirin AND stroke", "vitamin D[tiab]", "zinc"]
    results = [online.search(query, limit=n) for query, n in zip(queries, (5, 3, 1), strict=True)]
    relaxed = online.search("does zinc help", match="any")
    articles = online.fetch(PMIDS)
    sent = len(server.requests)
    offline = connect(offline=True)
    assert [offline.search(q, limit=n) for q, n in zip(queries, (5, 3, 1), strict=True)] == results
    assert offline.search("does zinc help", match="any") == relaxed
    assert offline.fetch(PMIDS) == articles
    assert len(server.requests) == sent


def test_offline_a_miss_raises_one_line(connect: Connect) -> None:
    connect().search("aspirin")
    offline = connect(offline=True)
    for call in (lambda: offline.search("zinc"), lambda: offline.fetch(["101"])):
        with pytest.raises(
            SearchUnavailable, match=r"offline, and .* is not in the cache"
        ) as caught:
            call()
        assert len(str(caught.value).splitlines()) == 1


def test_replay_needs_no_http_library(
    connect: Connect, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect().search("aspirin")

    def missing(module: str, extra: str) -> None:
        raise MissingExtra(f"{module} is not installed; run: pip install 'clinical-envs[{extra}]'")

    monkeypatch.setattr("clinical_envs.factcheck.ncbi_transport.require", missing)
    with NcbiSearch(cache, offline=True) as offline:
        assert offline.search("aspirin") == FOUND
    with pytest.raises(MissingExtra, match=r"clinical-envs\[evidence\]"):
        NcbiSearch(cache)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"offline": True, "refresh": True}, "exclude each other"),
        ({"offline": True}, "no cache .* to replay from"),
        ({"base_url": "eutils.ncbi.nlm.nih.gov"}, "give https://"),
        ({"patience_s": 0.0}, "above 0"),
        ({"timeout_s": float("nan")}, "above 0"),
    ],
)
def test_nonsense_is_refused_before_anything_is_sent(
    connect: Connect, options: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        connect(**options)
