"""Within-prompt effects, the self-internalization gap and the stopping point."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.errors import InvalidArgument
from oracles.reward_audit.effects import audit_effects, fixed_effects
from oracles.reward_audit.findings import Status
from oracles.reward_audit.records import RewardRow
from oracles.reward_audit.stopping import (
    SampleLogprobs,
    audit_stopping,
    back_slide,
    self_gap,
    stopping_regret,
)

series = st.lists(st.floats(0.01, 1), min_size=1, max_size=8)


def simpson(prompts=60, checkpoints=8):
    """Within a prompt x and y rise together; prompts with large x have small y."""
    generator = np.random.default_rng(0)
    for prompt in range(prompts):
        level = generator.normal()
        for _ in range(checkpoints):
            x = generator.normal()
            yield prompt, 5 * level + x, -5 * level + x + generator.normal()


def test_within_and_pooled_correlations_may_differ_in_sign():
    found = fixed_effects(simpson())
    assert found.pooled < -0.7
    assert found.within.low > 0.5


@given(st.integers(0, 2**32 - 1))
def test_shifting_prompts_moves_the_pooled_but_not_the_within_correlation(seed):
    generator = np.random.default_rng(seed)
    points = [(i % 5, *generator.normal(size=2)) for i in range(40)]
    shifts = generator.normal(size=(5, 2)) * 10
    shifted = [(p, x + shifts[p, 0], y + shifts[p, 1]) for p, x, y in points]
    assert fixed_effects(shifted).within.value == pytest.approx(
        fixed_effects(points).within.value, abs=1e-9
    )


def test_a_prompt_whose_value_never_changes_is_excluded_and_counted():
    points = [("moves", float(i), float(i)) for i in range(4)]
    constant = [("stays", 1.0, float(i)) for i in range(4)] + [("once", 1.0, 1.0)]
    found = fixed_effects(points + constant)
    assert (found.prompts, found.excluded) == (1, 2)
    assert found.within.value == pytest.approx(1)
    assert fixed_effects(constant).within is None
    assert fixed_effects([]).pooled is None


def rollouts(length, errors):
    generator = np.random.default_rng(0)
    for step in range(6):
        for prompt in range(40):
            reward = 0.1 * step + generator.normal(0, 0.05)
            yield RewardRow(
                step=step,
                prompt=prompt,
                rollout=0,
                reward=reward,
                length=100.0 + (50 * step if length else generator.normal()),
                incorrect_claims=float(step if errors else generator.integers(3)),
            )


@pytest.mark.parametrize(("length", "errors"), [(True, False), (False, True)])
def test_a_reward_that_follows_length_or_errors_is_flagged_for_that_alone(length, errors):
    found = audit_effects(list(rollouts(length, errors)))
    assert [finding.verdict is Status.FLAG for finding in found] == [length, errors]


def test_a_gap_is_a_mean_over_tokens_and_does_not_grow_with_length():
    short = SampleLogprobs(prompt_only=[-2.0] * 10, with_rubric=[-1.5] * 10)
    long = SampleLogprobs(prompt_only=[-2.0] * 1000, with_rubric=[-1.5] * 1000)
    assert self_gap([short]).mean == self_gap([long]).mean == -0.5


def test_empty_and_truncated_samples_are_unscored_and_counted():
    good = SampleLogprobs(prompt_only=[-1.0], with_rubric=[-0.5])
    empty = SampleLogprobs(prompt_only=[], with_rubric=[])
    cut = SampleLogprobs(prompt_only=[-9.0], with_rubric=[-0.5], truncated=True)
    found = self_gap([good, empty, cut])
    assert (found.mean, found.scored, found.unscored) == (-0.5, 1, 2)
    assert self_gap([empty]).mean is None
    with pytest.raises(InvalidArgument, match="1 tokens without"):
        SampleLogprobs(prompt_only=[-1.0], with_rubric=[])


def test_the_gap_is_0_for_equal_contexts_and_minus_the_divergence_in_expectation():
    """Closed form on a policy over five tokens: E[gap] = -KL(with rubric || prompt only)."""
    generator = np.random.default_rng(0)
    conditioned, plain = generator.dirichlet(np.ones(5)), generator.dirichlet(np.ones(5))
    tokens = generator.choice(5, size=(2_000, 50), p=conditioned)
    samples = [
        SampleLogprobs(prompt_only=np.log(plain)[one], with_rubric=np.log(conditioned)[one])
        for one in tokens
    ]
    divergence = float((conditioned * np.log(conditioned / plain)).sum())
    assert self_gap(samples).mean == pytest.approx(-divergence, rel=0.02)
    same = SampleLogprobs(prompt_only=[-1.0, -2.0], with_rubric=[-1.0, -2.0])
    assert self_gap([same]).mean == 0  # K = 1


def test_golden_stopping_regret_of_section_g():
    reference, proxy, gap = [0.30, 0.38, 0.36], [0.4, 0.5, 0.6], [-0.5, -0.2, -0.3]
    assert round(100 * stopping_regret(reference, proxy), 2) == 5.26
    assert stopping_regret(reference, gap) == 0


@given(series)
def test_stopping_by_the_reference_itself_has_no_regret(reference):
    assert stopping_regret(reference, reference) == 0
    assert 0 <= stopping_regret(reference, [-value for value in reference]) < 1


@pytest.mark.parametrize(
    ("reference", "criterion"), [([], []), ([1.0], [1.0, 2.0]), ([math.nan], [1.0]), ([0.0], [1.0])]
)
def test_an_undefined_regret_is_refused(reference, criterion):
    with pytest.raises(InvalidArgument, match="two finite series"):
        stopping_regret(reference, criterion)


def test_a_series_that_never_gains_cannot_slide_back():
    assert back_slide([0.2, 0.4, 0.3]) == pytest.approx(0.5)
    for bad in ([], [0.3, 0.2]):
        with pytest.raises(InvalidArgument, match="never gains"):
            back_slide(bad)


def overtrained(reference_at_end, gap=True):
    for step, reward, reference, internal in (
        (0, 0.3, 0.30, -0.5),
        (25, 0.4, 0.38, -0.2),
        (50, 0.5, reference_at_end, -0.3),
    ):
        for prompt in range(30):
            yield RewardRow(
                step=step,
                prompt=prompt,
                rollout=0,
                reward=reward + 0.001 * prompt,
                reference=reference + 0.001 * prompt,
                self_gap=internal if gap else None,
            )


def test_overtraining_is_flagged_and_the_gap_names_the_better_step():
    finding = audit_stopping(list(overtrained(0.36)))
    assert finding.verdict is Status.FLAG
    assert finding.value == pytest.approx(0.02 / (0.38 + 0.0145), rel=1e-6)
    assert "self-gap peaks at 25 with regret 0.0000" in finding.evidence
    assert audit_stopping(list(overtrained(0.40))).verdict is Status.CLEAR


def test_stopping_without_a_reference_or_a_second_checkpoint_is_skipped():
    rows = list(overtrained(0.36))
    blind = [row.model_copy(update={"reference": None}) for row in rows]
    for some in ([], blind, rows[:30]):
        assert audit_stopping(some).verdict is Status.SKIPPED
    assert "no self-gap" in audit_stopping(list(overtrained(0.36, gap=False))).evidence
