"""Estimates: what is counted, what is not, and how sure one may be."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from oracles.assessment import Assessment
from oracles.sample import Estimate, paired_difference, unbiased_all, unbiased_any, wilson
from tests.oracles.hand_made import caught, row, sample


def reward(a: Assessment) -> float:
    return a.reward


@given(st.integers(1, 400), st.data())
def test_wilson_on_whole_numbers_is_scipys(n: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, n))
    low, high = wilson(count / n, n)
    interval = stats.binomtest(count, n).proportion_ci(confidence_level=0.95, method="wilson")
    assert (low, high) == pytest.approx((interval.low, interval.high), abs=1e-12)
    assert 0.0 <= low <= count / n <= high <= 1.0


@pytest.mark.parametrize(
    ("count", "n", "low", "high"),
    [(1, 2, 0.095, 0.905), (2, 2, 0.342, 1.0), (31, 60, 0.39, 0.64), (23, 35, 0.49, 0.79)],
)
def test_wilson_of_published_counts(count: int, n: int, low: float, high: float) -> None:
    """The published shares of 60 cases with 2 of high risk say almost nothing."""
    assert wilson(count / n, n) == pytest.approx((low, high), abs=5.1e-3)


@given(st.integers(1, 9), st.data())
def test_some_and_all_of_k_equal_the_count_over_every_subset(n: int, data: st.DataObject) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    subsets = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert unbiased_any(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))
    assert unbiased_all(n, c, k) == pytest.approx(sum(map(all, subsets)) / len(subsets))


def test_an_empty_sample_has_no_value_and_counts_nothing() -> None:
    empty = sample([])
    for estimate in (empty.mean(reward), empty.share(lambda a: True), empty.ratio(reward, reward)):
        assert estimate == Estimate(value=None, n=0, n_cases=0)
        assert str(estimate) == "-"
    assert paired_difference(empty, empty, reward).value is None


def test_one_case_has_a_value_and_no_interval() -> None:
    one = sample([row(reward=0.5), row(rollout=1, reward=0.1)]).mean(reward)
    assert one.value == pytest.approx(0.3)
    assert one.low is one.high is None
    assert (one.n, one.n_cases) == (2, 1)


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_what_is_not_known_leaves_the_mean_and_is_counted(nothing: float | None) -> None:
    rows = [row(i, reward=1.0, regret=nothing if i < 3 else 0.4) for i in range(10)]
    found = sample(rows).mean(lambda a: a.regret)
    assert found.value == pytest.approx(0.4)
    assert (found.n, found.n_cases, found.missing) == (7, 7, 3)
    shown = sample(rows).share(lambda a: None if a.regret is None else a.regret > 0.1)
    assert shown.value == (1.0 if nothing is None else 0.7)


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_all_unknown_is_no_value_in_every_kind_of_estimate(nothing: float | None) -> None:
    rows = sample(row(i, regret=nothing, wasted_asks=None) for i in range(5))
    assert rows.mean(lambda a: a.regret).value is None
    assert rows.share(lambda a: a.wasted_asks).value is None
    ratio = rows.ratio(lambda a: a.wasted_asks, lambda a: a.asks)
    assert (ratio.value, ratio.n, ratio.missing) == (None, 0, 5)


def test_a_ratio_leaves_out_the_denominator_of_rows_without_a_numerator() -> None:
    rows = [row(0, asks=4, wasted_asks=2), row(1, asks=6, wasted_asks=None)]
    ratio = sample(rows).ratio(lambda a: a.wasted_asks, lambda a: a.asks)
    assert (ratio.value, ratio.n, ratio.missing) == (0.5, 4, 1)


def test_a_share_counts_only_the_rows_it_is_of() -> None:
    rows = [row(i, decision="treat" if i < 4 else None, supported=i < 3) for i in range(10)]
    found = sample(rows).share(lambda a: a.supported, of=lambda a: a.decision is not None)
    assert (found.value, found.n, found.missing) == (0.75, 4, 0)


@pytest.mark.parametrize(("share", "end"), [(0.0, "low"), (1.0, "high")])
def test_none_and_all_of_many_keep_an_honest_interval(share: float, end: str) -> None:
    found = caught(int(share * 40), 40, {"asks": 1}, {"asks": 2}).share(lambda a: a.asks == 1)
    assert found.low is not None
    assert found.high is not None
    assert getattr(found, end) == share
    assert found.high - found.low == pytest.approx(wilson(0.0, 40)[1])


def test_equal_rewards_have_an_interval_of_no_width() -> None:
    found = sample(row(i, reward=0.25) for i in range(40)).mean(reward)
    assert (found.value, found.low, found.high) == (0.25, 0.25, 0.25)


def test_shuffled_rows_give_the_same_numbers() -> None:
    rng = np.random.default_rng(0)
    rows = [row(c, rollout=i, reward=float(rng.normal())) for c in range(60) for i in range(4)]
    shuffled = [rows[i] for i in rng.permutation(len(rows))]
    one, other = sample(rows).mean(reward), sample(shuffled).mean(reward)
    assert other.value == pytest.approx(one.value, abs=1e-12)
    assert (other.low, other.high) == pytest.approx((one.low, one.high), abs=1e-12)


def test_the_bootstrap_is_the_same_on_every_run_and_near_the_normal_interval() -> None:
    rng = np.random.default_rng(1)
    rewards = rng.normal(0.3, 1.0, 400)
    rows = [row(i, reward=float(r)) for i, r in enumerate(rewards)]
    one = sample(rows).mean(reward)
    assert sample(rows).mean(reward) == one
    half = 1.96 * float(rewards.std(ddof=1)) / 20.0
    assert one.low == pytest.approx(float(rewards.mean()) - half, abs=0.015)
    assert one.high == pytest.approx(float(rewards.mean()) + half, abs=0.015)


@given(st.lists(st.booleans(), min_size=2, max_size=30), st.integers(2, 12))
def test_rollouts_of_one_case_that_are_all_alike_add_no_certainty(
    cases: list[bool], k: int
) -> None:
    once = sample(row(c, reward=float(hit)) for c, hit in enumerate(cases))
    often = sample(
        row(c, rollout=i, reward=float(hit)) for c, hit in enumerate(cases) for i in range(k)
    )
    for estimate in ("mean", "share"):
        one, many = getattr(once, estimate)(reward), getattr(often, estimate)(reward)
        assert (many.value, many.low, many.high) == pytest.approx((one.value, one.low, one.high))
        assert (many.n, many.n_cases) == (k * one.n, one.n_cases)


@given(st.integers(1, 40), st.integers(1, 40), st.floats(-1, 1), st.floats(-1, 1))
def test_a_stratified_set_is_weighted_back_to_prevalence(
    n_low: int, n_high: int, low: float, high: float
) -> None:
    rows = [row(i, split="test", group="low", reward=low) for i in range(n_low)]
    rows += [row(n_low + i, split="test", group="high", reward=high) for i in range(n_high)]
    expected = 0.9 * low + 0.1 * high
    assert sample(rows).mean(reward).value == pytest.approx(expected, abs=1e-12)
    plain = [row(i, group=a.group, reward=a.reward) for i, a in enumerate(rows)]
    unweighted = (n_low * low + n_high * high) / (n_low + n_high)
    assert sample(plain).mean(reward).value == pytest.approx(unweighted, abs=1e-12)


def test_a_part_of_a_stratified_set_keeps_the_weights_of_the_whole() -> None:
    rows = [row(i, split="test", group="low", asks=1 + (i > 0)) for i in range(50)]
    rows += [row(50 + i, split="test", group="high", asks=1) for i in range(50)]
    found = sample(rows).share(lambda a: a.group == "high", of=lambda a: a.asks == 1)
    assert found.value == pytest.approx((50 * 0.1 / 0.5) / (50 * 0.1 / 0.5 + 1 * 0.9 / 0.5))


def test_weights_cost_certainty() -> None:
    """Effective number of cases (Σ w)² / Σ w², so the interval of a weighted share is wider."""
    rows = [row(i, split="test", group="low", reward=float(i % 2)) for i in range(50)]
    rows += [row(50 + i, split="test", group="high", reward=float(i % 2)) for i in range(50)]
    w = np.array([1.8] * 50 + [0.2] * 50)
    found = sample(rows).share(reward)
    assert (found.low, found.high) == pytest.approx(wilson(0.5, w.sum() ** 2 / (w @ w)))


def test_a_set_with_one_row_of_another_split_is_not_weighted() -> None:
    rows = [row(0, split="test", group="low", reward=1.0), row(1, group="high", reward=0.0)]
    assert sample(rows).mean(reward).value == 0.5


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=2, max_size=20))
def test_a_paired_difference_is_the_mean_of_the_differences(
    pairs: list[tuple[float, float]],
) -> None:
    ours = sample(row(i, reward=a) for i, (a, _) in enumerate(pairs))
    theirs = sample(row(i, reward=b) for i, (_, b) in enumerate(pairs))
    found = paired_difference(ours, theirs, reward)
    assert found.value == pytest.approx(float(np.mean([a - b for a, b in pairs])), abs=1e-12)
    back = paired_difference(theirs, ours, reward)
    assert back.value == pytest.approx(-(found.value or 0.0), abs=1e-12)


def test_pairing_uses_shared_cases_only_and_removes_what_they_share() -> None:
    rng = np.random.default_rng(2)
    hard = rng.normal(0.0, 1.0, 80)
    ours = sample(row(i, reward=float(h) + 0.1) for i, h in enumerate(hard[:60]))
    theirs = sample(row(i + 20, reward=float(h)) for i, h in enumerate(hard[20:]))
    found = paired_difference(ours, theirs, reward)
    assert found.n_cases == 40
    assert (found.value, found.low, found.high) == pytest.approx((0.1, 0.1, 0.1))
    assert paired_difference(ours, sample([]), reward).value is None
