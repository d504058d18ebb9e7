"""PubMed itself as a search back-end: NCBI E-utilities, with a cache that can be replayed.

A failure is never zero hits: a search gives NCBI's own answer, or raises ``SearchUnavailable``.

- The query goes to PubMed as it is written. What PubMed would silently mend (an operator without
  an operand, a quote that is never closed) is refused as by ``LocalSearch``; fields, years and
  truncation are left to PubMed, which knows more of them.
- ``match="any"`` sends the alternatives that ``LocalSearch`` would search, and says so.
- Requests start at most 3 times a second (10 with a key), counted over all threads and processes
  that share a cache file.
- What was answered once is answered from the cache, until ``refresh`` asks for it again.
- ``NCBI_API_KEY`` and ``NCBI_EMAIL`` are read from the environment and from nowhere else.

Needs the extra ``evidence`` (httpx), except for replay.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from clinical_envs.errors import InvalidArgument
from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.ncbi_answers import read_search
from clinical_envs.factcheck.ncbi_cache import NcbiCache
from clinical_envs.factcheck.ncbi_error import SearchUnavailable
from clinical_envs.factcheck.ncbi_records import read_articles
from clinical_envs.factcheck.ncbi_transport import Clock, Eutils, Say, SystemClock
from clinical_envs.factcheck.query import Match, parse_query
from clinical_envs.factcheck.query_ast import to_pubmed
from clinical_envs.factcheck.query_error import QueryError, QueryProblem
from clinical_envs.factcheck.search import SearchResult

BASE_URL = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils"
MAX_RESULTS = 9_999  # PubMed lists no more
_BATCH = 200  # records a request
_PMID = re.compile(r"[1-9][0-9]{0,8}")
_LEFT_TO_PUBMED = {
    QueryProblem.UNKNOWN_FIELD,
    QueryProblem.BAD_YEAR,
    QueryProblem.BAD_TRUNCATION,
}


class NcbiSearch:
    """PubMed through E-utilities; see the module for its rules. May be used from any thread.

    ``offline`` answers from the cache alone and opens it read-only. ``refresh`` asks NCBI also for
    what the cache holds; where that fails the entry stays. ``patience_s`` bounds the time a
    question is put again for, ``timeout_s`` the time of one answer. ``say`` is told of every
    retry and every missing record.

    Raises:
        InvalidArgument: ``cache`` is no cache of NCBI answers; ``offline`` without a cache or
            with ``refresh``; an address or time that is none.
        MissingExtra: httpx is not installed.
    """

    def __init__(
        self,
        cache: Path,
        *,
        offline: bool = False,
        refresh: bool = False,
        say: Say | None = None,
        base_url: str = BASE_URL,
        patience_s: float = 120.0,
        timeout_s: float = 30.0,
        clock: Clock | None = None,
    ) -> None:
        if offline and refresh:
            raise InvalidArgument("offline and refresh exclude each other; choose one")
        self._cache = NcbiCache(cache, read_only=offline)
        self._refresh = refresh
        self._say = say
        self._eutils: Eutils | None = None
        if offline:
            return
        try:
            self._eutils = Eutils(
                base_url,
                claim_start=self._cache.claim_start,
                clock=clock or SystemClock(),
                say=say,
                patience_s=patience_s,
                timeout_s=timeout_s,
            )
        except BaseException:
            self._cache.close()
            raise

    def close(self) -> None:
        """Close the connections and the cache."""
        if self._eutils is not None:
            self._eutils.close()
        self._cache.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exit: object) -> None:
        self.close()

    def search(
        self, query: str, *, limit: int = 5, match: Match = "all"
    ) -> SearchResult | QueryError:
        """The ``limit`` articles that PubMed ranks first for a query, or why it is none.

        Raises:
            InvalidArgument: ``limit`` outside 1 to 9,999.
            SearchUnavailable: NCBI does not answer, or offline the cache does not hold it.
        """
        if not 1 <= limit <= MAX_RESULTS:
            raise InvalidArgument(f"limit is {limit}; ask for 1 to {MAX_RESULTS} articles")
        parsed = parse_query(query, match)
        if match == "any":
            if isinstance(parsed, QueryError):
                return parsed
            answer = self._search(to_pubmed(parsed.root), limit)
            if isinstance(answer, QueryError):
                return answer
            return SearchResult(
                count=answer.count,
                pmids=answer.pmids,
                query_translation=answer.query_translation,
                warnings=parsed.warnings + answer.warnings,
            )
        if isinstance(parsed, QueryError) and parsed.problem not in _LEFT_TO_PUBMED:
            return parsed
        printable = "".join(c if c.isprintable() else " " for c in query)
        return self._search(" ".join(printable.split()), limit)

    def _search(self, term: str, limit: int) -> SearchResult | QueryError:
        kept = None if self._refresh else self._cache.search(term, limit)
        if kept is not None:
            return kept
        fields = {"term": term, "retmax": str(limit), "retmode": "json", "sort": "relevance"}
        answer = self._online(f"the search {term[:60]!r}").ask(
            "esearch", fields, lambda body: read_search(body, limit)
        )
        self._cache.keep_search(term, limit, answer)
        return answer

    def fetch(self, pmids: Sequence[str]) -> dict[str, Article]:
        """The articles of these PMIDs, in their order; unknown ones are absent.

        A record that NCBI leaves out is asked for once more, then reported through ``say``.
        Retracted articles say so in their title.

        Raises:
            SearchUnavailable: NCBI does not answer, or offline the cache does not hold it.
        """
        asked = [pmid for pmid in dict.fromkeys(pmids) if _PMID.fullmatch(pmid)]
        kept = {} if self._refresh else self._cache.articles(asked)
        found = {pmid: article for pmid, article in kept.items() if article is not None}
        known = found if self._eutils else kept  # a record that was missing may have come since
        wanted = [pmid for pmid in asked if pmid not in known]
        for start in range(0, len(wanted), _BATCH):
            found |= self._fetch(wanted[start : start + _BATCH])
        return {pmid: found[pmid] for pmid in asked if pmid in found}

    def _fetch(self, pmids: Sequence[str]) -> dict[str, Article]:
        eutils = self._online(f"PMID {pmids[0]}")
        found: dict[str, Article] = {}
        missing = list(pmids)
        for _ in range(2):
            fields = {"id": ",".join(missing), "retmode": "xml"}
            answer = eutils.ask("efetch", fields, read_articles)
            arrived = {pmid: answer[pmid] for pmid in missing if pmid in answer}
            self._cache.keep_articles(arrived, ())
            found |= arrived
            missing = [pmid for pmid in missing if pmid not in arrived]
            if not missing:
                return found
        self._cache.keep_articles({}, missing)
        if self._say is not None:
            self._say(f"NCBI has no record of PMID {', '.join(missing)}")
        return found

    def _online(self, what: str) -> Eutils:
        if self._eutils is None:
            raise SearchUnavailable(
                f"offline, and {what} is not in the cache {self._cache.path}; search it online once"
            )
        return self._eutils
