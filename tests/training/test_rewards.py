"""Training rewards: hand-computed values on the toy, then the laws that hold on any task."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.belief import InfoState, entropy, initial_state, posterior
from clinical_envs.episode import AskTurn, CommitTurn, Episode, InvalidTurn, Turn
from clinical_envs.errors import InvalidArgument
from clinical_envs.simulator import Action, Ask, Commit, Invalid
from clinical_envs.task import Task
from clinical_envs.verifier import verify
from oracles.exact import Leaf, leaves
from oracles.oracle import Oracle
from oracles.policy import Deterministic
from tests.strategies import Play, plays, tasks
from tests.training.toy import (
    FLAT,
    FULL,
    HIGH,
    LOW,
    NO,
    OPTIMUM,
    STRONG,
    WEAK,
    played,
    toy_task,
    toy_world,
)
from training.rewards import (
    RewardWeights,
    TurnCredit,
    episode_reward,
    exploit_reward,
    explore_reward,
    turn_credits,
)

YES = (True, True, True)
ABSENT = (False, False, False)
LN2 = math.log(2.0)
H_90 = -(0.9 * math.log(0.9) + 0.1 * math.log(0.1))


def credits_of(
    actions: list[Action], answers: tuple[bool, ...], state: int = HIGH
) -> tuple[TurnCredit, ...]:
    oracle = toy_world().oracle
    return turn_credits(oracle, played(oracle.task, actions, answers, state))


def is_credit(
    credit: TurnCredit,
    reward: float,
    drop: float = 0.0,
    regret: float = 0.0,
    changed: bool = False,
    sufficiency: int = 0,
) -> None:
    assert credit.reward == pytest.approx(reward)
    assert credit.entropy_drop == pytest.approx(drop)
    assert credit.regret == pytest.approx(regret, abs=1e-12)
    assert credit.decision_changed is changed
    assert credit.sufficiency == sufficiency


def test_the_optimum_of_the_toy_is_what_its_closed_form_says() -> None:
    assert toy_world().oracle.optimal_value == pytest.approx(OPTIMUM)


def test_asking_the_telling_finding_and_committing_on_it_earns_these_credits() -> None:
    ask, commit = credits_of([Ask(STRONG), Commit(FULL)], YES)
    is_credit(ask, reward=-0.03, drop=LN2 - H_90, changed=True)
    is_credit(commit, reward=0.5, sufficiency=1)


def test_a_high_acuity_commit_without_its_evidence_earns_minus_one() -> None:
    _, commit = credits_of([Ask(STRONG), Commit(FULL)], ABSENT, state=LOW)
    is_credit(commit, reward=-0.5, regret=0.8, sufficiency=-1)


def test_a_commit_that_needs_no_evidence_has_sufficiency_zero() -> None:
    (commit,) = credits_of([Commit(NO)], YES)
    is_credit(commit, reward=-0.5, regret=OPTIMUM)


def test_a_weak_ask_delays_the_telling_one_and_costs_its_regret() -> None:
    weak, strong, _ = credits_of([Ask(WEAK), Ask(STRONG), Commit(FULL)], YES)
    h_60 = -(0.6 * math.log(0.6) + 0.4 * math.log(0.4))
    is_credit(weak, reward=-0.03, drop=LN2 - h_60, regret=0.03, changed=True)
    assert strong.entropy_drop + weak.entropy_drop == pytest.approx(
        LN2 - entropy(np.array([0.04, 0.54]) / 0.58)
    )
    assert strong.regret == pytest.approx(0.0, abs=1e-12)
    assert not strong.decision_changed


@pytest.mark.parametrize("wasted", [Ask(STRONG), Invalid("not_json"), Ask(FLAT)])
def test_repeats_invalid_turns_and_flat_findings_earn_regret_and_nothing_else(
    wasted: Action,
) -> None:
    _, second, _ = credits_of([Ask(STRONG), wasted, Commit(FULL)], YES)
    assert second.entropy_drop == 0.0
    is_credit(second, reward=-0.03, regret=0.03)


def test_running_out_of_turns_pays_no_decision_at_the_last_turn() -> None:
    oracle = Oracle(toy_task(turn_cap=2))
    episode = played(oracle.task, [Invalid("empty"), Ask(FLAT)], YES, HIGH)
    first, last = turn_credits(oracle, episode)
    assert first.reward == pytest.approx(-0.03)
    assert last.reward == pytest.approx(-0.03 - 0.5)


def test_each_weight_multiplies_its_own_credit() -> None:
    credit = TurnCredit(
        reward=-0.03, entropy_drop=0.5, regret=0.2, decision_changed=True, sufficiency=-1
    )
    weights = RewardWeights(
        outcome=2.0, entropy=0.1, regret=3.0, decision_change=5.0, sufficiency=7.0
    )
    assert credit.total(weights) == pytest.approx(-0.06 + 0.05 - 0.6 + 5.0 - 7.0)


def test_clipping_drops_a_rise_of_entropy_and_keeps_a_fall() -> None:
    oracle = toy_world().oracle
    episode = played(oracle.task, [Ask(STRONG), Ask(WEAK), Commit(FULL)], (True, False, True), HIGH)
    fall, rise, _ = turn_credits(oracle, episode)
    assert rise.entropy_drop < 0.0 < fall.entropy_drop
    signed, clipped = (
        RewardWeights(outcome=0.0, entropy=1.0, clip_entropy=clip) for clip in (False, True)
    )
    assert rise.total(signed) == pytest.approx(rise.entropy_drop)
    assert rise.total(clipped) == 0.0
    assert fall.total(clipped) == fall.total(signed)


def test_exploring_is_paid_the_entropy_it_removed_less_its_cost() -> None:
    task = toy_task()
    start = initial_state(task, 0)
    after = start.see(STRONG, True).waste()
    assert explore_reward(task, start, after, 2, 0.0) == pytest.approx(LN2 - H_90)
    assert explore_reward(task, start, after, 2, 0.5) == pytest.approx(LN2 - H_90 - 0.03)


def test_exploiting_is_paid_the_pure_utility_and_no_decision_for_anything_else() -> None:
    task = toy_task()
    assert exploit_reward(task, HIGH, Commit(FULL)) == 0.5
    assert exploit_reward(task, LOW, Commit(FULL)) == -0.5
    for action in (Invalid("not_json"), Ask(STRONG), None):
        assert exploit_reward(task, LOW, action) == -0.5


def test_an_episode_without_its_state_is_refused_in_one_line() -> None:
    oracle = toy_world().oracle
    episode = played(oracle.task, [Commit(NO)], YES).model_copy(update={"state": None})
    with pytest.raises(InvalidArgument, match="not recorded") as caught:
        turn_credits(oracle, episode)
    assert "\n" not in str(caught.value)


@given(plays())
def test_the_outcome_reward_is_the_verifiers(play: Play) -> None:
    episode = play.episode()
    reward = episode_reward(Oracle(play.task), episode, RewardWeights())
    assert reward == pytest.approx(verify(play.task, episode).reward, abs=1e-9)


@given(plays(certain=True))
def test_entropy_credit_telescopes(play: Play) -> None:
    episode = play.episode()
    outcome = verify(play.task, episode)
    before, after = (entropy(posterior(play.task, info)) for info in (outcome.start, outcome.final))
    drops = [credit.entropy_drop for credit in turn_credits(Oracle(play.task), episode)]
    assert sum(drops) == pytest.approx(before - after, abs=1e-9)


@given(tasks(max_findings=3, max_turns=4), st.integers(0, 2**32 - 1))
def test_expected_regret_credit_is_the_gap_to_the_oracle(task: Task, seed: int) -> None:
    oracle = Oracle(task)
    policy = Deterministic("arbitrary", lambda info: arbitrary_action(task, info, seed))
    for family in range(len(task.families)):
        gap = value = 0.0
        for leaf in leaves(task, policy, family):
            chance = leaf.reach * task.prior
            credits = turn_credits(oracle, as_episode(task, family, leaf, int(chance.argmax())))
            gap += chance.sum() * sum(credit.regret for credit in credits)
            value += float(chance @ leaf.reward(task))
        best = oracle.value(initial_state(task, family))
        assert -gap == pytest.approx(value - best, abs=1e-9)


def arbitrary_action(task: Task, info: InfoState, seed: int) -> Action:
    """Some action of this state, repeats and invalid turns among them."""
    rng = np.random.default_rng([seed, *info])
    kind = rng.choice(["ask", "commit", "invalid"], p=[0.6, 0.25, 0.15])
    if kind == "ask":
        return Ask(int(rng.integers(len(task.findings))))
    if kind == "commit":
        return Commit(int(rng.integers(len(task.decisions))))
    return Invalid("not_json")


def as_episode(task: Task, family: int, leaf: Leaf, state: int) -> Episode:
    """One way an episode can go, as a record."""
    turns: list[Turn] = []
    for action, answer in leaf.path:
        match action:
            case Ask(finding):
                turns.append(AskTurn(ask=task.finding_ids[finding], answer=bool(answer)))
            case Commit(decision):
                turns.append(CommitTurn(commit=task.decision_ids[decision]))
            case Invalid(reason):
                turns.append(InvalidTurn(invalid=reason))
    return Episode(
        task=task.key,
        family=task.family_ids[family],
        turns=tuple(turns),
        state=task.state_ids[state],
    )
