"""Many jobs at once."""

from __future__ import annotations

import threading

import pytest

from training.judges.work import work


def test_jobs_run_at_the_same_time_and_no_more_than_asked() -> None:
    meeting = threading.Barrier(4, timeout=30)  # broken unless four are there at once
    inside: list[int] = []
    most: list[int] = []

    def job() -> int:
        inside.append(1)
        most.append(len(inside))
        place = meeting.wait()
        inside.pop()
        return place

    assert len(work([job] * 8, workers=4)) == 8
    assert max(most) == 4


def test_results_stand_in_the_order_of_the_jobs() -> None:
    first_may_end = threading.Event()

    def slow() -> str:
        assert first_may_end.wait(30)
        return "slow"

    def quick() -> str:
        first_may_end.set()
        return "quick"

    assert work([slow, quick], workers=2) == ["slow", "quick"]


def test_an_error_drops_the_jobs_that_wait() -> None:
    raised, ran = threading.Event(), []
    before = set(threading.enumerate())

    def fail() -> None:
        raise ValueError("no")

    def later() -> None:
        assert raised.wait(30)
        ran.append(1)

    with pytest.raises(ValueError, match="no"):
        work([fail, *[later] * 20], workers=1)
    raised.set()
    for thread in set(threading.enumerate()) - before:
        thread.join()
    assert len(ran) <= 1  # the one that had begun


def test_no_jobs_have_no_results() -> None:
    assert work([]) == []
