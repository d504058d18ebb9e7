"""Intervals cover what they should, and verdicts follow from intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.reward_audit.findings import MIN_PROMPTS, Rule, Status, decide
from oracles.reward_audit.intervals import (
    Interval,
    cluster_interval,
    ratio,
    ratio_change,
    share_interval,
)
from oracles.reward_audit.phases import phases

ABOVE = Rule(name="r", statistic="s", limit=0.5, bad="above", prescription="stop")
BELOW = Rule(name="r", statistic="s", limit=0.5, bad="below", prescription="stop")


@given(st.lists(st.floats(0, 1), min_size=2, max_size=2).map(sorted))
def test_a_flag_needs_the_whole_interval_beyond_the_limit(ends):
    low, high = ends
    finding = decide(ABOVE, Interval((low + high) / 2, low, high), prompts=50, evidence="e")
    mirrored = decide(
        BELOW, Interval(1 - (low + high) / 2, 1 - high, 1 - low), prompts=50, evidence="e"
    )
    assert (finding.verdict is Status.FLAG) == (low > 0.5)
    assert (finding.verdict is Status.CLEAR) == (high < 0.5)
    assert finding.verdict is mirrored.verdict
    assert bool(finding.prescription) == (finding.verdict is Status.FLAG)


def test_too_few_prompts_and_undefined_statistics_are_skipped_with_their_n():
    for interval, prompts in ((Interval(0.9, 0.8, 1.0), MIN_PROMPTS - 1), (None, 500)):
        finding = decide(ABOVE, interval, prompts=prompts, evidence="")
        assert finding.verdict is Status.SKIPPED
        assert finding.n == prompts
        assert (finding.value, finding.low, finding.high) == (None, None, None)


def test_the_cluster_bootstrap_covers_the_truth_where_rows_of_a_prompt_are_alike():
    generator = np.random.default_rng(0)
    covered, naive = 0, 0
    runs, prompts, rows = 300, 60, 20
    for run in range(runs):
        of_prompt = generator.beta(1.5, 1.5, prompts)
        hits = generator.binomial(rows, of_prompt).astype(float)
        found = share_interval(hits, np.full(prompts, float(rows)), seed=run)
        covered += found.low <= 0.5 <= found.high
        error = 1.96 * 0.5 / np.sqrt(prompts * rows)
        naive += abs(found.value - 0.5) <= error
    assert 0.91 <= covered / runs <= 0.98
    assert naive / runs < 0.75  # rows taken as independent cover far less


def test_a_share_of_0_or_1_gets_the_exact_binomial_interval():
    found = share_interval(np.zeros(30), np.full(30, 10.0))
    assert found.low == 0
    # 1 - (0.025)^(1/300)
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 300))
    assert share_interval(np.full(30, 10.0), np.full(30, 10.0)).high == 1


def test_a_share_below_one_hit_is_not_taken_for_0():
    hits = np.full(30, 0.01)
    assert share_interval(hits, np.ones(30)).value == pytest.approx(0.01)


def test_undefined_statistics_have_no_interval():
    assert cluster_interval(np.zeros((30, 2)), ratio) is None
    assert cluster_interval(np.zeros((0, 2)), ratio) is None
    rare = np.zeros((30, 2))
    rare[0] = 1  # absent from a third of the resamples
    assert cluster_interval(rare, ratio) is None


def test_resampling_is_seeded_and_the_change_is_last_minus_first():
    sums = np.random.default_rng(0).random((30, 4))
    assert cluster_interval(sums, ratio_change) == cluster_interval(sums, ratio_change)
    found = cluster_interval(np.tile([1.0, 4.0, 3.0, 4.0], (30, 1)), ratio_change)
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)


def test_phases_are_the_first_and_last_quarter_of_the_steps():
    found = phases(range(0, 80, 10))
    assert (found.early, found.late) == ({0, 10}, {60, 70})
    assert not phases([5, 5]).differ
    assert not phases([]).early
