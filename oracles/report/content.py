"""What the page shows, arranged for the templates: tasks, splits, policies, flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from markupsafe import Markup

from oracles.audits import Audit, PolicyAudit
from oracles.clinical import ClinicalWorld
from oracles.exact import ExactValue, leaves
from oracles.flags import Flag
from oracles.gates import Gate, gate_1
from oracles.report.encounters import Encounters, case_label
from oracles.report.marks import UNIT, Axis, shown
from oracles.tree import tree_svg
from oracles.world import World

MAX_TREE_LEAVES = 60
_CLAIM_SPLITS = ("test", "validation")

Exact = Mapping[str, Mapping[str, ExactValue]]
"""Task key -> policy -> exact values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An episode a flag caught. number: of the encounter in the viewer; None where left out."""

    label: str
    decision: str
    oracle: str | None
    number: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagRow:
    """A flag and its examples. axis: of its range mark."""

    flag: Flag
    examples: tuple[Example, ...]

    @property
    def axis(self) -> Axis:
        """From 0 to 1, or around 0 where the rate is a difference."""
        low = self.flag.rate.low
        return UNIT if low is None or low >= 0.0 else Axis(-1.0, 1.0)


@dataclass(frozen=True)
class Entry:
    """One policy on one split; `number` makes its anchors."""

    number: int
    policy: PolicyAudit
    flags: tuple[FlagRow, ...]

    @property
    def name(self) -> str:
        """Name of the policy on one line."""
        return shown(self.policy.policy)

    @property
    def overall(self) -> dict[str, Any]:
        """Metrics of every case, with `groups` and `families`."""
        return self.policy.breakdown

    @property
    def anchor(self) -> str:
        """Of its flags."""
        return f"flags-{self.number}"


@dataclass(frozen=True)
class SplitPart:
    """The policies on one split."""

    name: str
    entries: tuple[Entry, ...]

    @property
    def greedy(self) -> bool:
        """Whether any policy was also played greedily."""
        return any(entry.overall["greedy_value"] is not None for entry in self.entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactRow:
    """Exact values of a policy. acute: P(high-acuity decision | high risk)."""

    name: str
    value: float
    gap: float | None
    asks: float
    high_value: float
    acute: float | None


@dataclass(frozen=True)
class TaskPart:
    """Everything about one task. splits: the one that verdicts are read from comes first."""

    number: int
    world: World
    splits: tuple[SplitPart, ...]
    exact: tuple[ExactRow, ...]

    @property
    def anchor(self) -> str:
        """Of its section."""
        return f"task-{self.number}"

    @cached_property
    def gate(self) -> Gate:
        """Gate 1."""
        return gate_1(self.world)

    @property
    def ticks(self) -> tuple[float, ...]:
        """Reference values on every mark: V* and the best constant decision."""
        return self.world.headroom or ()

    @cached_property
    def axis(self) -> Axis:
        """The range of every value and interval of the first split."""
        intervals = [entry.overall["intervals"]["value"] for entry in self.splits[0].entries]
        ends = [e[side] for e in intervals for side in ("value", "low", "high")]
        known = [end for end in ends if end is not None] + list(self.ticks)
        return Axis(min(known, default=0.0), max(known, default=1.0))

    @cached_property
    def exact_axis(self) -> Axis:
        """The range of the exact values."""
        values = [row.value for row in self.exact] + list(self.ticks)
        return Axis(min(values), max(values))

    @property
    def clinical(self) -> ClinicalWorld | None:
        """The world, where it is a clinical task."""
        return self.world if isinstance(self.world, ClinicalWorld) else None

    @cached_property
    def tree(self) -> Markup | None:
        """The oracle's tree as SVG; None without an oracle, or where it is too large to read."""
        if self.clinical is None:
            return None
        task, oracle = self.clinical.task, self.clinical.policy("oracle")
        for family in range(len(task.families)):
            if (
                len(list(islice(leaves(task, oracle, family), MAX_TREE_LEAVES + 1)))
                > MAX_TREE_LEAVES
            ):
                return None
        return Markup(tree_svg(task, oracle))  # escaped where it is drawn

    def elsewhere(self, entry: Entry) -> list[tuple[str, Entry]]:
        """The same policy on the other splits."""
        return [
            (part.name, other)
            for part in self.splits
            for other in part.entries
            if other.policy.policy == entry.policy.policy and other is not entry
        ]


def arrange(audit: Audit, exact: Exact, encounters: Encounters) -> tuple[TaskPart, ...]:
    """The parts of the page, in the order in which the audit met the tasks."""
    by_task: dict[str, dict[str, list[Entry]]] = {}
    worlds: dict[str, World] = {}
    for number, policy in enumerate(audit.policies):
        worlds[policy.world.key] = policy.world
        splits = by_task.setdefault(policy.world.key, {})
        flags = tuple(_flag_row(flag, encounters) for flag in policy.flags)
        splits.setdefault(policy.split or "no split recorded", []).append(
            Entry(number, policy, flags)
        )
    return tuple(
        TaskPart(number, worlds[key], _splits(splits), _exact(worlds[key], exact.get(key, {})))
        for number, (key, splits) in enumerate(by_task.items(), start=1)
    )


def _splits(by_name: dict[str, list[Entry]]) -> tuple[SplitPart, ...]:
    def rank(name: str) -> int:
        return _CLAIM_SPLITS.index(name) if name in _CLAIM_SPLITS else len(_CLAIM_SPLITS)

    return tuple(SplitPart(name, tuple(by_name[name])) for name in sorted(by_name, key=rank))


def _flag_row(flag: Flag, encounters: Encounters) -> FlagRow:
    examples = [
        Example(
            label=case_label(row),
            decision=row.decision or "no decision",
            oracle=row.oracle_decision,
            number=encounters.number_of.get(id(row)),
        )
        for row in flag.examples
    ]
    return FlagRow(flag=flag, examples=tuple(examples))


def _exact(world: World, values: Mapping[str, ExactValue]) -> tuple[ExactRow, ...]:
    rows = []
    for name, exact in values.items():
        task = exact.task
        high = task.high_risk_group
        acute = [exact.decision_rate(decision, group=high) for decision in task.high_acuity]
        rows.append(
            ExactRow(
                name=shown(name),
                value=exact.value,
                gap=None if world.headroom is None else world.headroom[0] - exact.value,
                asks=exact.mean_asks,
                high_value=exact.over(exact.reward, group=high),
                acute=sum(acute) if acute else None,
            )
        )
    return tuple(sorted(rows, key=lambda row: -row.value))
