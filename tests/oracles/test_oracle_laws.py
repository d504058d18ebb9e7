"""What must hold for the oracle of any task, on small random ones."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from clinical_envs.belief import InfoState, initial_state, path_weights, predictive
from clinical_envs.simulator import Action, Ask, Commit, Invalid
from clinical_envs.task import Task
from oracles.brute_force import BruteForce, brute_force
from oracles.clinical import ClinicalWorld
from oracles.exact import exact_value, leaves
from oracles.oracle import Oracle
from oracles.policies import make_policy
from oracles.policy import Deterministic
from tests.oracles.variants import (
    changed,
    every_case,
    info_states,
    named,
    only,
    played,
    relabelled,
    table_policy,
    with_finding,
)
from tests.strategies import tasks

SMALL = tasks(max_findings=3, max_turns=4, certain=True)
SEEDS = st.integers(0, 2**32 - 1)


def close(value: float) -> object:
    return pytest.approx(value, abs=1e-12)


@given(tasks(max_findings=3, max_turns=4, certain=True))
def test_the_oracle_equals_brute_force_in_every_information_state(task: Task) -> None:
    oracle = Oracle(task)
    for f, family in enumerate(task.family_ids):
        truth = BruteForce(task, family)
        for info in info_states(task, f):
            expected = truth.optimum(named(task, info), info.turns_left).value
            assert oracle.value(info) == close(float(expected))


@given(SMALL)
def test_value_and_asks_before_the_first_turn_equal_brute_force(task: Task) -> None:
    assume(task.question_cost > 0.0)  # else an idle question ties with the best one
    oracle, truth = Oracle(task), brute_force(task)
    exact = exact_value(task, make_policy("oracle", oracle))
    assert oracle.optimal_value == close(float(truth.value))
    assert exact.value == close(float(truth.value))
    assert exact.mean_asks == close(float(truth.asks))


@given(SMALL)
def test_action_values_are_bellman_consistent_in_every_information_state(task: Task) -> None:
    oracle = Oracle(task)
    for f in range(len(task.families)):
        for info in info_states(task, f):
            if info.turns_left == 0:
                continue
            values = oracle.values(info)
            best = max(values.commit.max(), values.ask.max(), values.wasted)
            assert values.value == close(float(best))
            assert values.of(values.action) == close(values.value)
            assert values.wasted == close(oracle.value(info.waste()) - task.question_cost)
            chance = predictive(task, info)
            for q in range(len(task.findings)):
                after = sum(
                    weight * oracle.value(info.see(q, present))
                    for present, weight in ((True, chance[q]), (False, 1.0 - chance[q]))
                    if weight > 0.0 and path_weights(task, info.see(q, present)).any()
                )
                assert values.ask[q] == close(after - task.question_cost)


@given(SMALL)
def test_the_optimum_lies_between_commit_now_and_clairvoyance(task: Task) -> None:
    oracle = Oracle(task)
    for f in range(len(task.families)):
        for info in info_states(task, f):
            if info.turns_left == 0:
                continue
            weights = path_weights(task, info)
            belief = weights / weights.sum()
            commit = (belief @ task.utility_matrix).max()
            clairvoyant = belief @ task.utility_matrix.max(axis=1)
            assert commit - 1e-12 <= oracle.value(info) <= clairvoyant + 1e-12


@given(SMALL)
def test_one_turn_more_never_lowers_the_optimum(task: Task) -> None:
    oracle = Oracle(task)
    for f in range(len(task.families)):
        for info in info_states(task, f):
            if info.turns_left > 0:
                assert oracle.value(info) >= oracle.value(info.waste()) - 1e-12


@given(SMALL)
def test_a_finding_for_nothing_never_lowers_the_optimum(task: Task) -> None:
    oracle = Oracle(task)
    for f in range(len(task.families)):
        for info in info_states(task, f, all_turns=False):
            chance = predictive(task, info)
            for q in range(len(task.findings)):
                if info.knows(q):
                    continue
                shown = sum(
                    weight * oracle.value(info.see(q, present, turns=0))
                    for present, weight in ((True, chance[q]), (False, 1.0 - chance[q]))
                    if weight > 1e-12
                )
                assert shown >= oracle.value(info) - 1e-9


@given(SMALL, st.data())
def test_one_more_finding_never_lowers_the_optimum(task: Task, data: st.DataObject) -> None:
    row = st.lists(
        st.integers(0, 100).map(lambda x: x / 100),
        min_size=len(task.states),
        max_size=len(task.states),
    )
    more = with_finding(task, "one_more", {f: data.draw(row) for f in task.family_ids})
    assert Oracle(more).optimal_value >= Oracle(task).optimal_value - 1e-12


@given(SMALL, st.floats(0.01, 0.99))
def test_a_finding_without_information_changes_nothing(task: Task, chance: float) -> None:
    flat = {f: [chance] * len(task.states) for f in task.family_ids}
    oracle, other = Oracle(task), Oracle(with_finding(task, "flat", flat))
    for f in range(len(task.families)):
        for info in info_states(task, f):
            assert other.value(info) == close(oracle.value(info))
            for present in (False, True):
                seen = info.see(len(task.findings), present, turns=0)
                assert other.value(seen) == close(oracle.value(info))
    asks = exact_value(task, make_policy("oracle", oracle)).mean_asks
    assert exact_value(other.task, make_policy("oracle", other)).mean_asks == close(asks)


@given(tasks(max_findings=2, max_turns=4), st.data())
def test_a_copy_of_a_finding_that_is_certain_changes_nothing(
    task: Task, data: st.DataObject
) -> None:
    """Answers are independent given the state, so only a copy of a certain one tells nothing."""
    row = st.lists(
        st.sampled_from([0.0, 1.0]), min_size=len(task.states), max_size=len(task.states)
    )
    p = {f: data.draw(row) for f in task.family_ids}
    once = with_finding(task, "certain", p)
    twice = with_finding(once, "copy", p)
    assert Oracle(twice).optimal_value == close(Oracle(once).optimal_value)
    assert float(brute_force(twice).asks) == close(float(brute_force(once).asks))


@given(SMALL, SEEDS)
def test_relabelling_changes_no_value(task: Task, seed: int) -> None:
    other = relabelled(task, np.random.default_rng(seed))
    ours, theirs = Oracle(task), Oracle(other)
    assert theirs.optimal_value == close(ours.optimal_value)
    assert theirs.best_constant[1] == close(ours.best_constant[1])
    for f, family in enumerate(task.family_ids):
        for info in info_states(task, f):
            there = _translated(task, info, other, family)
            assert theirs.value(there) == close(ours.value(info))
            if info.turns_left == 0:
                continue
            mine, other_values = ours.values(info), theirs.values(there)
            for q, name in enumerate(task.finding_ids):
                assert other_values.ask[other.finding(name)] == close(mine.ask[q])
            for a, name in enumerate(task.decision_ids):
                assert other_values.commit[other.decision(name)] == close(mine.commit[a])


def _translated(task: Task, info: InfoState, other: Task, family: str) -> InfoState:
    answers = [(other.finding(name), present) for name, present in named(task, info).items()]
    start = initial_state(other, other.family_ids.index(family), answers)
    return start._replace(turns_left=info.turns_left)


@given(tasks(max_findings=4, max_turns=4), SEEDS)
def test_expected_regret_of_any_policy_is_what_it_loses(task: Task, seed: int) -> None:
    """E[Σ max Q* - Q*(a_t)] = V* - V^pi, with repeats, invalid turns and turns running out."""
    oracle, policy = Oracle(task), table_policy(task, seed)
    regret = 0.0
    for f in range(len(task.families)):
        for leaf in leaves(task, policy, f):
            info, lost = initial_state(task, f), 0.0
            for action, answer in leaf.path:
                lost += oracle.values(info).regret(action)
                asked = isinstance(action, Ask) and answer is not None
                info = info.see(action.finding, answer) if asked else info.waste()  # type: ignore[union-attr, arg-type]
            regret += float(task.prior @ leaf.reach) * lost / len(task.families)
    gap = oracle.optimal_value - exact_value(task, policy).value
    assert regret == pytest.approx(gap, abs=1e-10)
    assert gap >= -1e-12


@given(tasks(max_findings=3, max_turns=4), SEEDS)
def test_playing_every_patient_gives_the_exact_value_the_regret_and_the_asks(
    task: Task, seed: int
) -> None:
    """Simulator, verifier and assessment against enumeration of the policy's paths."""
    world, policy = ClinicalWorld(task), table_policy(task, seed)
    value = regret = asks = 0.0
    for probability, case in every_case(task):
        paid, encounter = played(task, case, policy.rule)
        row = world.assess(encounter.episode().model_copy(update={"case": None}))
        assert row.reward == pytest.approx(paid, abs=1e-12)
        assert row.regret is not None
        value += probability * row.reward
        regret += probability * row.regret
        asks += probability * row.asks
    exact = exact_value(task, policy)
    assert value == pytest.approx(exact.value, abs=1e-10)
    assert asks == pytest.approx(exact.mean_asks, abs=1e-10)
    assert regret == pytest.approx(world.oracle.optimal_value - exact.value, abs=1e-10)


@given(tasks(max_findings=3, max_turns=4), SEEDS, st.data())
def test_a_deviation_from_the_oracle_costs_its_regret_times_its_reach(
    task: Task, seed: int, data: st.DataObject
) -> None:
    oracle = Oracle(task)
    family = data.draw(st.integers(0, len(task.families) - 1))
    nodes = [*leaves(task, make_policy("oracle", oracle), family)]
    leaf = data.draw(st.sampled_from(nodes))
    depth = data.draw(st.integers(0, len(leaf.path) - 1))
    info, reach = initial_state(task, family), task.prior.copy()
    for action, answer in leaf.path[:depth]:
        if isinstance(action, Ask) and answer is not None:
            chance = task.likelihood[family, action.finding]
            reach *= chance if answer else 1.0 - chance
            info = info.see(action.finding, answer)
    other = table_policy(task, seed).rule(info)

    def rule(at: InfoState) -> Action:
        return other if at == info else oracle.act(at)

    deviating = exact_value(task, Deterministic("deviating", rule)).value
    lost = oracle.optimal_value - deviating
    weight = float(reach.sum()) / len(task.families)
    assert lost == pytest.approx(weight * oracle.values(info).regret(other), abs=1e-10)


@given(SMALL, st.data(), st.integers(-40, 40).map(lambda x: x / 20))
def test_a_constant_on_one_states_utilities_moves_values_and_leaves_the_play(
    task: Task, data: st.DataObject, constant: float
) -> None:
    state = data.draw(st.sampled_from(task.state_ids))
    utility = {s: list(row) for s, row in task.utility.items()}
    utility[state] = [u + constant for u in utility[state]]
    no_decision = task.no_decision
    if no_decision != "worst":
        no_decision = no_decision | {state: no_decision[state] + constant}
        no_decision[state] = min(no_decision[state], min(utility[state]))
    other = changed(task, utility=utility, no_decision=no_decision)
    ours, theirs = Oracle(task), Oracle(other)
    shift = float(task.prior[task.state_ids.index(state)]) * constant
    assert theirs.optimal_value == close(ours.optimal_value + shift)
    assert theirs.best_constant[1] == close(ours.best_constant[1] + shift)
    assert theirs.best_constant_gap == close(ours.best_constant_gap)
    for f in range(len(task.families)):
        for info in info_states(task, f):
            if info.turns_left == 0:
                continue
            mine, shifted = ours.values(info), theirs.values(info)
            assert shifted.net_voi == pytest.approx(mine.net_voi, abs=1e-11)
            for action in (Ask(0), Commit(1), Invalid("empty")):
                assert shifted.regret(action) == pytest.approx(mine.regret(action), abs=1e-11)


@given(tasks(max_findings=4, max_turns=5, certain=True), st.sampled_from([0.0, 0.3, 1.0]))
def test_revealing_findings_at_the_start_averages_the_values_of_the_starts(
    task: Task, rho: float
) -> None:
    total, n = 0.0, len(task.findings)
    for f, family in enumerate(task.family_ids):
        truth = BruteForce(task, family)
        for info in info_states(task, f, all_turns=False):
            shown = info.asked.bit_count()
            chance = rho**shown * (1.0 - rho) ** (n - shown)
            if chance > 0.0:
                chance *= float(path_weights(task, info).sum()) / len(task.families)
                total += chance * float(truth.optimum(named(task, info), task.turn_cap).value)
    assert Oracle(task).revealed_value(rho) == close(total)


@given(SMALL)
def test_everything_revealed_is_worth_the_best_commit_after_every_finding(task: Task) -> None:
    total = 0.0
    for f in range(len(task.families)):
        for info in info_states(task, f, all_turns=False):
            if info.asked.bit_count() == len(task.findings):
                total += float((path_weights(task, info) @ task.utility_matrix).max())
    oracle = Oracle(task)
    assert oracle.revealed_value(1.0) == close(total / len(task.families))
    values = [oracle.revealed_value(rho) for rho in (0.0, 0.1, 0.3, 0.7, 1.0)]
    assert all(low <= high + 1e-12 for low, high in itertools.pairwise(values))


@given(SMALL)
def test_the_gap_is_never_negative_and_zero_without_findings_that_inform(task: Task) -> None:
    assert Oracle(task).best_constant_gap >= -1e-12
    flat = {f: [0.5] * len(task.states) for f in task.family_ids}
    blind = only(with_finding(task, "flat", flat), ["flat"])
    assert Oracle(blind).best_constant_gap == close(0.0)
    assert math.isclose(exact_value(blind, make_policy("oracle", Oracle(blind))).mean_asks, 0.0)
