"""Searching a corpus: the protocol of a back-end, and the local one over SQLite FTS5.

``match="all"`` is PubMed: adjacent terms must all occur. Long questions then rarely find
anything, so a caller who has a question in plain words says ``match="any"``: adjacent terms
become alternatives, ranking does the rest, explicit operators keep their meaning, and a warning
in the result says that the query was relaxed. It is never done silently.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from clinical_envs.errors import InvalidArgument, MissingExtra
from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.query import Match, parse_query
from clinical_envs.factcheck.query_ast import Node, index_text, terms, to_fts5, to_pubmed
from clinical_envs.factcheck.query_error import QueryError


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What a search found: how many articles, the best of them, how the query was read."""

    count: int
    pmids: tuple[str, ...]
    query_translation: str
    warnings: tuple[str, ...]


class SearchBackend(Protocol):
    """Anything that answers PubMed queries.

    A bad query is a value, so that it can be told to an agent; a back-end that cannot answer
    raises, so that an outage is never mistaken for zero hits.
    """

    def search(
        self, query: str, *, limit: int = 5, match: Match = "all"
    ) -> SearchResult | QueryError:
        """The best ``limit`` articles for a query."""
        ...

    def fetch(self, pmids: Sequence[str]) -> dict[str, Article]:
        """The articles of these PMIDs, in their order; unknown ones are absent."""
        ...


_LAYOUT = 1  # PRAGMA user_version of a complete index
_SCHEMA = """
    CREATE TABLE article (pmid TEXT PRIMARY KEY, record TEXT NOT NULL);
    CREATE VIRTUAL TABLE idx USING fts5(
        pmid, title, abstract, mesh, year, content='', tokenize='unicode61 remove_diacritics 2'
    );
"""
_RANKED = """
    SELECT rowid FROM idx WHERE idx MATCH ?
    ORDER BY bm25(idx, 0, 2, 1, 1.5, 0), rowid LIMIT ?
"""
_RECORD = "SELECT record FROM article WHERE pmid = ?"
_COUNT = "SELECT count(*) FROM idx WHERE idx MATCH ?"


class LocalSearch:
    """An FTS5 index over a corpus; the same corpus and query always give the same result.

    Rank is bm25 with column weights title 2, abstract 1, MeSH 1.5, PMID and year 0; ties go to
    the smaller PMID. Words are not stemmed (PubMed stems none; ``*`` truncates exactly), case,
    accents and the spelling of Greek letters do not matter. An index may be used from any thread.

    >>> local = LocalSearch.build([Article(pmid="7", title="Aspirin and stroke")])
    >>> local.search("aspirin NOT migraine").pmids
    ('7',)
    >>> local.close()
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._release = weakref.finalize(self, connection.close)

    @classmethod
    def build(cls, articles: Iterable[Article], path: Path | None = None) -> LocalSearch:
        """Index articles in memory, or in a new file.

        Raises:
            InvalidArgument: the file exists, or a PMID occurs twice.
            MissingExtra: this Python's SQLite has no FTS5.
        """
        if path is not None and path.exists():
            raise InvalidArgument(f"{path} exists; remove it, or open it with LocalSearch.open")
        connection = sqlite3.connect(path or ":memory:", check_same_thread=False)
        try:
            _create(connection)
            with connection:
                for article in articles:
                    _insert(connection, article)
            connection.execute(f"PRAGMA user_version = {_LAYOUT}")  # now it is complete
        except BaseException:
            connection.close()
            raise
        return cls(connection)

    @classmethod
    def open(cls, path: Path) -> LocalSearch:
        """Open an index file read-only.

        Raises:
            InvalidArgument: no such file, or not an index of this layout.
        """
        if not path.is_file():
            raise InvalidArgument(f"no index file {path}; make one with LocalSearch.build")
        address = f"{path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(address, uri=True, check_same_thread=False)
        try:
            layout = connection.execute("PRAGMA user_version").fetchone()[0]
        except sqlite3.DatabaseError:
            layout = None
        if layout != _LAYOUT:
            connection.close()
            raise InvalidArgument(f"{path} is no index of layout {_LAYOUT}; build it again")
        return cls(connection)

    def close(self) -> None:
        """Release the index, which also happens when it is dropped; one in memory is gone."""
        self._release()

    def search(
        self, query: str, *, limit: int = 5, match: Match = "all"
    ) -> SearchResult | QueryError:
        """The best ``limit`` articles for a PubMed query, or why it is none.

        When nothing is found, the warnings name the terms that occur in no article.

        Raises:
            InvalidArgument: ``limit`` below 1.
        """
        if limit < 1:
            raise InvalidArgument(f"limit is {limit}; ask for at least one article")
        parsed = parse_query(query, match)
        if isinstance(parsed, QueryError):
            return parsed
        expression = to_fts5(parsed.root)
        count = self._count(expression)
        rows = self._connection.execute(_RANKED, (expression, limit)).fetchall() if count else []
        return SearchResult(
            count=count,
            pmids=tuple(str(pmid) for (pmid,) in rows),
            query_translation=to_pubmed(parsed.root),
            warnings=parsed.warnings + (() if count else self._not_found(parsed.root)),
        )

    def fetch(self, pmids: Sequence[str]) -> dict[str, Article]:
        """The articles of these PMIDs, in their order; unknown ones are absent."""
        found = {}
        for pmid in filter(str.isascii, pmids):  # SQLite takes no lone surrogate
            row = self._connection.execute(_RECORD, (pmid,)).fetchone()
            if row is not None:
                found[pmid] = Article.model_validate_json(row[0])
        return found

    def _count(self, expression: str) -> int:
        count: int = self._connection.execute(_COUNT, (expression,)).fetchone()[0]
        return count

    def _not_found(self, root: Node) -> tuple[str, ...]:
        return tuple(
            f"not found: {to_pubmed(term)}"
            for term in dict.fromkeys(terms(root))
            if not self._count(to_fts5(term))
        )


def _create(connection: sqlite3.Connection) -> None:
    try:
        connection.executescript(_SCHEMA)
    except sqlite3.OperationalError as error:
        if "fts5" not in str(error):
            raise
        message = "this Python's SQLite was built without FTS5, which the local search needs"
        raise MissingExtra(f"{message}; use a Python whose sqlite3 module has it") from None


def _insert(connection: sqlite3.Connection, article: Article) -> None:
    try:
        connection.execute(
            "INSERT INTO article VALUES (?, ?)", (article.pmid, article.model_dump_json())
        )
    except sqlite3.IntegrityError:
        message = f"PMID {article.pmid} occurs twice in the corpus; keep one of the articles"
        raise InvalidArgument(message) from None
    abstract = article.abstract
    text = abstract if isinstance(abstract, str) else "\n".join(part.text for part in abstract)
    connection.execute(
        "INSERT INTO idx(rowid, pmid, title, abstract, mesh, year) VALUES (?, ?, ?, ?, ?, ?)",
        (
            int(article.pmid),
            article.pmid,
            index_text(article.title),
            index_text(text),
            index_text(" ; ".join(article.mesh)),
            "" if article.year is None else f"{article.year:04d}",
        ),
    )
