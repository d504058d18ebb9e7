"""The multiplier, token F1 and group advantages: laws and golden values."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.checkedqa.checkers import Check, Label
from clinical_envs.checkedqa.rewards import (
    Phi,
    checked_reward,
    group_advantages,
    normalise,
    token_f1,
)
from clinical_envs.checkedqa.simulated import MODERATE
from clinical_envs.errors import InvalidArgument

ONE_HOT = {
    Label.ENTAIL: Check(Label.ENTAIL, (1.0, 0.0, 0.0)),
    Label.NEUTRAL: Check(Label.NEUTRAL, (0.0, 1.0, 0.0)),
    Label.CONTRADICT: Check(Label.CONTRADICT, (0.0, 0.0, 1.0)),
}
labels = st.lists(st.sampled_from(list(Label)), max_size=12)
phis = st.builds(
    Phi,
    phi_min=st.floats(0, 1),
    a=st.floats(-3, 3),
    b=st.floats(-3, 3),
    n=st.floats(-3, 3),
)
rewards = st.lists(st.none() | st.floats(-1e6, 1e6), max_size=16)


def checks(found):
    return [ONE_HOT[label] for label in found]


@given(phis, labels)
def test_phi_lies_between_its_minimum_and_1(phi, found):
    assert phi.phi_min <= phi.of_checks(checks(found)) <= 1


@given(labels, st.randoms())
def test_the_order_of_claims_does_not_matter(found, shuffler):
    shuffled = list(found)
    shuffler.shuffle(shuffled)
    assert Phi().of_checks(checks(shuffled)) == Phi().of_checks(checks(found))


@given(labels)
def test_one_more_supported_claim_never_lowers_phi_nor_a_contradicted_one_raises_it(found):
    phi = Phi()
    now = phi.of_checks(checks(found))
    assert phi.of_checks(checks([*found, Label.ENTAIL])) >= now - 1e-12
    assert phi.of_checks(checks([*found, Label.CONTRADICT])) <= now + 1e-12


def test_golden_phi_of_section_g():
    supported = [Label.ENTAIL] * 2 + [Label.NEUTRAL, Label.CONTRADICT]
    assert Phi().of_checks(checks(supported)) == 0.625
    assert Phi().of_checks([]) == 0.5


@given(labels)
def test_a_failed_check_leaves_phi_and_the_reward_unscored(found):
    phi = Phi().of_checks([*checks(found), None])
    assert phi is None
    assert checked_reward(0.9, phi) is None


def test_nan_shares_stay_nan():
    assert np.isnan(Phi().of_shares(math.nan, 0.0, 0.0))
    assert checked_reward(math.nan, 0.5) is None


@pytest.mark.parametrize("bad", [{"phi_min": -0.1}, {"phi_min": math.nan}, {"a": math.inf}])
def test_a_multiplier_off_its_range_is_refused(bad):
    with pytest.raises(InvalidArgument, match="phi_min in"):
        Phi(**bad)


@given(st.text(), st.text())
def test_token_f1_is_symmetric_and_lies_between_0_and_1(one, other):
    try:
        score = token_f1(one, other)
        swapped = token_f1(other, one)
    except InvalidArgument:
        return
    assert 0 <= score <= 1
    assert score == swapped


def test_token_f1_examples():
    assert token_f1("a b c", "A, b; c!") == 1
    assert token_f1("", "a") == 0
    assert token_f1("a a", "a") == pytest.approx(2 / 3)
    assert token_f1("有效果", "有效") == pytest.approx(0.8)
    with pytest.raises(InvalidArgument, match="no tokens"):
        token_f1("a", "...")


def test_golden_advantages_of_section_g():
    found = group_advantages([0.5] * 7 + [0.625])
    assert found.values.round(3).tolist() == [-0.378] * 7 + [2.646]
    assert found.informative


@given(rewards)
def test_advantages_are_standardised_over_the_scored_rewards(group):
    found = group_advantages(group)
    missing = np.array([reward is None for reward in group], dtype=bool)
    assert (np.isnan(found.values) == missing).all()
    assert found.unscored == missing.sum()
    scored = found.values[~missing]
    assert scored.sum() == pytest.approx(0, abs=1e-6)
    if found.informative:
        assert scored.std() == pytest.approx(1)
    else:
        assert not scored.any()


@given(st.floats(-100, 100), st.integers(1, 8))
def test_equal_rewards_give_advantage_0_and_no_update(reward, size):
    found = group_advantages([reward] * size)
    assert found.values.tolist() == [0.0] * size
    assert not found.informative


def test_a_timeout_in_a_group_is_masked_and_counted():
    found = group_advantages([0.5, math.nan, 0.7, None])
    assert found.values[[0, 2]].tolist() == pytest.approx([-1, 1])
    assert found.unscored == 2
    assert group_advantages([math.nan, 0.5]).spread is None
    assert group_advantages([]).spread is None


def test_infinite_rewards_are_refused():
    with pytest.raises(InvalidArgument, match="infinite"):
        group_advantages([0.5, math.inf])


@pytest.mark.parametrize(
    ("shares", "spread", "flat"),
    [
        ((0.015, 0.97, 0.015), 0.031, 0.376),
        ((0.54, 0.30, 0.16), 0.169, 0.0),
        ((0.86, 0.10, 0.04), 0.105, 0.008),
    ],
)
def test_the_spread_of_phi_repeats_the_reference_simulation(shares, spread, flat):
    """evidence.md A3: groups of 8 rollouts of 4 claims, phi = .5 + .5 s - .5 c (no clip at .5).

    That phi is `Phi(phi_min=0, a=1, b=0, n=.5)`, as the three shares sum to 1.
    """
    generator = np.random.default_rng(0)
    drawn = generator.choice(3, size=(20_000, 8, 4), p=shares)
    of_rollout = [(drawn == label).mean(axis=-1) for label in range(3)]
    _, spreads = normalise(Phi(phi_min=0, a=1, b=0, n=0.5).of_shares(*of_rollout))
    assert spreads.mean() == pytest.approx(spread, abs=0.001)
    assert (spreads == 0).mean() == pytest.approx(flat, abs=0.01)


def test_the_clip_of_the_default_form_narrows_the_moderate_spread():
    generator = np.random.default_rng(0)
    drawn = generator.choice(3, size=(20_000, 8, 4), p=MODERATE.shares())
    of_rollout = [(drawn == label).mean(axis=-1) for label in range(3)]
    assert normalise(Phi().of_shares(*of_rollout))[1].mean() == pytest.approx(0.15, abs=0.01)
