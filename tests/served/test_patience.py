"""Trouble passes or the patience runs out; what no waiting mends is not waited for."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from training.patience import Patience, ServedError, Trouble


def failing(times: int, error: Exception) -> Callable[[], int]:
    calls: list[int] = []

    def attempt() -> int:
        calls.append(1)
        if len(calls) <= times:
            raise error
        return len(calls)

    return attempt


def test_success_says_nothing() -> None:
    said: list[str] = []
    assert Patience(seconds=5.0, say=said.append).until_it_works(lambda: 7) == 7
    assert said == []


def test_trouble_is_said_with_the_patience_that_is_left_and_so_is_its_end() -> None:
    said: list[str] = []
    patience = Patience(seconds=5.0, say=said.append)
    assert patience.until_it_works(failing(2, Trouble("the node is away"))) == 3
    assert said[0] == "the node is away; trying again for 5 s"
    assert re.fullmatch(r"it works again after [1-4] s", said[1])
    assert len(said) == 2


def test_when_it_runs_out_the_trouble_is_an_error_within_the_patience() -> None:
    began = time.monotonic()
    with pytest.raises(ServedError, match=r"away; given up after 0.4 s \(vllm.patience_s\)"):
        Patience(seconds=0.4, say=lambda _: None).until_it_works(failing(99, Trouble("away")))
    assert 0.4 <= time.monotonic() - began < 3.0


def test_an_error_is_raised_at_once_and_other_exceptions_pass() -> None:
    patience = Patience(seconds=60.0, say=lambda _: None)
    with pytest.raises(ServedError, match="wrong key"):
        patience.until_it_works(failing(1, ServedError("wrong key")))
    with pytest.raises(ZeroDivisionError):
        patience.until_it_works(lambda: 1 // 0)


def test_recovery_comes_before_every_further_attempt_and_its_trouble_counts() -> None:
    order: list[str] = []
    recovery = failing(1, Trouble("still away"))

    def attempt() -> str:
        order.append("attempt")
        if order.count("attempt") < 2:
            raise Trouble("away")
        return "done"

    def recover() -> None:
        order.append("recover")
        recovery()

    said: list[str] = []
    patience = Patience(seconds=5.0, say=said.append)
    assert patience.until_it_works(attempt, recover) == "done"
    assert order == ["attempt", "recover", "recover", "attempt"]
    assert [line.split(";")[0] for line in said[:2]] == ["away", "still away"]
