"""Requests start no faster than NCBI allows, whoever makes them."""

from __future__ import annotations

import threading
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clinical_envs.factcheck.ncbi_cache import NcbiCache
from tests.ncbi.conftest import Connect
from tests.ncbi.server import KEY, EutilsServer, Failure, FakeClock

SLACK = 1e-9


@given(st.lists(st.floats(0, 2), min_size=2, max_size=30), st.sampled_from([1 / 3, 1 / 10]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
def test_starts_are_an_interval_apart_and_no_later_than_need_be(
    tmp_path_factory: pytest.TempPathFactory, unsynced: None, gaps: list[float], interval: float
) -> None:
    with closing(NcbiCache(tmp_path_factory.mktemp("pace") / "c")) as cache:
        now, starts = 100.0, []
        for gap in gaps:
            now += gap
            starts.append(cache.claim_start(now, interval))
            assert starts[-1] >= now
            earliest = max(now, starts[-2] + interval) if len(starts) > 1 else now
            assert starts[-1] == pytest.approx(earliest)
    assert all(later - earlier >= interval - SLACK for earlier, later in pairwise(starts))


def test_a_claim_from_before_the_clock_was_reset_holds_no_one_up(tmp_path: Path) -> None:
    with closing(NcbiCache(tmp_path / "c")) as cache:
        cache.claim_start(1e9, 1.0)
        assert cache.claim_start(5.0, 1.0) == 5.0
        assert cache.claim_start(5.0, 1.0) == 6.0


@pytest.mark.parametrize(("key", "rate"), [(None, 3), (KEY, 10)])
def test_threads_and_back_ends_on_one_cache_keep_the_published_pace(
    connect: Connect,
    server: EutilsServer,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    key: str | None,
    rate: int,
) -> None:
    if key:
        monkeypatch.setenv("NCBI_API_KEY", key)
    starts: list[float] = []
    claim = NcbiCache.claim_start

    def noted(self: NcbiCache, now: float, interval: float) -> float:
        starts.append(claim(self, now, interval))
        return starts[-1]

    monkeypatch.setattr(NcbiCache, "claim_start", noted)
    clock = FakeClock()
    # every sleep of any thread moves this clock, so no answer may seem slow by it
    backends = [connect(clock=clock, timeout_s=1e6, patience_s=1e6) for _ in range(2)]
    server.failures.extend([Failure.INTERNAL] * 3)  # a retry is a start like any other

    def work(thread: int) -> None:
        for n in range(4):
            backends[thread % 2].search(f"aspirin {thread} {n}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    starts.sort()
    assert len(starts) == len(server.requests) == 6 * 4 + 3
    assert all(later - earlier >= 1 / rate - SLACK for earlier, later in pairwise(starts))
    most = max(sum(start <= other < start + 1 - SLACK for other in starts) for start in starts)
    assert most <= rate
    assert clock.now() >= starts[-1]
