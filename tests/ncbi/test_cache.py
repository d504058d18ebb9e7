"""The cache: what it keeps, for whom, and what it refuses to open."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from clinical_envs.errors import InvalidArgument
from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.ncbi_cache import NcbiCache
from clinical_envs.factcheck.ncbi_error import SearchUnavailable
from clinical_envs.factcheck.query_error import QueryError, QueryProblem
from clinical_envs.factcheck.search import SearchResult
from tests.ncbi.server import ARTICLES

RESULT = SearchResult(count=2, pmids=("101", "7"), query_translation="α", warnings=("w",))
REFUSED = QueryError(problem=QueryProblem.EMPTY, position=0, message="m")


def test_answers_come_back_as_they_were_kept(tmp_path: Path) -> None:
    with closing(NcbiCache(tmp_path / "c")) as cache:
        cache.keep_search("a", 5, RESULT)
        cache.keep_search("b", 5, REFUSED)
        cache.keep_articles(ARTICLES, ["8"])
    with closing(NcbiCache(tmp_path / "c", read_only=True)) as cache:
        assert cache.search("a", 5) == RESULT
        assert cache.search("b", 5) == REFUSED
        assert cache.search("a", 6) is None
        assert cache.articles([*ARTICLES, "8", "9"]) == {**ARTICLES, "8": None}


def test_a_record_that_went_missing_replaces_none_and_one_that_came_replaces_its_absence(
    tmp_path: Path,
) -> None:
    with closing(NcbiCache(tmp_path / "c")) as cache:
        cache.keep_articles({}, ["101"])
        cache.keep_articles({"101": ARTICLES["101"]}, [])
        cache.keep_articles({}, ["101"])
        assert cache.articles(["101"]) == {"101": ARTICLES["101"]}


def test_a_transaction_that_fails_leaves_every_entry_as_it_was(tmp_path: Path) -> None:
    with closing(NcbiCache(tmp_path / "c")) as cache:
        cache.keep_articles({"101": ARTICLES["101"]}, [])
        changed = {"101": Article(pmid="101"), "bad": None}
        with pytest.raises(AttributeError):
            cache.keep_articles(changed, [])  # type: ignore[arg-type]
        assert cache.articles(["101"]) == {"101": ARTICLES["101"]}
        cache.keep_search("a", 5, RESULT)  # and the cache goes on


def test_what_is_no_cache_is_refused_and_left_alone(tmp_path: Path) -> None:
    text, other, newer = (tmp_path / name for name in ("text", "other", "newer"))
    text.write_text("dear diary, " * 100)
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE mine (x)")
    with closing(NcbiCache(newer)):
        pass
    with closing(sqlite3.connect(newer)) as connection:
        connection.execute("PRAGMA user_version = 99")
    for path in (text, other, newer):
        before = path.read_bytes()
        for read_only in (False, True):
            with pytest.raises(InvalidArgument, match="no cache of NCBI answers of layout 1"):
                NcbiCache(path, read_only=read_only)
        assert path.read_bytes() == before
    with pytest.raises(InvalidArgument, match="cannot be opened"):
        NcbiCache(text / "below" / "a file")


def test_a_cache_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with closing(NcbiCache(tmp_path / "c")):
        pass
    with (
        closing(NcbiCache(tmp_path / "c", read_only=True)) as cache,
        pytest.raises(SearchUnavailable, match=r"cannot be written .*readonly"),
    ):
        cache.keep_search("a", 5, RESULT)


def test_a_cache_that_was_damaged_after_it_was_opened_says_so(tmp_path: Path) -> None:
    with closing(NcbiCache(tmp_path / "c")) as cache:
        cache.keep_search("a", 5, RESULT)
        with closing(sqlite3.connect(tmp_path / "c")) as connection:
            connection.execute("DROP TABLE search")
            connection.commit()
        with pytest.raises(SearchUnavailable, match="cannot be read"):
            cache.search("a", 5)


def test_threads_share_one_cache(tmp_path: Path) -> None:
    with closing(NcbiCache(tmp_path / "c")) as cache:

        def work(thread: int) -> None:
            for n in range(20):
                cache.keep_search(f"{thread} {n}", 5, RESULT)
                assert cache.search(f"{thread} {n}", 5) == RESULT

        threads = [threading.Thread(target=work, args=(n,)) for n in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(cache.search(f"{t} {n}", 5) == RESULT for t in range(5) for n in range(20))


_WORKER = """
import sys, time
from pathlib import Path
from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.ncbi_cache import NcbiCache
worker, path = int(sys.argv[1]), Path(sys.argv[2])
cache = NcbiCache(path)
for n in range(20):
    pmid = str(1 + worker * 100 + n)
    cache.keep_articles({pmid: Article(pmid=pmid), "7777": Article(pmid="7777")}, ["8888"])
    print(cache.claim_start(time.monotonic(), 0.25))
cache.close()
"""


def test_processes_share_one_cache_and_one_pace(tmp_path: Path) -> None:
    path = tmp_path / "c"
    command = [sys.executable, "-c", _WORKER]
    workers = [
        subprocess.Popen([*command, str(n), str(path)], stdout=subprocess.PIPE, text=True)
        for n in range(3)
    ]
    printed = [worker.communicate(timeout=60)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    starts = sorted(float(line) for out in printed for line in out.split())
    assert len(starts) == 60
    assert all(later - earlier >= 0.2499 for earlier, later in pairwise(starts))
    with closing(NcbiCache(path, read_only=True)) as cache:
        written = [str(1 + worker * 100 + n) for worker in range(3) for n in range(20)]
        assert set(cache.articles(written)) == set(written)
