"""The decision tree of a policy that is deterministic in the findings: text, JSON and SVG.

    P(node) = Σ_s P(s) P(node | s, f)
    V(node) = E[R from here on | node] = Σ_children P(child | node) V(child) - c · 1[charged]

For the oracle V(node) is V*, and the mean of the roots over families is the value of the task.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, assert_never

import numpy as np

from clinical_envs.belief import entropy
from clinical_envs.errors import InvalidArgument, TooLarge, did_you_mean
from clinical_envs.simulator import Action, Ask, Commit, Invalid
from clinical_envs.task import FloatArray, Task
from oracles.exact import Leaf, leaves
from oracles.explanation import describe
from oracles.policy import Policy
from oracles.tree_drawing import Panel, draw

MAX_TREE_LEAVES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One point of a policy's play of a family.

    action: what the policy does here; None where the turns have run out. label: the same in
    words. probability: P(node), given the family. belief: (S,). value: of the policy from here
    on. children: the answer (None where the turn reveals nothing) and what follows; present
    before absent.
    """

    action: Action | None
    label: str
    probability: float
    belief: FloatArray
    value: float
    children: tuple[tuple[bool | None, Node], ...]

    @property
    def entropy(self) -> float:
        """H(belief) in nats."""
        return entropy(self.belief)

    def walk(self) -> Iterator[Node]:
        """This node and all below it, parents first."""
        yield self
        for _, child in self.children:
            yield from child.walk()


def decision_tree(task: Task, policy: Policy, family: int) -> Node:
    """The tree of a policy on one family; answers that cannot occur are left out.

    Raises:
        InvalidArgument: the policy is not deterministic.
        TooLarge: more than 20,000 leaves.

    >>> from oracles import make_policy, solve
    >>> oracle = solve("titration")
    >>> root = decision_tree(oracle.task, make_policy("oracle", oracle), family=0)
    >>> sum(1 for _ in root.walk()), round(root.value, 4)
    (17, 0.0434)
    """
    found: list[Leaf] = []
    for leaf in leaves(task, policy, family):
        if float(leaf.reach @ task.prior) > 0.0:
            found.append(leaf)
        if len(found) > MAX_TREE_LEAVES:
            raise TooLarge(
                f"the tree of {policy.name} on {task.family_ids[family]} has over "
                f"{MAX_TREE_LEAVES} leaves; draw a policy that asks less"
            )
    return _node(task, found, depth=0)


def _node(task: Task, below: Sequence[Leaf], depth: int) -> Node:
    weights = task.prior * np.sum([leaf.reach for leaf in below], axis=0)
    probability = float(weights.sum())
    earned = sum(float(leaf.reach * task.prior @ leaf.reward(task)) for leaf in below)
    ended = depth == len(below[0].path)
    action = None if ended else below[0].path[depth][0]
    return Node(
        action=action,
        label="out of turns" if action is None else describe(task, action),
        probability=probability,
        belief=weights / probability,
        value=earned / probability + task.question_cost * depth,
        children=() if ended else tuple(_children(task, below, depth)),
    )


def _children(task: Task, below: Sequence[Leaf], depth: int) -> Iterator[tuple[bool | None, Node]]:
    if isinstance(below[0].path[depth][0], Commit):
        return
    for answer in (True, False, None):
        part = [leaf for leaf in below if leaf.path[depth][1] is answer]
        if part:
            yield answer, _node(task, part, depth + 1)


def tree_text(task: Task, policy: Policy) -> str:
    """Every family's tree, indented: action, P(node), V, entropy and risk groups on each line."""
    lines: list[str] = []
    for family, name in enumerate(task.family_ids):
        root = decision_tree(task, policy, family)
        lines += [f"{task.key}, {name}: {_summary(policy, root)}", ""]
        rows = list(_text_rows(task, root))
        width = max(len(label) for label, _ in rows)
        lines += [f"{label:<{width}}  {facts}" for label, facts in rows]
        lines.append("")
    return "\n".join(lines)


def _text_rows(task: Task, node: Node, lead: str = "", rest: str = "") -> Iterator[tuple[str, str]]:
    groups = np.bincount(task.group_of_state, weights=node.belief, minlength=len(task.risk_groups))
    belief = "  ".join(f"{g} {p:.2f}" for g, p in zip(task.risk_groups, groups, strict=True))
    facts = f"{100 * node.probability:5.1f} %  V {node.value:+.3f}  H {node.entropy:.2f}  {belief}"
    yield lead + node.label, facts
    for position, (answer, child) in enumerate(node.children, start=1):
        last = position == len(node.children)
        corner, bar = ("└─ ", "   ") if last else ("├─ ", "│  ")
        yield from _text_rows(task, child, f"{rest}{corner}{_ANSWERS[answer]}", rest + bar)


_ANSWERS: Mapping[bool | None, str] = {True: "yes: ", False: "no: ", None: ""}


def tree_json(task: Task, policy: Policy) -> str:
    """Every family's tree as nested JSON; `yes`, `no` and `next` hold what follows a node."""
    trees = {}
    for family, name in enumerate(task.family_ids):
        trees[name] = _plain(task, decision_tree(task, policy, family))
    document = {"task": task.key, "policy": policy.name, "families": trees}
    return json.dumps(document, indent=1) + "\n"


def _plain(task: Task, node: Node) -> dict[str, Any]:
    plain: dict[str, Any] = _action(task, node.action) | {
        "probability": node.probability,
        "value": node.value,
        "entropy": node.entropy,
        "belief": dict(zip(task.state_ids, node.belief.tolist(), strict=True)),
    }
    names = {True: "yes", False: "no", None: "next"}
    return plain | {names[answer]: _plain(task, child) for answer, child in node.children}


def _action(task: Task, action: Action | None) -> dict[str, Any]:
    match action:
        case Ask(finding):
            return {"ask": task.finding_ids[finding]}
        case Commit(decision):
            return {"commit": task.decision_ids[decision]}
        case Invalid(reason):
            return {"invalid": reason}
        case None:
            return {"commit": None}
        case _:
            assert_never(action)


def _summary(policy: Policy, root: Node) -> str:
    nodes = list(root.walk())
    asks = sum(node.probability for node in nodes if isinstance(node.action, Ask))
    return f"{policy.name}, {len(nodes)} nodes, V {root.value:+.4f}, {asks:.2f} asks"


def tree_svg(task: Task, policy: Policy) -> str:
    """Every family's tree as one drawing: time runs to the right, edge width is probability."""
    panels = []
    for family, entry in enumerate(task.families):
        root = decision_tree(task, policy, family)
        panels.append(Panel(f"{entry.id}: {_summary(policy, root)}", entry.text, root))
    return draw(task, f"Decision tree of {policy.name} on {task.key}", panels)


TREE_WRITERS: Mapping[str, Callable[[Task, Policy], str]] = MappingProxyType(
    {".txt": tree_text, ".json": tree_json, ".svg": tree_svg}
)


def write_tree(path: str | Path, task: Task, policy: Policy) -> None:
    """Write the tree of every family; the file's ending chooses text, JSON or SVG.

    Raises:
        InvalidArgument: another ending.
    """
    ending = Path(path).suffix
    if ending not in TREE_WRITERS:
        raise InvalidArgument(f"no tree as {ending!r}; {did_you_mean(ending, TREE_WRITERS)}")
    Path(path).write_text(TREE_WRITERS[ending](task, policy), encoding="utf-8")
