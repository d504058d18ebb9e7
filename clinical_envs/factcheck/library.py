"""The literature of one case: which body of evidence a PubMed query retrieves.

A query is run over the entries of the case, `studies.listings`: forty studies in eight bodies of
evidence, and studies of neighbouring claims. The body of the best hit is what the query
retrieves, with all five of its studies, so that one search gives one answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.designs import DESIGNS
from clinical_envs.factcheck.query_error import QueryError
from clinical_envs.factcheck.search import LocalSearch
from clinical_envs.factcheck.studies import STUDIES, listings, study
from clinical_envs.factcheck.topics import topic

_SHOWN_WARNINGS, _SHOWN_CHARS = 5, 80


class Miss(StrEnum):
    """Why a search retrieves nothing."""

    BAD_QUERY = "bad_query"
    NO_HITS = "no_hits"
    OFF_TOPIC = "off_topic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """A search that retrieves nothing: why, and what its writer can learn from it.

    detail: JSON-ready; of a bad query its problem, position and message, of one without hits how
    it was read, of one off the topic the title of the best hit.
    """

    miss: Miss
    detail: dict[str, Any]


@lru_cache(maxsize=1024)
def retrieve(identity: str, family: str, query: str) -> str | Missed:
    """The body of evidence that a query retrieves in the literature of a case; total."""
    index, entries = _index(identity, family)
    found = index.search(query, limit=1)
    if isinstance(found, QueryError):
        detail = {
            "problem": found.problem.value,
            "position": found.position,
            "message": found.message,
        }
        return Missed(miss=Miss.BAD_QUERY, detail=detail)
    if not found.pmids:
        warnings = [warning[:_SHOWN_CHARS] for warning in found.warnings[:_SHOWN_WARNINGS]]
        return Missed(miss=Miss.NO_HITS, detail={"count": found.count, "warnings": warnings})
    entry, body = entries[found.pmids[0]]
    if body is None:
        return Missed(miss=Miss.OFF_TOPIC, detail={"count": found.count, "best": entry.title})
    return body


@lru_cache(maxsize=32)
def _index(identity: str, family: str) -> tuple[LocalSearch, dict[str, tuple[Article, str | None]]]:
    entries = listings(identity, family)
    return LocalSearch.build(article for article, _ in entries.values()), entries


def canonical_query(identity: str, family: str, body: str) -> str:
    """A Boolean query that retrieves one body of evidence."""
    about = topic(identity, family)
    return f'{about.drug.name} AND "{about.outcome}" AND "{DESIGNS[body].phrase}"'


def retrieved(
    identity: str, family: str, seen: Mapping[str, bool]
) -> dict[str, tuple[str, Article]]:
    """The studies of the bodies seen, by PMID, each with the body it belongs to."""
    return {
        article.pmid: (body, article)
        for body, leans_for in seen.items()
        for index in range(STUDIES)
        for article in [study(identity, family, body, index, leans_for)]
    }
