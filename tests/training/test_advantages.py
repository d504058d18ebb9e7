"""Group-relative advantages: laws, TRL's arithmetic, and single turns by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.training.toy import NEEDS
from training.advantages import Scale, advantages, same_utility_share, turn_advantages

SCALES: tuple[Scale, ...] = ("group", "batch", "none")
NAN = math.nan

Floats = npt.NDArray[np.float64]


def rewards(*, missing: bool = False) -> st.SearchStrategy[Floats]:
    """Rewards (groups, rollouts) on a grid, some of them NaN if wanted."""
    values = st.integers(-100, 100).map(lambda i: i / 50)
    if missing:
        values = st.one_of(values, st.just(NAN))
    shape = st.tuples(st.integers(1, 5), st.integers(2, 8))
    return shape.flatmap(lambda s: hnp.arrays(np.float64, s, elements=values))


@pytest.mark.parametrize("scale", SCALES)
@given(value=st.floats(-10, 10), shape=st.tuples(st.integers(1, 5), st.integers(2, 8)))
def test_equal_rewards_have_no_advantage(
    scale: Scale, value: float, shape: tuple[int, int]
) -> None:
    assert np.abs(advantages(np.full(shape, value), scale)).max() <= 1e-9


@pytest.mark.parametrize("scale", SCALES)
@given(table=rewards(missing=True))
def test_advantages_sum_to_zero_in_every_group(scale: Scale, table: Floats) -> None:
    assert advantages(table, scale).sum(axis=1) == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize("scale", SCALES)
@given(table=rewards(missing=True))
def test_an_unscored_rollout_has_advantage_zero_and_everything_is_finite(
    scale: Scale, table: Floats
) -> None:
    found = advantages(table, scale)
    assert np.isfinite(found).all()
    assert (found[np.isnan(table)] == 0.0).all()


@given(table=rewards(missing=True), extra=st.integers(1, 3))
def test_unscored_rollouts_leave_the_statistics(table: Floats, extra: int) -> None:
    wider = np.concatenate([table, np.full((len(table), extra), NAN)], axis=1)
    for scale in SCALES:
        shorter = advantages(wider, scale)[:, : table.shape[1]]
        assert shorter == pytest.approx(advantages(table, scale), abs=1e-9)


def test_the_three_scales_by_hand() -> None:
    table = np.array([[0.0, 1.0], [0.0, 3.0]])
    centred = np.array([[-0.5, 0.5], [-1.5, 1.5]])
    assert advantages(table, "none") == pytest.approx(centred)
    deviations = np.array([[math.sqrt(0.5)], [math.sqrt(4.5)]])
    assert advantages(table, "group") == pytest.approx(centred / (deviations + 1e-4))
    assert advantages(table, "batch") == pytest.approx(centred / (math.sqrt(2.0) + 1e-4))


@pytest.mark.parametrize("scale", SCALES)
@given(table=rewards(missing=True))
def test_the_arithmetic_is_trls(scale: Scale, table: Floats) -> None:
    torch = pytest.importorskip("torch", reason=NEEDS)
    utils = pytest.importorskip("trl.trainer.utils", reason=NEEDS)
    expected = as_trl_does(torch, utils.nanstd, table, scale)
    assert advantages(table, scale) == pytest.approx(expected, rel=1e-6, abs=1e-8)


def as_trl_does(torch: Any, nanstd: Any, table: Floats, scale: Scale) -> Floats:
    """GRPOTrainer's lines of `sum_then_normalize`, with its own standard deviation."""
    values = torch.tensor(table)
    centred = values - torch.nanmean(values, dim=1, keepdim=True)
    if scale == "group":
        centred = centred / (nanstd(values, dim=1, keepdim=True) + 1e-4)
    if scale == "batch":
        centred = centred / (nanstd(values.flatten()) + 1e-4)
    found: Floats = torch.nan_to_num(centred, nan=0.0).numpy()
    return found


def test_turns_are_compared_with_the_same_turn_by_their_reward_to_go() -> None:
    group = [[1.0, 2.0], [5.0]]  # to go: 3, 2 and 5; means 4 at turn 1 and 2 at turn 2
    assert turn_advantages([group], "none") == [[[-1.0, 0.0], [1.0]]]
    width = math.sqrt(2.0) + 1e-4
    ((first, second),) = turn_advantages([group], "group")
    assert first == pytest.approx([-1.0 / width, 0.0])
    assert second == pytest.approx([1.0 / width])


def test_turns_of_all_groups_share_the_spread_of_the_batch() -> None:
    groups = [[[0.0], [1.0]], [[0.0], [1.0, 2.0]]]  # sums 0, 1, 0, 3
    width = math.sqrt(2.0) + 1e-4
    found = turn_advantages(groups, "batch")
    assert found[0] == [pytest.approx([-0.5 / width]), pytest.approx([0.5 / width])]
    assert found[1] == [pytest.approx([-1.5 / width]), pytest.approx([1.5 / width, 0.0])]


@pytest.mark.parametrize("scale", SCALES)
@given(table=rewards())
def test_episodes_of_one_turn_have_the_advantages_of_episodes(scale: Scale, table: Floats) -> None:
    turns = [[[float(reward)] for reward in row] for row in table]
    flat = [[only for (only,) in group] for group in turn_advantages(turns, scale)]
    assert np.array(flat) == pytest.approx(advantages(table, scale), abs=1e-8)


@pytest.mark.parametrize("scale", SCALES)
@given(table=rewards(), split=st.floats(-1, 1))
def test_the_first_turn_has_the_advantage_of_its_episode(
    scale: Scale, table: Floats, split: float
) -> None:
    turns = [[[split, float(reward) - split] for reward in row] for row in table]
    first = [[rollout[0] for rollout in group] for group in turn_advantages(turns, scale)]
    assert np.array(first) == pytest.approx(advantages(table, scale), abs=1e-6)


def test_the_share_of_same_utility_groups_counts_rows_that_do_not_vary() -> None:
    assert same_utility_share(np.array([[0.5, 0.5], [0.5, -0.5], [1.0, 1.0], [0.0, 1e-15]])) == 0.75
