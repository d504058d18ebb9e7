"""ESearch answers as NCBI gives them: results, refusals, and what is no answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.factcheck.ncbi_answers import read_search
from clinical_envs.factcheck.ncbi_error import Fault
from clinical_envs.factcheck.query_error import QueryError, QueryProblem
from clinical_envs.factcheck.search import SearchResult
from tests.ncbi.server import COUNT, PMIDS, TRANSLATION, search_answer


def test_a_result_is_read_with_its_count_order_and_translation() -> None:
    assert read_search(search_answer(), 5) == SearchResult(
        count=COUNT, pmids=PMIDS, query_translation=TRANSLATION, warnings=()
    )


def test_a_count_may_be_a_number_and_a_text_may_hold_raw_control_characters() -> None:
    body = b'{"esearchresult": {"count": 1, "idlist": [7], "querytranslation": "a\tb"}}'
    assert read_search(body, 5) == SearchResult(
        count=1, pmids=("7",), query_translation="a\tb", warnings=()
    )


def test_nothing_found_is_a_result_and_names_the_phrase() -> None:
    body = json.dumps(
        {
            "esearchresult": {
                "count": "0",
                "idlist": [],
                "warninglist": {
                    "phrasesignored": [],
                    "quotedphrasesnotfound": ['"zzqqxx"'],
                    "outputmessages": ["No items found."],
                },
            }
        }
    ).encode()
    found = read_search(body, 5)
    assert isinstance(found, SearchResult)
    assert (found.count, found.pmids) == (0, ())
    assert found.warnings == ('phrase not found: "zzqqxx"',)


def test_a_search_that_dropped_half_of_its_terms_says_so_beside_its_many_hits() -> None:
    errors = {"phrasesnotfound": ["zzqqxx"], "fieldsnotfound": ["[nonsense]"]}
    warnings = {"phrasesignored": ["of"], "outputmessages": ["Restrictions achieved."]}
    found = read_search(search_answer(count="117000", errorlist=errors, warninglist=warnings), 5)
    assert isinstance(found, SearchResult)
    assert found.count == 117_000
    assert found.warnings == (
        "not found: zzqqxx",
        "no such field, ignored: [nonsense]",
        "ignored: of",
        "Restrictions achieved.",
    )


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (
            "Search Backend failed: Search is temporarily unavailable. Details: Cannot search "
            "because the number of wildcards (*) exceeds 256.",
            QueryProblem.BAD_TRUNCATION,
        ),
        ("Empty term and query_key - nothing todo", QueryProblem.EMPTY),
        ("Search Backend failed: Details: Empty Term in the request", QueryProblem.EMPTY),
    ],
)
def test_a_query_that_ncbi_refuses_is_a_value_although_it_reads_like_an_outage(
    error: str, problem: QueryProblem
) -> None:
    found = read_search(json.dumps({"esearchresult": {"ERROR": error}}).encode(), 5)
    assert isinstance(found, QueryError)
    assert found.problem is problem


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "nothing instead of JSON"),
        (b" <!DOCTYPE html><html></html>", "HTML instead of JSON"),
        (b'{"esearchresult": {"count": "14', "an incomplete or foreign text"),
        (b"[" * 100_000, "an incomplete or foreign text"),
        (b'{"error": "API rate limit exceeded", "count": "4"}', "API rate limit exceeded"),
        (b'{"header": {}}', "JSON without a result"),
        (b"[]", "JSON without a result"),
        (b'{"esearchresult": []}', "JSON without a result"),
        (b'{"esearchresult": {"ERROR": "Search Backend failed: Status: 500"}}', "Status: 500"),
        (b'{"esearchresult": {}}', "without count or PMIDs"),
        (b'{"esearchresult": {"count": "0"}}', "without count or PMIDs"),
        (b'{"esearchresult": {"idlist": []}}', "without count or PMIDs"),
        (b'{"esearchresult": {"count": null, "idlist": []}}', "without count or PMIDs"),
        (b'{"esearchresult": {"count": "-1", "idlist": []}}', "without count or PMIDs"),
        (b'{"esearchresult": {"count": "12", "idlist": []}}', "count 12 with 0 PMIDs"),
        (b'{"esearchresult": {"count": "0", "idlist": ["7"]}}', "count 0 with 1 PMIDs"),
        (b'{"esearchresult": {"count": "1", "idlist": ["x"]}}', "that can be read"),
    ],
)
def test_what_is_no_whole_result_is_a_fault_and_never_zero_hits(body: bytes, reason: str) -> None:
    with pytest.raises(Fault, match=reason):
        read_search(body, 5)


@given(st.integers(0, len(search_answer()) - 1))
def test_no_beginning_of_a_result_is_a_result(length: int) -> None:
    with pytest.raises(Fault):
        read_search(search_answer()[:length], 5)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_no_foreign_text_is_a_result(body: bytes) -> None:
    with pytest.raises(Fault):
        read_search(body, 5)
