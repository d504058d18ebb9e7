from __future__ import annotations

import re
from dataclasses import replace

import pytest

pytest.importorskip("matplotlib", reason="pip install 'clinical-envs[plots]'")

from training.curves import Course, draw_curves

NAMES = ("value", "mean_asks", "one_ask_rate", "entropy", "parse_failure_rate")
MEASURES = ("value", "mean asks", "one-ask rate, %", "entropy,", "parse failures,")
LOGGED = ("KL a turn from the start, nats", "entropy, nats a token", "groups that end alike, %")


def estimate(value):
    low, high = (None, None) if value is None else (value - 0.1, value + 0.1)
    return {"value": value, "low": low, "high": high}


def point(update, value):
    curves = {name: estimate(value) for name in NAMES}
    return {"update": update, **curves, "groups": {"high": curves, "other": curves}}


def step(update):
    return {"update": update, "rollout/entropy_estimate": 0.5, "rollout/kl_per_turn": None}


OUTCOME = Course(
    name="outcome",
    validation=[point(0, 0.1), point(20, None), point(40, 0.3)],
    metrics=[step(1), step(2)],
)
CREDIT = replace(OUTCOME, name="credit", validation=[point(0, 0.1), point(20, 0.7)])


def texts(figure):
    return re.findall(r"<text[^>]*>([^<]*)</text>", figure.svg)


def test_every_measure_stands_once_and_every_risk_group_has_a_column():
    curves, steps = draw_curves([OUTCOME, CREDIT])
    words = texts(curves)
    for name in (*MEASURES, "all cases", "high", "other", "outcome", "credit"):
        assert words.count(name) == 1
    for name in (*LOGGED, "parse failures, % of turns", "outcome", "credit"):
        assert texts(steps).count(name) == 1


def test_a_measure_that_does_not_exist_at_an_update_is_left_out_and_not_drawn_as_zero():
    without = replace(OUTCOME, validation=[OUTCOME.validation[0], OUTCOME.validation[2]])
    zero = replace(OUTCOME, validation=[OUTCOME.validation[0], point(20, 0.0), point(40, 0.3)])
    drawn = draw_curves([OUTCOME])
    assert drawn == draw_curves([without])
    assert drawn != draw_curves([zero])


def test_the_same_rows_give_the_same_bytes():
    assert draw_curves([OUTCOME, CREDIT]) == draw_curves([OUTCOME, CREDIT])
    assert draw_curves([OUTCOME, CREDIT]) != draw_curves([OUTCOME, OUTCOME])


def test_shares_are_in_per_cent_and_numbers_are_not():
    """At .1 and .7 the axes of the two rates reach 80, those of the three numbers 0.8."""
    words = texts(draw_curves([CREDIT])[0])
    assert (words.count("80"), words.count("0.8")) == (2, 3)


def test_a_run_without_steps_is_drawn_too():
    fresh = replace(OUTCOME, validation=[], metrics=[])
    for figure in draw_curves([fresh]):
        assert "outcome" in texts(figure)
