"""The exact adaptive oracle: optimal values and actions given only what has been seen.

    V*(F, h) = max_a Q*(F, h, a),   h = turns left, whatever they were used for

    Q*(F, h, commit a) = E[U(a) | F]
    Q*(F, h, ask q)    = -c + Σ_o P(o | F, q) V*(F + (q, o), h - 1)
    Q*(F, h, repeat or invalid) = -c + V*(F, h - 1)

Ties: commit before ask, then file order.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from clinical_envs.belief import InfoState, entropy, initial_state
from clinical_envs.catalog import load_task
from clinical_envs.errors import InvalidArgument, TooLarge
from clinical_envs.simulator import Action, Ask, Commit, Invalid
from clinical_envs.task import FloatArray, Task
from oracles.tables import Problem, Tables

EVERY_BUDGET_UP_TO = 14
MEMORY_GIB = 6.0
TOLERANCE = 1e-9
_TIE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionValues:
    """Q* of every action in one information state.

    commit: (D,). ask: (Q,); a finding seen or without information wastes the turn. wasted: of a
    repeated ask or an invalid turn. value: V*. action: the oracle's. best_net_voi: the largest
    net VOI of an ask.
    """

    commit: FloatArray
    ask: FloatArray
    wasted: float
    value: float
    action: Ask | Commit
    best_net_voi: float

    @property
    def net_voi(self) -> FloatArray:
        """Q*(F, h, ask q) - max_a E[U(a) | F], shape (Q,): what asking is worth at best."""
        return np.asarray(self.ask - self.commit.max())

    def of(self, action: Action) -> float:
        """Q* of one action."""
        match action:
            case Ask(finding):
                return float(self.ask[finding])
            case Commit(decision):
                return float(self.commit[decision])
            case Invalid():
                return self.wasted

    def regret(self, action: Action) -> float:
        """Max Q* - Q*(action), never negative."""
        return max(0.0, self.value - self.of(action))


class _Place(NamedTuple):
    """Where a set of findings seen stands in its family's tables, and what it implies.

    weight: Σ_s w_F(s) over the informative findings, the scale of the tables. credit:
    lambda · H(b_F).
    """

    mask: int
    answers: int
    weight: float
    belief: FloatArray
    credit: float


class _Node(NamedTuple):
    """Q* of the commits and of the asks that can inform, with V* and the optimal action."""

    commit: FloatArray
    best_commit: float
    asks: dict[int, float]
    value: float
    action: Ask | Commit


class Oracle:
    """The optimal policy of a task and its values, exact for every state and turn budget.

    credit: lambda of the shaped reward R + lambda · Σ (entropy drop in nats); 0 is the task's own
    reward. Values then include the credit still to come.
    """

    def __init__(self, task: Task, credit: float = 0.0, memory_gib: float = MEMORY_GIB) -> None:
        if not np.isfinite(credit):
            raise InvalidArgument(f"credit is {credit}; give a finite number")
        self.task = task
        self.credit = credit
        self._memory_gib = memory_gib
        self._places: dict[tuple[int, int, int], _Place] = {}
        self._nodes: dict[InfoState, _Node] = {}
        self._values: dict[InfoState, ActionValues] = {}
        self._tables = [self._solve(family) for family in range(len(task.families))]

    def values(self, info: InfoState) -> ActionValues:
        """Q* of every action.

        Raises:
            InvalidArgument: no turns are left, or the findings seen are impossible.
        """
        values = self._values.get(info)
        if values is None:
            values = self._values[info] = self._make_values(info)
        return values

    def value(self, info: InfoState) -> float:
        """V*(F, h)."""
        place, tables = self._place(info), self._tables[info.family]
        if tables.holds(place.mask.bit_count(), info.turns_left):
            scaled = tables.value(place.mask, place.answers, info.turns_left)
            return scaled / place.weight + place.credit
        if info.turns_left == 0:
            return float(place.belief @ self.task.no_decision_utility)
        return self._node(info).value

    def act(self, info: InfoState) -> Ask | Commit:
        """The optimal action."""
        return self._node(info).action

    @property
    def optimal_value(self) -> float:
        """V* before the first turn, over families; the value of the task."""
        return self.revealed_value(0.0)

    def revealed_value(self, rho: float) -> float:
        """V* when each finding is shown at the start with probability rho.

        Raises:
            InvalidArgument: rho outside [0, 1], or rho > 0 with credit, since findings shown at
                the start earn none.
            TooLarge: rho > 0 with more than 14 informative findings.
        """
        if not 0.0 <= rho <= 1.0:
            raise InvalidArgument(f"rho is {rho}; a reveal fraction lies in [0, 1]")
        if rho == 0.0:
            starts = [initial_state(self.task, f) for f in range(len(self.task.families))]
            return float(np.mean([self.value(start) for start in starts]))
        if self.credit:
            raise InvalidArgument("the shaped value is defined at rho 0 only; leave out rho")
        if not all(tables.every_budget for tables in self._tables):
            raise TooLarge(
                f"the expected value at rho {rho} needs every turn budget, which is kept up to "
                f"{EVERY_BUDGET_UP_TO} informative findings; use rho 0"
            )
        return float(np.mean([tables.revealed_value(rho) for tables in self._tables]))

    @property
    def best_constant(self) -> tuple[int, float]:
        """The best decision without asking, and its expected utility."""
        expected = self.task.prior @ self.task.utility_matrix
        best = int(np.flatnonzero(expected >= expected.max() - _TIE)[0])
        return best, float(expected[best])

    @property
    def best_constant_gap(self) -> float:
        """V* - max_a E[U(a)]: the adaptive headroom of gate 1."""
        return self.optimal_value - self.best_constant[1]

    def _make_values(self, info: InfoState) -> ActionValues:
        node = self._node(info)
        wasted = self.value(info.waste()) - self.task.question_cost
        ask = np.full(len(self.task.findings), wasted)
        for finding, value in node.asks.items():
            ask[finding] = value
        return ActionValues(
            commit=node.commit,
            ask=ask,
            wasted=wasted,
            value=node.value,
            action=node.action,
            best_net_voi=max(wasted, *node.asks.values(), -np.inf) - node.best_commit,
        )

    def _node(self, info: InfoState) -> _Node:
        node = self._nodes.get(info)
        if node is None:
            node = self._nodes[info] = self._make_node(info)
        return node

    def _make_node(self, info: InfoState) -> _Node:
        if info.turns_left < 1:
            raise InvalidArgument("no turns are left, so there is no action to value")
        commit = self._place(info).belief @ self.task.utility_matrix
        asks = self._ask_values(info)
        best_commit = float(commit.max())
        value = max(best_commit, *asks.values(), -np.inf)
        action: Ask | Commit
        if best_commit >= value - _TIE:
            action = Commit(int((commit >= value - _TIE).argmax()))
        else:
            action = Ask(next(q for q, worth in asks.items() if worth >= value - _TIE))
        return _Node(commit, best_commit, asks, value, action)

    def _ask_values(self, info: InfoState) -> dict[int, float]:
        """Q* of each informative finding not yet seen, by position."""
        place, tables = self._place(info), self._tables[info.family]
        findings, mask, answers = self.task.informative[info.family], place.mask, place.answers
        weight = place.weight
        if not tables.holds(mask.bit_count(), info.turns_left):
            findings = tuple(q for q in findings if not info.knows(q))
            tables = self._solve(info.family, findings, place.belief, info.turns_left)
            mask, answers, weight = 0, 0, 1.0
        offset = place.credit - self.task.question_cost
        return {
            finding: tables.ask_value(mask, answers, k, info.turns_left) / weight + offset
            for k, finding in enumerate(findings)
            if not mask >> k & 1
        }

    def _place(self, info: InfoState) -> _Place:
        key = info[:3]
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = self._make_place(info)
        return place

    def _make_place(self, info: InfoState) -> _Place:
        mask = answers = 0
        weights = self.task.prior.copy()
        likelihood = self.task.likelihood[info.family]
        for k, q in enumerate(self.task.informative[info.family]):
            if info.asked >> q & 1:
                present = info.present >> q & 1
                answers |= present << mask.bit_count()
                mask |= 1 << k
                weights *= likelihood[q] if present else 1.0 - likelihood[q]
        weight = float(weights.sum())
        if weight <= 0.0:
            raise InvalidArgument(f"{self.task.key}: no state can give the answers of {info}")
        belief = weights / weight
        credit = self.credit * entropy(belief) if self.credit else 0.0
        return _Place(mask, answers, weight, belief, credit)

    def _solve(
        self,
        family: int,
        findings: tuple[int, ...] | None = None,
        prior: FloatArray | None = None,
        cap: int | None = None,
    ) -> Tables:
        chosen = self.task.informative[family] if findings is None else findings
        problem = Problem(
            prior=self.task.prior if prior is None else prior,
            chance=self.task.likelihood[family, list(chosen)],
            utility=self.task.utility_matrix,
            no_decision=self.task.no_decision_utility,
            cost=self.task.question_cost,
            cap=self.task.turn_cap if cap is None else cap,
            credit=self.credit,
        )
        return Tables(
            problem,
            every_budget=len(chosen) <= EVERY_BUDGET_UP_TO,
            memory_gib=self._memory_gib,
        )


def solve(task: str | Path | Task, credit: float = 0.0, memory_gib: float = MEMORY_GIB) -> Oracle:
    """The exact oracle of a task, by name, id, file or itself.

    Args:
        task: as `load_task` takes it.
        credit: lambda of the shaped reward R + lambda · Σ_t (H(b_{t-1}) - H(b_t)), per nat.
        memory_gib: refuse above this, in GiB.

    Raises:
        TooLarge: the tables do not fit; the message has the numbers.

    >>> round(solve("titration").optimal_value, 4)
    0.0434
    """
    return Oracle(load_task(task), credit, memory_gib)
