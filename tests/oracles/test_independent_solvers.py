"""The oracle against solvers that share nothing with it: a linear program and a diagram library."""

from __future__ import annotations

import importlib
import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import linprog
from scipy.sparse import coo_array

from clinical_envs.belief import initial_state
from clinical_envs.catalog import load_task
from clinical_envs.task import Task
from oracles.brute_force import BruteForce
from oracles.oracle import Oracle
from tests.oracles.variants import changed, only
from tests.strategies import tasks

AT_MOST = {1: 0.0303745, 2: 0.0414344, 3: 0.0414471, 4: 0.0434288}
"""Titration with so many asks at most: pyAgrum 3.3.1, once, by another encoding; 4 took it 30 s."""


def linear_program(task: Task, family: int) -> float:
    """min V(root), V(F) >= each commit, V(F) >= V(F+(q,0)) + V(F+(q,1)) - c w(F).

    V is unnormalised; F with m findings seen has cap - m turns left.
    """
    n, cap = len(task.findings), task.turn_cap
    nodes = [
        node
        for node in itertools.product((None, False, True), repeat=n)
        if sum(answer is not None for answer in node) <= cap
    ]
    at = {node: i for i, node in enumerate(nodes)}
    rows: list[tuple[dict[int, float], float]] = []
    for node, i in at.items():
        weights = task.prior.copy()
        for q, answer in enumerate(node):
            if answer is not None:
                p = task.likelihood[family, q]
                weights = weights * (p if answer else 1.0 - p)
        if sum(answer is not None for answer in node) == cap:
            rows.append(({i: -1.0}, -float(weights @ task.no_decision_utility)))
            continue
        rows += [({i: -1.0}, -float(u)) for u in weights @ task.utility_matrix]
        for q in (q for q in range(n) if node[q] is None):
            children = [at[(*node[:q], answer, *node[q + 1 :])] for answer in (False, True)]
            bound = task.question_cost * float(weights.sum())
            rows.append(({i: -1.0, children[0]: 1.0, children[1]: 1.0}, bound))
    entries = [(r, i, x) for r, (row, _) in enumerate(rows) for i, x in row.items()]
    row, column, value = (np.array(part) for part in zip(*entries, strict=True))
    matrix = coo_array((value, (row, column)), shape=(len(rows), len(nodes))).tocsr()
    goal = np.zeros(len(nodes))
    goal[at[(None,) * n]] = 1.0
    bounds = np.array([bound for _, bound in rows])
    result = linprog(goal, A_ub=matrix, b_ub=bounds, bounds=(None, None), method="highs")
    assert result.status == 0, result.message
    return float(result.fun)


@settings(max_examples=25)
@given(tasks(max_findings=4, max_turns=4))
def test_the_linear_program_of_a_small_task_has_the_same_optimum(task: Task) -> None:
    oracle = Oracle(task)
    for f in range(len(task.families)):
        ours = oracle.value(initial_state(task, f))
        assert linear_program(task, f) == pytest.approx(ours, abs=1e-8)


def test_the_linear_program_of_titration_has_the_same_optimum() -> None:
    task = load_task("titration")
    ours = Oracle(task).optimal_value
    assert linear_program(task, 0) == pytest.approx(ours, abs=1e-9)


@pytest.mark.parametrize(("asks", "value"), AT_MOST.items())
def test_titration_with_few_asks_has_the_recorded_value(asks: int, value: float) -> None:
    capped = changed(load_task("titration"), turn_cap=asks + 1)
    assert Oracle(capped).optimal_value == pytest.approx(value, abs=5e-8)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("asks", [1, 2, 3])
def test_pyagrum_solves_titration_with_few_asks_to_the_same_value(asks: int) -> None:
    task = load_task("titration")
    capped = changed(task, turn_cap=asks + 1)
    assert _influence_diagram(task, 0, asks) == pytest.approx(
        Oracle(capped).optimal_value, abs=1e-9
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "family"), [("diagnostics", 0), ("refill", 1)])
def test_pyagrum_solves_two_asks_of_a_three_state_task_to_the_same_value(
    name: str, family: int
) -> None:
    task = load_task(name)
    some = [task.finding_ids[q] for q in task.informative[family][:6]]
    capped = changed(only(task, some), turn_cap=3)
    ours = Oracle(capped).value(initial_state(capped, family))
    assert _influence_diagram(capped, family, 2) == pytest.approx(ours, abs=1e-9)


def _influence_diagram(task: Task, family: int, asks: int) -> float:
    """Expected utility of `asks` optional asks and a commit, nothing forgotten."""
    with warnings.catch_warnings():  # at its import SWIG warns of itself
        warnings.simplefilter("ignore")
        pyagrum: Any = importlib.import_module("pyagrum")

    n = len(task.findings)
    diagram = pyagrum.InfluenceDiagram()

    def node(kind: str, name: str, size: int, *parents: str) -> Any:
        add = getattr(diagram, f"add{kind}Node")
        add(pyagrum.LabelizedVariable(name, name, size))
        for parent in parents:
            diagram.addArc(parent, name)
        tables = {"Chance": diagram.cpt, "Utility": diagram.utility}
        return tables[kind](name) if kind in tables else None

    node("Chance", "state", len(task.states))[:] = task.prior
    names, informed = list[str](), tuple[str, ...]()
    for t in range(asks):
        node("Decision", f"ask{t}", n + 1, *informed)  # the last choice: ask nothing
        answer = node("Chance", f"answer{t}", 3, "state", f"ask{t}")
        cost = node("Utility", f"cost{t}", 1, f"ask{t}")
        for q in range(n + 1):
            cost[{f"ask{t}": q}] = -task.question_cost if q < n else 0.0
            for s in range(len(task.states)):
                p = task.likelihood[family, q, s] if q < n else 0.0
                chances = [0.0, 1.0 - p, p] if q < n else [1.0, 0.0, 0.0]
                answer[{"state": s, f"ask{t}": q}] = chances
        for earlier in names:  # an answer is drawn once, and this diagram would draw it again
            again = node("Utility", f"{earlier}_again{t}", 1, earlier, f"ask{t}")
            for q, r in itertools.product(range(n + 1), repeat=2):
                again[{earlier: q, f"ask{t}": r}] = -5.0 if q == r < n else 0.0
        names, informed = [*names, f"ask{t}"], (f"answer{t}",)
    node("Decision", "commit", len(task.decisions), *informed)
    utility = node("Utility", "utility", 1, "state", "commit")
    for s, a in itertools.product(range(len(task.states)), range(len(task.decisions))):
        utility[{"state": s, "commit": a}] = float(task.utility_matrix[s, a])
    inference = pyagrum.ShaferShenoyLIMIDInference(diagram)
    inference.addNoForgettingAssumption([*names, "commit"])
    inference.makeInference()
    return float(inference.MEU()["mean"])


def test_brute_force_agrees_on_five_findings_of_each_family_of_the_larger_tasks() -> None:
    for name in ("diagnostics", "refill"):
        whole = load_task(name)
        for f, family in enumerate(whole.family_ids):
            some = [whole.finding_ids[q] for q in whole.informative[f][-5:]]
            task = only(whole, some)
            truth = BruteForce(task, family).optimum()
            ours = Oracle(task).value(initial_state(task, f))
            assert ours == pytest.approx(float(truth.value), abs=1e-12)
