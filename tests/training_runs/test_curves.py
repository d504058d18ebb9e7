from __future__ import annotations

import pytest

pytest.importorskip("matplotlib", reason="pip install 'clinical-envs[plots]'")

from training.curves import draw_curves


def estimate(value):
    low, high = (None, None) if value is None else (value - 0.1, value + 0.1)
    return {"value": value, "low": low, "high": high}


def point(update, value):
    names = ("value", "mean_asks", "one_ask_rate", "parse_failure_rate")
    curves = {name: estimate(value) for name in names}
    return {"update": update, **curves, "groups": {"high": curves, "other": curves}}


ROWS = [point(0, 0.1), point(20, None), point(40, 0.3)]
LOGGED = [{"update": 1, "rollout/entropy_estimate": 0.5, "rollout/kl_per_turn": None}]


def test_the_same_rows_give_the_same_bytes_and_every_panel_is_named():
    drawn = draw_curves(ROWS, LOGGED)
    assert drawn == draw_curves(ROWS, LOGGED)
    assert drawn != draw_curves(ROWS[:1], LOGGED)
    names = ("value", "mean asks", "one-ask rate", "parse-failure rate", "entropy", "KL a turn")
    for text in (*names, "high", "other", "overall"):
        assert text in drawn


def test_a_run_without_steps_is_drawn_too():
    assert "overall" in draw_curves(ROWS[:1], [])
