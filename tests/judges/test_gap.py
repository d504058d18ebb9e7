"""The checks of a series of self-internalization gaps, on made-up samples."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.errors import InvalidArgument
from oracles.reward_audit.records import RewardRow
from oracles.reward_audit.stopping import audit_stopping
from training.judges.gap import GapValidation, Measured, Sample, validate, with_self_gap


def samples(
    gap: float | None, reward: float | None, tokens: int = 10, prompts: int = 3
) -> tuple[Sample, ...]:
    return tuple(
        Sample(prompt=prompt, tokens=tokens, gap=gap, reward=reward) for prompt in range(prompts)
    )


def checkpoint(
    step: int,
    gap: float | None = -0.5,
    *,
    rewards: tuple[float | None, float | None] = (0.8, 0.3),
    tokens: tuple[int, int] = (10, 10),
) -> Measured:
    return Measured(
        step=step,
        conditioned=samples(gap, rewards[0], tokens[0]),
        plain=samples(None, rewards[1], tokens[1]),
    )


def test_a_steady_mark_well_above_the_policy_has_no_problem() -> None:
    found = validate([checkpoint(25, rewards=(0.82, 0.37)), checkpoint(0, rewards=(0.80, 0.30))])
    assert found == GapValidation(
        conditioned=pytest.approx(0.81),
        sd=pytest.approx(0.02 / 2**0.5),
        margin=pytest.approx(0.45),
        growth=1.0,
        conditioned_growth=1.0,
        length_r=None,
        problems=(),
    )


@pytest.mark.parametrize(
    ("last", "problem"),
    [
        ((0.60, 0.30), "moves"),
        ((0.80, 0.75), "only"),
        ((0.80, 0.95), "-0.150"),
        ((None, 0.30), "fewer than two"),
    ],
)
def test_a_mark_that_moves_or_is_met_or_unscored_is_a_problem(
    last: tuple[float | None, float], problem: str
) -> None:
    found = validate([checkpoint(0), checkpoint(25, rewards=last)])
    assert len(found.problems) == 1
    assert problem in found.problems[0]


def test_the_margin_is_over_prompts_that_are_scored_in_both_ways() -> None:
    """One prompt is worth nothing more in view of the rubric; the other is scored only without."""
    unscored = Sample(prompt=1, tokens=9, gap=-1.0, reward=None)
    scored = Sample(prompt=1, tokens=9, gap=None, reward=0.0)
    one = Measured(
        step=0,
        conditioned=(*samples(-0.5, 1.0, prompts=1), unscored),
        plain=(*samples(None, 1.0, prompts=1), scored),
    )
    assert validate([one, replace(one, step=25)]).margin == 0.0
    apart = replace(one, step=25, plain=one.plain[1:])
    assert validate([apart]).margin is None


def test_without_rewards_nothing_is_vouched_for() -> None:
    found = validate([checkpoint(step, rewards=(None, None)) for step in (0, 25)])
    assert (found.conditioned, found.sd, found.margin) == (None, None, None)
    assert len(found.problems) == 2


def test_growth_is_last_over_first_in_the_order_of_steps() -> None:
    series = [checkpoint(50, tokens=(20, 41)), checkpoint(0, tokens=(10, 10)), checkpoint(25)]
    found = validate(series)
    assert (found.growth, found.conditioned_growth) == (4.1, 2.0)


def test_a_gap_that_does_not_move_while_answers_grow_has_no_correlation_with_length() -> None:
    constant = [checkpoint(step, tokens=(10 + step, 10 + step)) for step in (0, 25, 50)]
    assert validate(constant).length_r is None
    rising = [
        checkpoint(step, -0.5 + step / 100, tokens=(10 + step, 10 + step)) for step in (0, 25, 50)
    ]
    assert validate(rising).length_r == pytest.approx(1.0)


def test_the_length_effect_is_within_prompts() -> None:
    """Prompts with long answers have small gaps here; within a prompt length does nothing."""
    conditioned = tuple(
        Sample(prompt=prompt, tokens=100 * prompt + i, gap=-1 / (prompt + 1) + noise, reward=None)
        for prompt in range(30)
        for i, noise in enumerate((0.01, -0.01, -0.01, 0.01))
    )
    found = Measured(step=0, conditioned=conditioned, plain=()).length_effect
    assert found.within is not None
    assert found.within.value == pytest.approx(0.0, abs=1e-9)
    assert found.pooled is not None
    assert found.pooled > 0.5


@given(st.lists(st.one_of(st.none(), st.floats(-5, 1)), min_size=1, max_size=12))
def test_each_prompt_has_one_weight_and_unscored_ones_are_counted(gaps: list[float | None]) -> None:
    conditioned = tuple(
        Sample(prompt=i // 2, tokens=3, gap=gap, reward=None) for i, gap in enumerate(gaps)
    )
    found = Measured(step=0, conditioned=conditioned, plain=(), unfit=("long",))
    means = [gap for gap in found.gaps.values() if gap is not None]
    assert found.gaps["long"] is None
    assert found.gap.scored + found.gap.unscored == (len(gaps) + 1) // 2 + 1
    assert found.gap.mean == (pytest.approx(sum(means) / len(means)) if means else None)


def test_the_gap_of_step_and_prompt_joins_the_rows_of_a_run() -> None:
    rows = [
        RewardRow(step=step, prompt=prompt, rollout=0, reward=0.5, reference=0.3)
        for step in (0, 25, 50)
        for prompt in range(3)
    ]
    series = [checkpoint(0, -0.5), checkpoint(25, -0.2)]
    joined = with_self_gap(rows, series)
    assert [row.self_gap for row in joined] == [-0.5] * 3 + [-0.2] * 3 + [None] * 3
    assert "no self-gap" in audit_stopping(joined).evidence
    assert "self-gap peaks at 25" in audit_stopping(joined[:6]).evidence


@pytest.mark.parametrize("series", [[], [checkpoint(0), checkpoint(0)]])
def test_no_checkpoint_or_one_twice_is_refused(series: list[Measured]) -> None:
    with pytest.raises(InvalidArgument, match="each step once"):
        validate(series)
