from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clinical_envs.factcheck.ncbi import NcbiSearch
from tests.ncbi.server import EutilsServer, FakeClock, serving


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches that would not survive a power failure: waiting for the disk takes most of a test."""
    connect = sqlite3.connect

    def quick(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    monkeypatch.setattr(sqlite3, "connect", quick)


@pytest.fixture(scope="session")
def shared_server() -> Iterator[EutilsServer]:
    with serving() as server:
        yield server


@pytest.fixture
def server(
    shared_server: EutilsServer, unsynced: None, monkeypatch: pytest.MonkeyPatch
) -> EutilsServer:
    """A server that tells the truth until a test says otherwise; no key, no proxy."""
    httpx = pytest.importorskip("httpx", reason="needs the extra evidence")
    # over plain HTTP nothing is verified, and reading the certificates takes most of a test
    monkeypatch.setattr(httpx, "Client", partial(httpx.Client, verify=False))
    for name in ("NCBI_API_KEY", "NCBI_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    shared_server.failures.clear()
    shared_server.forever = None
    shared_server.answers.clear()
    shared_server.requests.clear()
    return shared_server


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "ncbi.sqlite"


Connect = Callable[..., NcbiSearch]


@pytest.fixture
def connect(server: EutilsServer, clock: FakeClock, cache: Path) -> Iterator[Connect]:
    """Makes back-ends on the server and the cache, and closes them."""
    made: list[NcbiSearch] = []

    def make(path: Path = cache, **options: Any) -> NcbiSearch:
        options = {"base_url": server.url, "clock": clock, "timeout_s": 5.0} | options
        made.append(NcbiSearch(path, **options))
        return made[-1]

    yield make
    for backend in made:
        backend.close()
