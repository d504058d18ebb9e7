"""Beyond 14 informative findings only the policy's own turns are kept; the rest is on demand."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles.oracle
from clinical_envs.belief import initial_state
from clinical_envs.case import CaseStream
from clinical_envs.catalog import load_task
from clinical_envs.errors import InvalidArgument, TooLarge
from clinical_envs.simulator import Ask
from clinical_envs.task import Task
from oracles.brute_force import BruteForce, brute_force
from oracles.clinical import ClinicalWorld
from oracles.exact import exact_value
from oracles.oracle import Oracle, solve
from oracles.policies import make_policy
from tests.oracles.variants import changed, info_states, named, played, table_policy
from tests.strategies import tasks


def on_demand(task: Task, credit: float = 0.0) -> Oracle:
    """The oracle that a task of many findings would get."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oracles.oracle, "EVERY_BUDGET_UP_TO", 0)
        oracle = Oracle(task, credit)
        for f in range(len(task.families)):  # what is off the policy's path is solved here
            for info in info_states(task, f):
                oracle.value(info)
                if info.turns_left > 0:
                    oracle.values(info)
    return oracle


@settings(max_examples=40)
@given(tasks(max_findings=3, max_turns=4, certain=True), st.sampled_from([0.0, 0.2]))
def test_both_ways_give_the_same_values_in_every_information_state(
    task: Task, credit: float
) -> None:
    kept, demanded = Oracle(task, credit), on_demand(task, credit)
    for f in range(len(task.families)):
        for info in info_states(task, f):
            assert demanded.value(info) == pytest.approx(kept.value(info), abs=1e-12)
            if info.turns_left == 0:
                continue
            ours, theirs = kept.values(info), demanded.values(info)
            assert theirs.ask == pytest.approx(ours.ask, abs=1e-12)
            assert theirs.commit == pytest.approx(ours.commit, abs=1e-12)
            assert theirs.wasted == pytest.approx(ours.wasted, abs=1e-12)


def fifteen(turn_cap: int) -> Task:
    """Diagnostics in one family with 15 informative findings."""
    task = load_task("diagnostics")
    findings = [
        {"id": f"finding_{i}", "text": "a sign", "p": {"chest": [0.05 + 0.03 * i, 0.5, 0.95]}}
        for i in range(15)
    ]
    families = [{"id": "chest", "text": "Chest pain."}]
    return changed(task, findings=findings, families=families, turn_cap=turn_cap)


def test_fifteen_findings_at_the_full_cap_equal_brute_force() -> None:
    task = fifteen(turn_cap=3)
    oracle, truth = Oracle(task), brute_force(task)
    exact = exact_value(task, make_policy("oracle", oracle))
    assert oracle.optimal_value == pytest.approx(float(truth.value), abs=1e-12)
    assert exact.value == pytest.approx(float(truth.value), abs=1e-12)
    assert exact.mean_asks == pytest.approx(float(truth.asks), abs=1e-12)


def test_fifteen_findings_off_the_policys_path_equal_brute_force() -> None:
    task = fifteen(turn_cap=3)
    oracle, truth = Oracle(task), BruteForce(task, "chest")
    start = initial_state(task, 0)
    seen = start.see(4, True)
    shown = initial_state(task, 0, [(0, False), (3, True), (7, False), (9, False)])
    for info in (start.waste(), seen.waste(), start.waste().waste(), shown, shown.waste()):
        expected = truth.optimum(named(task, info), info.turns_left).value
        assert oracle.value(info) == pytest.approx(float(expected), abs=1e-12)
        values = oracle.values(info)
        after = truth.optimum(named(task, info), info.turns_left - 1).value
        assert values.wasted == pytest.approx(float(after) - task.question_cost, abs=1e-12)
    assert oracle.value(start._replace(turns_left=0)) == pytest.approx(
        float(task.prior @ task.no_decision_utility), abs=1e-12
    )


def test_play_that_wastes_turns_is_judged_to_its_end() -> None:
    task = changed(load_task("titration"), turn_cap=4)
    policy = table_policy(task, seed=1)
    cases = CaseStream(task, "train", 3).block(0, 50)
    episodes = [played(task, case, policy.rule)[1].episode() for case in cases]
    kept = [ClinicalWorld(task).assess(episode).regret for episode in episodes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oracles.oracle, "EVERY_BUDGET_UP_TO", 0)
        world = ClinicalWorld(task)
        demanded = [world.assess(episode).regret for episode in episodes]
    assert demanded == pytest.approx(kept, abs=1e-12)
    assert max(regret for regret in kept if regret is not None) > 0.0


def test_a_repeat_with_many_findings_is_a_wasted_turn() -> None:
    oracle = Oracle(fifteen(turn_cap=3))
    info = initial_state(oracle.task, 0).see(2, True)
    values = oracle.values(info)
    assert values.of(Ask(2)) == values.wasted < values.value


def test_what_does_not_fit_is_refused_with_the_numbers() -> None:
    with pytest.raises(TooLarge) as refusal:
        solve("diagnostics", memory_gib=0.001)
    message = str(refusal.value)
    assert "12 informative findings" in message
    assert "12 turns" in message
    needed = re.search(r"needs ([\d,]+) values, ([\d.]+) GiB, and 0\.001 GiB are allowed", message)
    assert needed is not None
    # every answer pattern of m of 12 findings, with 0 to min(12, 13 - m) turns left
    nodes = sum(math.comb(12, m) * 2**m * (min(12, 13 - m) + 1) for m in range(13))
    assert int(needed[1].replace(",", "")) == nodes


def test_the_expected_value_of_revealed_findings_is_refused_beyond_fourteen() -> None:
    oracle = Oracle(fifteen(turn_cap=3))
    assert oracle.revealed_value(0.0) == oracle.optimal_value
    with pytest.raises(TooLarge, match="up to 14 informative findings"):
        oracle.revealed_value(0.3)
    with pytest.raises(InvalidArgument, match="lies in"):
        oracle.revealed_value(1.5)


def test_brute_force_refuses_what_it_cannot_recurse_through() -> None:
    with pytest.raises(TooLarge, match=r"18 findings and 12 turns visits [\d,]+ information"):
        brute_force(load_task("diagnostics"))
    with pytest.raises(InvalidArgument, match="no family"):
        BruteForce(load_task("titration"), "chest")
