"""Checker signal, reward spread and the cascade in logs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.checkedqa.checkers import LABELS, Label
from clinical_envs.checkedqa.simulated import MODERATE, Confusion
from oracles.reward_audit.audit import audit_reward
from oracles.reward_audit.checker_signal import audit_signal, band, informedness, signal
from oracles.reward_audit.findings import Status
from oracles.reward_audit.published import CHECKER_SHARES
from oracles.reward_audit.records import CheckRow, Log, RewardRow
from oracles.reward_audit.reward_spread import audit_spread, reward_groups, spread
from oracles.reward_audit.shortcuts import audit_shortcuts, first_steps

ALWAYS = {
    label: Confusion(name=label, entail=row, neutral=row, contradict=row, off_form=row)
    for label, row in zip(LABELS, ((1.0, 0, 0), (0, 1.0, 0), (0, 0, 1.0)), strict=True)
}
THIRD = (1 / 3, 1 / 3, 1 / 3)
RANDOM = Confusion(name="random", entail=THIRD, neutral=THIRD, contradict=THIRD, off_form=THIRD)
PERFECT = Confusion(
    name="perfect",
    entail=(1.0, 0, 0),
    neutral=(0, 1.0, 0),
    contradict=(0, 0, 1.0),
    off_form=(0, 1.0, 0),
)


def checks(confusion, *, mix=(0.5, 0.3, 0.2), policy="policy", seed=0):
    generator = np.random.default_rng(seed)
    truth = generator.choice(3, size=(40, 30), p=mix)
    verdicts = confusion.draw(truth, False, generator)
    return [
        CheckRow(
            step=0,
            prompt=prompt,
            rollout=0,
            claim=claim,
            checker=confusion.name,
            policy=policy,
            verdict=LABELS[int(verdicts[prompt, claim])],
            truth=LABELS[int(truth[prompt, claim])],
        )
        for prompt in range(40)
        for claim in range(30)
    ]


def flags(rows):
    return {one.rule for one in audit_signal("pair", rows) if one.verdict is Status.FLAG}


@pytest.mark.parametrize(
    ("confusion", "expected"),
    [
        (ALWAYS[Label.NEUTRAL], {"neutral_collapse", "no_support", "uninformative_checker"}),
        (ALWAYS[Label.ENTAIL], {"saturation", "uninformative_checker"}),
        (ALWAYS[Label.CONTRADICT], {"no_support", "uninformative_checker"}),
        (RANDOM, {"uninformative_checker"}),
        (MODERATE, set()),
        (PERFECT, set()),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_constant_and_random_checkers_get_their_verdict(confusion, expected):
    assert flags(checks(confusion)) == expected


def test_held_out_accuracy_does_not_show_a_collapse():
    """A perfect checker on a policy whose claims the evidence leaves open: collapse, accuracy 1."""
    found = {one.rule: one for one in audit_signal("pair", checks(PERFECT, mix=(0, 1, 0)))}
    assert found["neutral_collapse"].verdict is Status.FLAG
    assert "accuracy 1.000" in found["uninformative_checker"].evidence


def test_strength_is_attributed_to_the_pair_of_policy_and_checker():
    log = Log()
    for policy, mix in (("one", (0.5, 0.3, 0.2)), ("two", (0.99, 0.01, 0.0))):
        for row in checks(PERFECT, mix=mix, policy=policy):
            log.add(row)
    flagged = {(one.subject, one.rule) for one in audit_reward(log) if one.verdict is Status.FLAG}
    assert flagged == {("two / perfect", "saturation")}


@pytest.mark.parametrize(
    ("shares", "nats", "strength"),
    [
        (CHECKER_SHARES["MedNLI-Cls"], 0.987, "moderate"),
        (CHECKER_SHARES["GPT-NLI"], 0.489, "strong"),
        ((0.015, 0.97, 0.015), 0.156, "collapsed"),
    ],
)
def test_published_shares_have_the_reference_entropy_and_band(shares, nats, strength):
    """Entropies of evidence.md A3."""
    counts = [round(1000 * share) for share in shares]
    rows = [
        CheckRow(step=0, prompt=0, rollout=0, claim=i, verdict=label)
        for i, label in enumerate(np.repeat(np.array(LABELS), counts).tolist())
    ]
    found = signal(rows)
    assert found.entropy == pytest.approx(nats, abs=5e-4)
    assert found.band == strength


@given(st.floats(0, 1), st.floats(0, 1))
def test_every_pair_of_shares_has_a_band(support, rest):
    neutral = rest * (1 - support)
    assert (band(support, neutral) == "collapsed") == (neutral >= 0.97 or support <= 0.01)


def test_unscored_claims_are_counted_and_never_neutral():
    rows = [
        CheckRow(step=0, prompt=0, rollout=0, claim=i, verdict=verdict)
        for i, verdict in enumerate([Label.ENTAIL, None, None])
    ]
    found = signal(rows)
    assert (found.support, found.neutral, found.scored, found.unscored) == (1.0, 0.0, 1, 2)
    assert signal(rows[1:]) is None
    assert {one.verdict for one in audit_signal("pair", rows[1:])} == {Status.SKIPPED}


def test_informedness_is_0_for_chance_and_1_for_a_perfect_checker():
    assert informedness(np.eye(3) * [5, 1, 9]) == pytest.approx(1)
    assert informedness(np.outer([5, 1, 9], [0.2, 0.5, 0.3])) == pytest.approx(0)
    two_labels = np.array([[8.0, 2, 0], [0, 0, 0], [1, 1, 8]])
    assert informedness(two_labels) == pytest.approx((0.8 - 0.1 + 0.8 - 0.0) / 2)
    assert informedness(np.outer([5, 0, 9], [0.2, 0.5, 0.3])) == pytest.approx(0)
    assert np.isnan(informedness(np.diag([5.0, 0, 0])))


def reward_rows(reward, *, steps=(0, 25, 50), prompts=30, size=8, **other):
    generator = np.random.default_rng(0)
    for step in steps:
        for prompt in range(prompts):
            for rollout in range(size):
                fields = {name: value(step) for name, value in other.items()}
                value = reward(generator, step)
                yield RewardRow(
                    step=step, prompt=prompt, rollout=rollout, reward=value, phi=value, **fields
                )


def test_a_stray_verdict_is_loud_after_normalisation_and_silent_before():
    groups = reward_groups([("q", 0, reward) for reward in [0.5] * 7 + [0.625]])
    found = spread(groups)
    assert found.before == pytest.approx(0.0413, abs=1e-4)
    assert (found.after, found.zero_variance) == (1.0, 0.0)


def test_timeouts_are_counted_and_groups_with_one_score_are_no_groups():
    values = [("a", 0, 0.5), ("a", 0, None), ("b", 0, 0.5), ("b", 0, math.nan), ("b", 0, 0.5)]
    found = spread(reward_groups(values))
    assert (found.groups, found.unscored, found.zero_variance) == (1, 2, 1.0)
    assert spread({}).before is None


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        (lambda generator, _: 0.5, {"zero_variance_groups", "thin_signal"}),
        (lambda generator, _: 0.5 + 0.02 * generator.random(), {"thin_signal"}),
        (lambda generator, _: generator.random(), set()),
    ],
)
def test_flat_thin_and_healthy_rewards(reward, expected):
    findings = audit_spread(list(reward_rows(reward)))
    assert {one.rule for one in findings if one.verdict is Status.FLAG} == expected


def test_the_first_step_of_each_stage_is_named():
    rows = list(
        reward_rows(
            lambda _, step: 0.5 + step / 100,
            steps=(0, 10, 20, 30),
            claims=lambda step: 1.0 if step >= 20 else 4.0,
            searches=lambda step: 0.0 if step >= 10 else 2.0,
            foreign_share=lambda step: 0.5 if step >= 30 else 0.0,
        )
    )
    assert first_steps(rows) == {"search_avoidance": 10, "ultra_short": 20, "language_switch": 30}
    findings = audit_shortcuts(rows)
    assert [one.verdict for one in findings] == [Status.FLAG] * 3
    assert "reached at step 10" in findings[1].evidence


def test_search_avoidance_that_did_not_pay_is_unclear():
    rows = reward_rows(
        lambda _, step: 0.5 - step / 1000, searches=lambda step: 0.0 if step else 2.0
    )
    finding = audit_shortcuts(list(rows))[1]
    assert finding.verdict is Status.UNCLEAR
    assert "reward changed by -0.050" in finding.evidence


def test_what_a_run_did_not_record_is_skipped():
    findings = audit_reward(Log(rewards=list(reward_rows(lambda generator, _: generator.random()))))
    skipped = {one.rule for one in findings if one.verdict is Status.SKIPPED}
    assert {"ultra_short", "search_avoidance", "language_switch", "stopping_regret"} <= skipped
    assert audit_reward(Log()) == ()
