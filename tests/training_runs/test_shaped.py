from __future__ import annotations

import pytest

from oracles.clinical import make_world
from training.config import config_from
from training.shaped import reward_facts


def facts(task, **reward):
    config = config_from({"task": task, "warmup": {"kind": "full"}, "reward": reward})
    return reward_facts(make_world(task), config)


def credit(task, entropy, **others):
    return facts(task, variant="credit", entropy=entropy, **others)


@pytest.mark.parametrize(
    ("task", "entropy", "asks", "value"),
    [
        # specification, section 2: asks and value of the shaped optimum
        ("titration", 0.03, 2.76, None),
        ("titration", 0.1, 3.10, None),
        ("titration", 0.2, 3.81, 0.016),
        ("refill", 0.1, 3.31, None),
    ],
)
def test_the_shaped_optimum_is_the_published_one(task, entropy, asks, value):
    found = credit(task, entropy)
    assert found.asks == pytest.approx(asks, abs=0.005)
    if value is not None:
        assert found.value == pytest.approx(value, abs=0.0005)


def test_outcome_and_regret_credit_leave_the_optimum_where_it_is():
    outcome = facts("titration")
    assert outcome.value == pytest.approx(outcome.oracle_value)
    assert outcome.break_even is None
    regret = facts("titration", variant="credit", outcome=0.0, regret=1.0)
    assert (regret.value, regret.asks) == pytest.approx((outcome.value, outcome.asks))


def test_only_the_ratio_of_credit_to_outcome_decides():
    one = credit("titration", 0.1)
    doubled = credit("titration", 0.2, outcome=2.0)
    with_regret = credit("titration", 0.2, outcome=1.0, regret=1.0)
    assert one.asks == pytest.approx(doubled.asks) == pytest.approx(with_regret.asks)


@pytest.mark.parametrize(
    "reward",
    [
        {"variant": "decoupled"},
        {"variant": "credit", "entropy": 0.1, "clip_entropy": True},
        {"variant": "credit", "decision_change": 0.1},
        {"variant": "credit", "sufficiency": 0.1},
        {"variant": "credit", "outcome": 0.0, "entropy": 0.1},
    ],
)
def test_an_optimum_that_is_not_solved_is_said_to_be_unknown(reward):
    found = facts("titration", **reward)
    assert found.value is None
    assert found.asks is None
    assert "no exact optimum is known" in str(found)


def test_credit_prints_its_break_even_beside_the_reward():
    assert "break-even lambda 0.175" in str(credit("titration", 0.1))
    assert "entropy 0.1" in str(credit("titration", 0.1))
