"""NCBI's answers on disk: one SQLite file for any number of threads and processes.

An entry is replaced only by a newer answer, in one transaction, so a failed refresh costs
nothing. Neither the key nor anything else of a request but its term is stored.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from clinical_envs.errors import InvalidArgument
from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.ncbi_error import SearchUnavailable
from clinical_envs.factcheck.query_error import QueryError
from clinical_envs.factcheck.search import SearchResult

Answer = SearchResult | QueryError
_ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)
_LAYOUT = 1  # PRAGMA user_version of a cache
_LOCK_S = 60.0
_SCHEMA = (
    "CREATE TABLE search (term TEXT, retmax INTEGER, answer TEXT NOT NULL,"
    " PRIMARY KEY (term, retmax))",
    "CREATE TABLE article (pmid TEXT PRIMARY KEY, record TEXT)",  # NULL: NCBI had none
    "CREATE TABLE pace (free_at REAL NOT NULL)",
    "INSERT INTO pace VALUES (0)",
    f"PRAGMA user_version = {_LAYOUT}",
)
_KEEP_SEARCH = """
    INSERT INTO search VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET answer = excluded.answer
"""
_KEEP_ARTICLE = """
    INSERT INTO article VALUES (?, ?)
    ON CONFLICT DO UPDATE SET record = excluded.record
"""
_LONGEST_QUEUE_S = 60.0  # a start further ahead was claimed before the clock was reset


class NcbiCache:
    """Searches, articles, and the starts of requests to come.

    Raises:
        InvalidArgument: the file is no such cache, or is absent and ``read_only`` wants it.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._lock = threading.Lock()
        if read_only and not path.is_file():
            raise InvalidArgument(f"no cache {path} to replay from; search online first")
        try:
            if not read_only:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}",
                uri=True,
                timeout=_LOCK_S,
                isolation_level=None,
                check_same_thread=False,
            )
        except (OSError, sqlite3.Error) as error:
            raise InvalidArgument(f"cache {path} cannot be opened ({error})") from None
        try:
            self._check(create=not read_only)
        except BaseException:
            self._connection.close()
            raise

    def _check(self, *, create: bool) -> None:
        try:
            if create:
                with self._writing() as connection:
                    if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                        for statement in _SCHEMA:
                            connection.execute(statement)
            layout = self._connection.execute("PRAGMA user_version").fetchone()[0]
        except (sqlite3.Error, SearchUnavailable):
            layout = None
        if layout != _LAYOUT:
            raise InvalidArgument(
                f"{self.path} is no cache of NCBI answers of layout {_LAYOUT}, or cannot be "
                "written; name another file"
            )

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._connection.close()

    def search(self, term: str, retmax: int) -> Answer | None:
        """The stored answer to a search, or None."""
        kept = self._row("SELECT answer FROM search WHERE term = ? AND retmax = ?", term, retmax)
        return None if kept is None else _ANSWER.validate_json(kept[0])

    def articles(self, pmids: Iterable[str]) -> dict[str, Article | None]:
        """What is stored of these PMIDs; None for one of which NCBI had no record."""
        found = {}
        for pmid in pmids:
            kept = self._row("SELECT record FROM article WHERE pmid = ?", pmid)
            if kept is not None:
                found[pmid] = None if kept[0] is None else Article.model_validate_json(kept[0])
        return found

    def _row(self, query: str, *values: str | int) -> Any:
        with self._lock:
            try:
                return self._connection.execute(query, values).fetchone()
            except sqlite3.Error as error:
                raise SearchUnavailable(
                    f"cache {self.path} cannot be read ({error}); name another file"
                ) from None

    def keep_search(self, term: str, retmax: int, answer: Answer) -> None:
        """Store the answer to a search."""
        with self._writing() as connection:
            connection.execute(_KEEP_SEARCH, (term, retmax, _ANSWER.dump_json(answer).decode()))

    def keep_articles(self, articles: Mapping[str, Article], absent: Sequence[str]) -> None:
        """Store articles, and which PMIDs NCBI had no record of; that replaces no record."""
        with self._writing() as connection:
            connection.executemany(
                _KEEP_ARTICLE,
                [(pmid, article.model_dump_json()) for pmid, article in articles.items()],
            )
            connection.executemany(
                "INSERT OR IGNORE INTO article VALUES (?, NULL)", [(pmid,) for pmid in absent]
            )

    def claim_start(self, now: float, interval_s: float) -> float:
        """The next free moment to start a request, and its claim: starts are an interval apart."""
        with self._writing() as connection:
            free_at: float = connection.execute("SELECT free_at FROM pace").fetchone()[0]
            start = max(now, free_at) if free_at - now < _LONGEST_QUEUE_S else now
            connection.execute("UPDATE pace SET free_at = ?", (start + interval_s,))
        return start

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that other processes wait for; nothing of it stays if it fails."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self._connection
                    self._connection.execute("COMMIT")
                except BaseException:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise SearchUnavailable(
                    f"cache {self.path} cannot be written ({error}); name another file"
                ) from None
