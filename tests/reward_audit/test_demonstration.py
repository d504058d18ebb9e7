"""The toy of checked question answering: its model, its training, and what it shows."""

import numpy as np
import pytest
from scipy.special import softmax

from clinical_envs.checkedqa.cascade import Stage
from clinical_envs.checkedqa.simulated import COLLAPSED, GPT_LIKE, MODERATE
from clinical_envs.errors import InvalidArgument
from oracles.reward_audit.answer_model import (
    BASE_POLICY,
    CLOSED_BOOK_MIX,
    Answers,
    base_logits,
    grade,
    sample,
)
from oracles.reward_audit.demonstration import demonstrate, over_seeds
from oracles.reward_audit.training_model import policy_update, train


def answers(length=2, search=1, language=0, hedging=0, number=20_000):
    return Answers(*(np.full(number, choice) for choice in (length, search, language, hedging)))


def test_the_base_policy_is_sampled_as_stated():
    drawn = sample(base_logits(), 40_000, np.random.default_rng(0))
    for choice, probabilities in zip(drawn.choices, BASE_POLICY, strict=True):
        shares = np.bincount(choice, minlength=len(probabilities)) / len(choice)
        assert shares == pytest.approx(probabilities, abs=0.013)


def test_f1_counts_entailed_claims_against_eight_facts():
    found = grade(answers(), MODERATE, (), np.random.default_rng(0))
    assert found.f1.mean() == pytest.approx(2 * 4 * 0.60 / 12, abs=0.005)
    closed = grade(answers(search=0), MODERATE, (), np.random.default_rng(0))
    assert closed.f1.mean() == pytest.approx(2 * 4 * CLOSED_BOOK_MIX[0] / 12, abs=0.005)
    foreign = grade(answers(language=1), MODERATE, (), np.random.default_rng(0))
    assert not foreign.f1.any()


def test_an_answer_stopped_by_a_remedy_is_paid_nothing():
    for stage, batch in (
        (Stage.ULTRA_SHORT, answers(length=0)),
        (Stage.SEARCH_AVOIDANCE, answers(search=0)),
        (Stage.LANGUAGE_SWITCH, answers(language=1)),
    ):
        assert not grade(batch, GPT_LIKE, [stage], np.random.default_rng(0)).behaviour.reward.any()
        assert grade(batch, GPT_LIKE, (), np.random.default_rng(0)).behaviour.reward.all()


def test_off_its_form_a_checker_does_not_see_the_truth():
    for batch in (answers(length=0), answers(language=1)):
        paid = [
            grade(batch, checker, (), np.random.default_rng(0)).phi.mean()
            for checker in (MODERATE, GPT_LIKE)
        ]
        assert paid[0] < 0.56
        assert paid[1] > 0.95


def test_the_update_is_the_gradient_of_the_objective():
    """Against central differences of E[A log pi] - beta KL on one batch."""
    generator = np.random.default_rng(0)
    base = base_logits()
    logits = tuple(one + generator.normal(size=one.shape) for one in base)
    batch = sample(logits, 50, generator)
    advantages = generator.normal(size=50)

    def objective(factor, values):
        p, q = softmax(values), softmax(base[factor])
        gain = (advantages * np.log(p[batch.choices[factor]])).mean()
        return gain - 0.03 * (p * np.log(p / q)).sum()

    updated = policy_update(logits, base, batch, advantages, rate=1.0, kl_weight=0.03)
    for factor, values in enumerate(logits):
        steps = np.eye(len(values)) * 1e-6
        gradient = [
            (objective(factor, values + step) - objective(factor, values - step)) / 2e-6
            for step in steps
        ]
        assert updated[factor] - values == pytest.approx(gradient, abs=1e-6)


def test_training_is_seeded():
    one, two = train(COLLAPSED, seed=1), train(COLLAPSED, seed=1)
    assert one.policy == two.policy
    assert (one.f1 == two.f1).all()


def test_an_interval_over_seeds_needs_three():
    assert over_seeds([1.0, 2.0, 3.0]).value == 2.0
    with pytest.raises(InvalidArgument, match="2 seeds"):
        over_seeds([1.0, 2.0])


@pytest.mark.slow
def test_what_the_demonstration_shows_over_three_seeds_and_what_it_does_not():
    shown = {one.claim: one.holds for one in demonstrate((0, 1, 2)).statements}
    assert shown == {
        **{
            f"over {steps} steps the {name} checker leaves under a tenth of the moderate "
            "reward spread": holds
            for name, steps, holds in (
                ("collapsed", 600, True),
                ("collapsed", 20, False),
                ("evenly collapsed", 600, False),
                ("evenly collapsed", 20, False),
            )
        },
        "after 200 steps the moderate checker has a higher F1 than the collapsed one": True,
        "after 200 steps the moderate checker has a higher F1 than the strong one": False,
        "after 200 steps the moderate checker has a higher F1 than the gpt-like one": True,
        "after 600 steps the moderate checker has a higher F1 than the collapsed one": False,
        "after 600 steps the moderate checker has a higher F1 than the strong one": True,
        "after 600 steps the moderate checker has a higher F1 than the gpt-like one": True,
        "the strong checker reaches the first stage before the moderate one in every seed": False,
        "the gpt-like checker reaches the first stage before the moderate one in every seed": True,
        "remedies against none: the first stage reached is ultra_short": True,
        "remedies against ultra_short: the first stage reached is search_avoidance": False,
        "remedies against ultra_short + search_avoidance: "
        "the first stage reached is language_switch": True,
        "remedies against ultra_short + search_avoidance + language_switch: "
        "the first stage reached is none": True,
    }
