"""Rubric rewards: laws, the golden values of evidence.md section G, hard inputs of section E."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.errors import InvalidArgument
from clinical_envs.rubric.scoring import (
    healthbench_flipped,
    healthbench_mean,
    healthbench_score,
    reference_reward,
    rubric_reward,
    scored_mean,
)

weight = st.floats(-100, 100, allow_subnormal=False).filter(lambda w: w == 0 or abs(w) > 1e-6)


@st.composite
def graded_rubric(draw, options=(True, False)):
    weights = draw(st.lists(weight, min_size=1, max_size=8).filter(lambda ws: any(ws)))
    met = draw(st.lists(st.sampled_from(options), min_size=len(weights), max_size=len(weights)))
    return weights, met


@given(graded_rubric())
def test_the_reward_lies_between_0_and_1(rubric):
    assert 0 <= rubric_reward(*rubric) <= 1


@given(graded_rubric())
def test_flipping_all_weights_and_verdicts_changes_nothing(rubric):
    weights, met = rubric
    flipped = rubric_reward([-w for w in weights], [not g for g in met])
    # a weight of 0 earns nothing on either side, so the sign it loses does not matter
    assert flipped == rubric_reward(weights, met)


@given(graded_rubric())
def test_opposite_verdicts_share_the_whole_reward(rubric):
    weights, met = rubric
    opposite = rubric_reward(weights, [not g for g in met])
    assert rubric_reward(weights, met) + opposite == pytest.approx(1)


@given(graded_rubric(), st.randoms())
def test_relabelling_the_criteria_changes_no_score(rubric, shuffler):
    pairs = list(zip(*rubric, strict=True))
    shuffler.shuffle(pairs)
    shuffled = tuple(zip(*pairs, strict=True))
    for score in (rubric_reward, healthbench_score, healthbench_flipped):
        assert score(*shuffled) == score(*rubric)


@given(graded_rubric(options=(True, False, None)))
def test_a_missing_verdict_is_never_a_0(rubric):
    weights, met = rubric
    missing = any(g is None and w != 0 for w, g in zip(weights, met, strict=True))
    assert (rubric_reward(weights, met) is None) == missing
    if missing:
        assert healthbench_score(weights, met) is None


@given(graded_rubric().filter(lambda rubric: any(w > 0 for w in rubric[0])))
def test_a_healthbench_score_never_exceeds_1(rubric):
    assert healthbench_score(*rubric) <= 1


@pytest.mark.parametrize(
    ("met", "reward", "published"),
    [((True, False, True), 0.40, 0.1176), ((True, False, False), 0.72, 0.5882)],
)
def test_golden_rubric_of_section_g(met, reward, published):
    weights = (10, 7, -8)
    assert rubric_reward(weights, met) == pytest.approx(reward, abs=1e-12)
    assert round(healthbench_score(weights, met), 4) == published
    assert healthbench_flipped(weights, met) == rubric_reward(weights, met)


def test_an_empty_rubric_is_an_error_and_not_a_0():
    for score in (rubric_reward, healthbench_score, healthbench_flipped):
        with pytest.raises(InvalidArgument, match="empty"):
            score([], [])


def test_a_rubric_of_negative_points_only_has_a_flipped_score_but_no_published_one():
    assert healthbench_score([-8, -2], [True, False]) is None
    assert healthbench_flipped([-8, -2], [True, False]) == 0.2


def test_a_weight_of_0_needs_no_verdict_and_a_rubric_of_them_is_an_error():
    assert rubric_reward([3, 0], [True, None]) == 1.0
    with pytest.raises(InvalidArgument, match="every weight"):
        rubric_reward([0, 0], [True, True])


def test_duplicate_criteria_count_twice():
    assert rubric_reward([1, 1, 1], [True, True, False]) == pytest.approx(2 / 3)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_refused(bad):
    with pytest.raises(InvalidArgument, match="not finite"):
        rubric_reward([1, bad], [True, True])


def test_a_verdict_short_is_refused():
    with pytest.raises(InvalidArgument, match="2 weights but 1 verdicts"):
        rubric_reward([1, 1], [True])


def test_a_split_panel_earns_nothing_under_unanimity():
    split = [[True, True, False]] * 3
    assert reference_reward([1, 2, 3], split) == 0
    # unanimity is lenient on what the rubric forbids
    assert reference_reward([-1, -2, -3], split) == 1


def test_only_the_mean_is_clipped():
    assert healthbench_mean([-3.0, 1.0]).mean == 0.0
    assert healthbench_mean([-0.5, 1.0]).mean == 0.25


def test_unscored_answers_are_left_out_of_the_mean_and_counted():
    found = healthbench_mean([None, math.nan, 0.5])
    assert (found.mean, found.scored, found.unscored) == (0.5, 1, 2)
    assert scored_mean([None]).mean is None
    assert healthbench_mean([]).mean is None
