"""What judges have already said, on disk, so that a run that was stopped pays for nothing twice."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from clinical_envs.errors import InvalidArgument

_PATIENCE_S = 60.0
"""How long to wait for another process that is writing."""


class ReplyCache:
    """Replies under the hash of everything they depend on; safe for threads and processes.

    Each call opens the file anew: next to a request to a model that costs nothing, and there is
    no connection to share, fork or close.

    Raises:
        InvalidArgument: the file cannot be opened or is something else; so do all methods.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._run("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)")

    def get(self, key: str) -> str | None:
        """The reply that is remembered under a key."""
        rows = self._run("SELECT reply FROM replies WHERE key = ?", key)
        return str(rows[0][0]) if rows else None

    def put(self, key: str, reply: str) -> None:
        """Remember a reply in the place of an earlier one."""
        self._run("INSERT OR REPLACE INTO replies VALUES (?, ?)", key, reply)

    def _run(self, statement: str, *values: str) -> list[Any]:
        try:
            with closing(sqlite3.connect(self._path, timeout=_PATIENCE_S)) as base, base:
                return base.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise InvalidArgument(
                f"{self._path} cannot be used as a cache of replies ({error}); give another file"
            ) from None


def reply_key(model: str, question: object, **parameters: object) -> str:
    """SHA-256 of the model's name, what it is asked and how; nothing secret goes in.

    >>> reply_key("m", "hello", temperature=0.0) == reply_key("m", "hello", temperature=1.0)
    False
    """
    identity = json.dumps([model, question, parameters], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
