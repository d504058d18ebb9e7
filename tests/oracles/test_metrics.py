"""One row of the tables, from assessments made by hand."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.assessment import EPS, Assessment
from oracles.metrics import breakdown, measure, point
from tests.oracles.hand_made import NamesOnly, row, sample

WORLD = NamesOnly()


def graded(case: int, hits: list[bool], **facts: Any) -> list[Assessment]:
    """Rollouts of one case, oracle-grade or not."""
    return [
        row(case, rollout=i, oracle_reward=0.5, reward=0.5 if hit else 0.0, **facts)
        for i, hit in enumerate(hits)
    ]


@pytest.mark.parametrize(
    ("reward", "grade"), [(0.5, True), (0.47, True), (0.469, False), (0.9, True), (-1.0, False)]
)
def test_oracle_grade_is_one_sided_with_a_margin_of_eps(reward: float, grade: bool) -> None:
    assert row(reward=reward, oracle_reward=0.47 + EPS).oracle_grade is grade


def test_without_an_oracle_there_is_no_grade_no_support_and_no_floor() -> None:
    metrics = measure(sample(row(i) for i in range(40)), WORLD)
    for name in ("regret", "oracle_gap", "support_at_k", "chance_floor", "pass_pow_k"):
        estimate = getattr(metrics, name)
        assert (estimate.value, estimate.n, estimate.missing) == (None, 0, 40)
    assert metrics.value.value == 0.0


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=6), min_size=1, max_size=4))
def test_support_and_pass_are_means_over_cases_of_the_count_over_subsets(
    cases: list[list[bool]],
) -> None:
    metrics = measure(sample(r for c, hits in enumerate(cases) for r in graded(c, hits)), WORLD)
    k = min(map(len, cases))
    assert metrics.k == k
    subsets = [list(itertools.combinations(hits, k)) for hits in cases]
    some = sum(sum(map(any, s)) / len(s) for s in subsets) / len(cases)
    every = sum(sum(map(all, s)) / len(s) for s in subsets) / len(cases)
    assert metrics.support_at_k.value == pytest.approx(some)
    assert metrics.pass_pow_k.value == pytest.approx(every)
    assert metrics.support_at_k.n_cases == len(cases)


def test_unbiased_support_is_below_the_share_with_any_hit_when_there_are_more_rollouts() -> None:
    rows = graded(0, [True] + [False] * 11) + graded(1, [False] * 4)
    metrics = measure(sample(rows), WORLD)
    assert metrics.k == 4
    missed = math.comb(11, 4) / math.comb(12, 4)
    assert metrics.support_at_k.value == pytest.approx((1.0 - missed) / 2)


def test_the_chance_floor_is_one_minus_the_chance_of_missing_k_times() -> None:
    rows = graded(0, [True] * 3, guess_share=0.2) + graded(1, [False] * 3, guess_share=0.6)
    floor = measure(sample(rows), WORLD).chance_floor.value
    assert floor == pytest.approx(((1 - 0.8**3) + (1 - 0.4**3)) / 2)


def test_greedy_rollouts_stand_apart() -> None:
    rows = [row(i, reward=0.0, asks=1) for i in range(10)]
    rows += [row(i, reward=1.0, asks=5, greedy=True) for i in range(10)]
    metrics = measure(sample(rows), WORLD)
    assert (metrics.value.value, metrics.greedy_value.value) == (0.0, 1.0)
    assert (metrics.mean_asks.value, metrics.n_episodes, metrics.k) == (1.0, 10, 1)


def test_rates_have_the_denominators_of_their_definitions() -> None:
    rows = [
        row(0, asks=1, invalid_turns=2, turns=4),
        row(1, asks=2, invalid_turns=0, turns=3),
        row(2, asks=1, invalid_turns=3, turns=3, decision=None),
        row(3, asks=0, invalid_turns=0, turns=1, decision="wait"),
    ]
    metrics = measure(sample(rows), WORLD)
    assert metrics.one_ask_rate.value == 0.5
    assert metrics.parse_failure_rate.value == pytest.approx(5 / 11)
    assert metrics.mean_asks.value == 1.0
    assert metrics.decisions == {"wait": 0.25, "treat": 0.5, "no_decision": 0.25}
    assert sum(metrics.decisions.values()) == 1.0


def test_escalations_are_shares_of_all_episodes_and_none_where_nothing_is_high_acuity() -> None:
    rows = [row(i, high_acuity=i < 3, supported=None if i >= 3 else i < 2) for i in range(10)]
    metrics = measure(sample(rows), WORLD)
    assert metrics.supported_escalation_rate.value == pytest.approx(0.2)
    assert metrics.unsupported_escalation_rate.value == pytest.approx(0.1)
    without = measure(sample(row(i) for i in range(10)), WORLD)
    assert without.supported_escalation_rate.value is None


def test_posterior_expectations_are_labelled() -> None:
    assert not measure(sample([row(0)]), WORLD).expected_value
    assert measure(sample([row(0), row(1, expected=True)]), WORLD).expected_value


def test_an_empty_sample_has_metrics_without_values() -> None:
    metrics = point(measure(sample([]), WORLD))
    assert metrics.pop("n_cases") == metrics.pop("n_episodes") == 0
    assert metrics.pop("expected_value") is False
    assert metrics.pop("decisions") == {}
    assert set(metrics.values()) == {None}


def test_the_breakdown_is_json_with_every_group_and_family_even_empty_ones() -> None:
    data = json.loads(json.dumps(breakdown(sample(row(i) for i in range(3)), WORLD)))
    assert set(data["groups"]) == {"low", "high"}
    assert set(data["families"]) == {"only"}
    assert data["groups"]["high"]["value"] is None
    assert data["groups"]["high"]["n_cases"] == 0
    assert data["intervals"]["value"]["n"] == 3
    assert data["k"] == 1


def test_groups_and_families_partition_the_sample() -> None:
    rows = [row(i, group="high" if i < 4 else "low", reward=float(i)) for i in range(10)]
    data = breakdown(sample(rows), WORLD)
    sizes = {group: part["n_cases"] for group, part in data["groups"].items()}
    assert sizes == {"low": 6, "high": 4}
    assert data["groups"]["high"]["value"] == 1.5
    assert data["value"] == pytest.approx(4.5)
