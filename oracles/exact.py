"""Exact values of any policy that is deterministic in the information state, by enumeration.

    V^pi = Σ_f 1/N Σ_s P(s) Σ_leaves P(leaf | s, f) (U[s, a_leaf] - c · n_leaf)

Every path of the policy is walked once; nothing is sampled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from clinical_envs.belief import InfoState, initial_state
from clinical_envs.errors import InvalidArgument, TooLarge
from clinical_envs.simulator import Action, Ask, Commit
from clinical_envs.task import FloatArray, Task
from oracles.policy import Policy, View

MAX_LEAVES = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One way an episode can go.

    reach: P(leaf | s, f), shape (S,). path: the actions with their answers (None at a commit or
    an invalid turn). decision: None where the turns ran out.
    """

    info: InfoState
    reach: FloatArray
    path: tuple[tuple[Action, bool | None], ...]

    @property
    def decision(self) -> int | None:
        """What was committed to."""
        last = self.path[-1][0]
        return last.decision if isinstance(last, Commit) else None

    @property
    def asks(self) -> int:
        """Asks, repeats included."""
        return sum(isinstance(action, Ask) for action, _ in self.path)

    @property
    def charged(self) -> int:
        """Turns that cost a question."""
        return len(self.path) - (self.decision is not None)

    def reward(self, task: Task) -> FloatArray:
        """U[s, a] - c · n, shape (S,)."""
        decision = self.decision
        utility = task.no_decision_utility if decision is None else task.utility_matrix[:, decision]
        return np.asarray(utility - task.question_cost * self.charged)


def leaves(task: Task, policy: Policy, family: int) -> Iterator[Leaf]:
    """Every way the policy can play a family, in the order of its questions, absent first.

    Raises:
        InvalidArgument: the policy is not deterministic.
        TooLarge: more than two million leaves.
    """
    if not policy.deterministic:
        raise InvalidArgument(
            f"policy {policy.name} draws its actions; exact values need a deterministic one"
        )
    rng = np.random.default_rng(0)
    start = Leaf(info=initial_state(task, family), reach=np.ones(len(task.states)), path=())
    stack, found = [start], 0
    while stack:
        node = stack.pop()
        if node.info.turns_left == 0 or (node.path and isinstance(node.path[-1][0], Commit)):
            found += 1
            if found > MAX_LEAVES:
                raise TooLarge(f"policy {policy.name} has over {MAX_LEAVES} paths; sample instead")
            yield node
            continue
        action = policy.act(View(task=task, info=node.info), rng)
        if isinstance(action, str):
            raise InvalidArgument(f"policy {policy.name} speaks text; exact values need actions")
        stack += _children(task, node, action)


def _children(task: Task, node: Leaf, action: Action) -> list[Leaf]:
    if not isinstance(action, Ask) or node.info.knows(action.finding):
        answer = node.info.answer(action.finding) if isinstance(action, Ask) else None
        path = (*node.path, (action, answer))
        return [Leaf(info=node.info.waste(), reach=node.reach, path=path)]
    chance = task.likelihood[node.info.family, action.finding]
    children = [
        Leaf(
            info=node.info.see(action.finding, present),
            reach=node.reach * (chance if present else 1.0 - chance),
            path=(*node.path, (action, present)),
        )
        for present in (True, False)
    ]
    return [child for child in children if float(child.reach @ task.prior) > 0.0]


@dataclass(frozen=True)
class ExactValue:
    """Exact statistics of a policy on a task; families equally likely, states by the prior.

    Arrays: `reward` and `asks` (N, S) are expectations given family and state, `decisions`
    (N, S, D + 1) probabilities, the last column for no decision.
    """

    task: Task
    reward: FloatArray
    asks: FloatArray
    decisions: FloatArray

    @cached_property
    def value(self) -> float:
        """V^pi."""
        return self.over(self.reward)

    @cached_property
    def mean_asks(self) -> float:
        """Expected asks."""
        return self.over(self.asks)

    def over(
        self, table: FloatArray, *, family: str | None = None, group: str | None = None
    ) -> float:
        """Expectation of a (N, S) table, overall or within a family or risk group."""
        weights = self.task.prior.copy()
        if group is not None:
            at = self.task.risk_groups.index(group)
            weights *= np.array(self.task.group_of_state) == at
        rows = table if family is None else table[[self.task.family_ids.index(family)]]
        return float(rows.mean(axis=0) @ weights / weights.sum())

    def decision_rate(self, decision: str, *, group: str | None = None) -> float:
        """P(decision), overall or given a risk group."""
        return self.over(self.decisions[:, :, self.task.decision(decision)], group=group)


def exact_value(task: Task, policy: Policy) -> ExactValue:
    """Exact statistics of a deterministic policy.

    Raises:
        InvalidArgument: the policy is not deterministic.

    >>> from oracles import make_policy, solve
    >>> oracle = solve("titration")
    >>> round(exact_value(oracle.task, make_policy("oracle", oracle)).mean_asks, 3)
    2.763
    """
    tables = [
        _family_tables(task, list(leaves(task, policy, f))) for f in range(len(task.families))
    ]
    reward, asks, decisions = (np.stack(parts) for parts in zip(*tables, strict=True))
    return ExactValue(task, reward, asks, decisions)


def _family_tables(
    task: Task, family_leaves: Iterable[Leaf]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    S, D = task.utility_matrix.shape
    reward, asks, decisions = np.zeros(S), np.zeros(S), np.zeros((S, D + 1))
    for leaf in family_leaves:
        reward += leaf.reach * leaf.reward(task)
        asks += leaf.reach * leaf.asks
        decisions[:, D if leaf.decision is None else leaf.decision] += leaf.reach
    return reward, asks, decisions
