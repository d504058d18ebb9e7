"""A task as an influence diagram of pyAgrum: an oracle that shares no code with ours.

    D1 -> O1 -> D2 -> O2 -> ... -> A,   O_i given D_i and the state,   U(state, A) - c · asks

D_i asks for one informative finding or passes, O_i is its answer or `nothing`, and the decision A
sees all that came before. The diagram draws a fresh answer where the task repeats the first one,
so a repeated ask is fined more than it can gain.
"""

from __future__ import annotations

import importlib
import itertools
import warnings
from typing import Any

import numpy as np

from clinical_envs import Task

# pyAgrum loads parts of itself late, and each load warns from C: where warnings are errors the
# interpreter crashes. So it is imported and used with warnings ignored.
with warnings.catch_warnings(action="ignore"):
    gum: Any = importlib.import_module("pyagrum")

NOTHING, ABSENT, PRESENT = range(3)


def limited_value(task: Task, family: int, asks: int) -> float:
    """V* of one family where at most `asks` findings may be asked for."""
    with warnings.catch_warnings(action="ignore"):
        diagram = _diagram(task, family, asks)
        inference = gum.ShaferShenoyLIMIDInference(diagram)
        inference.addNoForgettingAssumption([*(f"D{i}" for i in range(1, asks + 1)), "A"])
        inference.makeInference()
        return float(inference.MEU()["mean"])


def _diagram(task: Task, family: int, asks: int) -> Any:
    diagram = gum.InfluenceDiagram()
    diagram.addChanceNode(gum.RangeVariable("S", "", 0, len(task.states) - 1))
    diagram.cpt("S").fillWith(task.prior.tolist())
    for i in range(1, asks + 1):
        _add_ask(diagram, task, family, i)
        for earlier in range(1, i):
            _fine_repeat(diagram, task, f"D{earlier}", f"D{i}")
        if i > 1:
            diagram.addArc(f"O{i - 1}", f"D{i}")
    diagram.addDecisionNode(gum.RangeVariable("A", "", 0, len(task.decisions) - 1))
    if asks:
        diagram.addArc(f"O{asks}", "A")
    _add_utility(diagram, "U", ("S", "A"), task.utility_matrix)
    return diagram


def _add_ask(diagram: Any, task: Task, family: int, i: int) -> None:
    """Turn i: value k < K of D_i asks for the k-th informative finding, value K passes."""
    findings = list(task.informative[family])
    passes = len(findings)
    diagram.addDecisionNode(gum.RangeVariable(f"D{i}", "", 0, passes))
    diagram.addChanceNode(gum.RangeVariable(f"O{i}", "", NOTHING, PRESENT))
    diagram.addArc("S", f"O{i}")
    diagram.addArc(f"D{i}", f"O{i}")
    present = task.likelihood[family, findings]
    for k, s in itertools.product(range(passes + 1), range(len(task.states))):
        p = present[k, s] if k < passes else 0.0
        answer = [0.0, 1.0 - p, p] if k < passes else [1.0, 0.0, 0.0]
        diagram.cpt(f"O{i}")[{"S": s, f"D{i}": k}] = answer
    price = np.full(passes + 1, -task.question_cost)
    price[passes] = 0.0
    _add_utility(diagram, f"C{i}", (f"D{i}",), price)


def _fine_repeat(diagram: Any, task: Task, earlier: str, later: str) -> None:
    size = diagram.variable(earlier).domainSize()
    fine = np.diag(np.full(size, -1.0 - np.ptp(task.utility_matrix)))
    fine[-1, -1] = 0.0
    _add_utility(diagram, f"R{earlier}{later}", (earlier, later), fine)


def _add_utility(diagram: Any, name: str, parents: tuple[str, ...], table: np.ndarray) -> None:
    diagram.addUtilityNode(gum.RangeVariable(name, "", 0, 0))
    for parent in parents:
        diagram.addArc(parent, name)
    for index in np.ndindex(table.shape):
        diagram.utility(name)[dict(zip(parents, index, strict=True))] = [float(table[index])]
