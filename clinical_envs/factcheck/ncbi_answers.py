"""ESearch answers: JSON bytes -> result or named query error, and anything else a fault.

Zero hits are believed only where NCBI says so itself: ``"count": "0"`` in a whole answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from clinical_envs.factcheck.ncbi_error import Fault
from clinical_envs.factcheck.query_error import QueryError, QueryProblem
from clinical_envs.factcheck.search import SearchResult

# NCBI words these like an outage ("temporarily unavailable"), yet asking again never helps
_REFUSALS = {
    "number of wildcards": (
        QueryProblem.BAD_TRUNCATION,
        "PubMed takes at most 256 truncated words in a query; use fewer '*'",
    ),
    "empty term": (QueryProblem.EMPTY, "PubMed finds no term in the query; give at least one"),
}
_NOTICES = (
    ("errorlist", "phrasesnotfound", "not found: "),
    ("errorlist", "fieldsnotfound", "no such field, ignored: "),
    ("warninglist", "phrasesignored", "ignored: "),
    ("warninglist", "quotedphrasesnotfound", "phrase not found: "),
    ("warninglist", "outputmessages", ""),
)
_NOTHING = "No items found."  # says no more than the count does


def read_search(body: bytes, limit: int) -> SearchResult | QueryError:
    """The result in an ESearch answer (``retmode=json``), or why PubMed refuses the query.

    Terms that PubMed did not find are left out of its search, which can then find a great deal;
    the warnings name them.

    Raises:
        Fault: anything but a whole answer.

    >>> read_search(b'{"esearchresult": {"count": "0", "idlist": []}}', 5).count
    0
    """
    try:
        answer = json.loads(body, strict=False)
    except (ValueError, RecursionError):
        raise Fault(f"{_kind(body)} instead of JSON") from None
    found = answer.get("esearchresult") if isinstance(answer, dict) else None
    if not isinstance(found, dict):
        told = answer.get("error") if isinstance(answer, dict) else None
        raise Fault(str(told or "JSON without a result"))
    if error := found.get("ERROR") or found.get("error"):
        return _refusal(str(error))
    return _result(found, limit)


def _kind(body: bytes) -> str:
    start = body[:200].lstrip().lower()
    if not start:
        return "nothing"
    if start.startswith((b"<!doctype html", b"<html")):
        return "HTML"
    return "an incomplete or foreign text"


def _refusal(error: str) -> QueryError:
    for words, (problem, message) in _REFUSALS.items():
        if words in error.lower():
            return QueryError(problem=problem, position=0, message=message)
    raise Fault(error)


def _result(found: dict[str, Any], limit: int) -> SearchResult:
    count, pmids = str(found.get("count")), found.get("idlist")
    if not (count.isascii() and count.isdigit() and isinstance(pmids, list)):
        raise Fault("a result without count or PMIDs")
    texts = [str(pmid) for pmid in pmids]
    if bool(int(count)) != bool(texts) or not all(t.isascii() and t.isdigit() for t in texts):
        raise Fault(f"count {count} with {len(texts)} PMIDs that can be read")
    return SearchResult(
        count=int(count),
        pmids=tuple(texts[:limit]),
        query_translation=str(found.get("querytranslation") or ""),
        warnings=tuple(_warnings(found)),
    )


def _warnings(found: dict[str, Any]) -> Iterator[str]:
    for listed, name, start in _NOTICES:
        notices = found.get(listed)
        texts = notices.get(name) if isinstance(notices, dict) else None
        for text in texts if isinstance(texts, list) else ():
            if text != _NOTHING:
                yield f"{start}{text}"
