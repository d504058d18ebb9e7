"""Laws of the comparison: s is the server's, t the trainer's, b the base's log-probability."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from training.config import Model
from training.on_policy import TOLERANCE, Agreement, agreement, doubt

LOGPROBS: Any = st.integers(1, 40).flatmap(
    lambda n: st.tuples(*(arrays(float, n, elements=st.floats(-30.0, 0.0)) for _ in range(3)))
)
TOLERANCES = st.floats(1e-6, 2.0)


@given(LOGPROBS, TOLERANCES)
def test_a_server_that_says_what_the_trainer_says_is_never_doubted(
    rows: Any, tolerance: float
) -> None:
    _, t, b = rows
    assert doubt(agreement(t, t, b), tolerance) is None


@given(LOGPROBS, TOLERANCES)
def test_more_than_the_tolerance_is_always_doubted(rows: Any, tolerance: float) -> None:
    s, t, b = rows
    found = agreement(s, t, b)
    assume(found.max_diff > tolerance)
    words = doubt(found, tolerance)
    assert words is not None
    assert "\n" not in words
    assert f"{found.max_diff:.2g} nats" in words


@given(LOGPROBS)
def test_an_adapter_that_is_not_applied_is_seen_however_coarse_the_tolerance(rows: Any) -> None:
    _, t, b = rows
    assume(np.abs(t - b).max() > 1e-3)
    words = doubt(agreement(b, t, b), tolerance=1e9)
    assert words is not None
    assert "loaded but not applied" in words


@given(LOGPROBS, st.floats(1e-4, 0.1))
def test_rounding_that_is_smaller_than_the_adapters_effect_is_not_taken_for_the_base(
    rows: Any, size: float
) -> None:
    noise, t, b = rows
    s = t + size * noise / 30.0
    assume((np.abs(t - b) > 2.0 * size).all())
    assert doubt(agreement(s, t, b), tolerance=1.001 * size) is None


@given(LOGPROBS, TOLERANCES)
def test_before_the_first_update_nothing_is_said_of_the_adapter(
    rows: Any, tolerance: float
) -> None:
    s, t, _ = rows
    found = agreement(s, t, t)
    assert not found.at_base
    assert (doubt(found, tolerance) is None) is (found.max_diff <= tolerance)


def test_no_tokens_are_no_difference() -> None:
    assert agreement([], [], []) == Agreement(
        max_diff=0.0, mean_diff=0.0, mean_from_base=0.0, max_shift=0.0
    )


def test_there_is_a_tolerance_for_every_dtype_that_a_configuration_may_name() -> None:
    assert set(get_args(get_type_hints(Model)["dtype"])) == set(TOLERANCE)
