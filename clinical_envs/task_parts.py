"""The parts a task file is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

Identifier = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Probability = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1, max_length=500)]
TAGS = _FIRST, _SECOND = "(first kind)", "(second kind)"
"""Which kind a part of two kinds was read as; they stand in the locations of pydantic's errors."""


class Part(BaseModel):
    """Immutable, and closed to unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Family(Part):
    """A presentation within a task; public from the start."""

    id: Identifier
    text: Text


class State(Part):
    """One value of the hidden clinical state, its risk group and its prior probability."""

    id: Identifier
    risk_group: Identifier
    prior: Probability
    text: Text


class Decision(Part):
    """A final action. The order of decisions in a task is their order of acuity."""

    id: Identifier
    text: Text


class Finding(Part):
    """A binary feature that can be asked for.

    p: for each family P(present | state), one number a state, in the order of the states.
    """

    id: Identifier
    text: Text
    domain: Identifier = "general"
    p: dict[Identifier, tuple[Probability, ...]]


class AtLeast(Part):
    """At least so many of the listed findings are present (or were asked)."""

    at_least: Annotated[int, Field(ge=1)]
    present: tuple[Identifier, ...] = ()
    asked: tuple[Identifier, ...] = ()

    @model_validator(mode="after")
    def _one_list(self) -> AtLeast:
        if bool(self.present) == bool(self.asked):
            raise ValueError("give exactly one of 'present' and 'asked' as a list of findings")
        listed = self.findings()
        _listed_once(listed)
        if self.at_least > len(listed):
            raise ValueError(f"at_least is {self.at_least} of {len(listed)} findings; lower it")
        return self

    def findings(self) -> tuple[str, ...]:
        """Every finding the condition names."""
        return self.present + self.asked

    def holds(self, seen: Mapping[str, bool]) -> bool:
        """Whether the findings seen satisfy the condition."""
        if self.present:
            return sum(seen.get(finding, False) for finding in self.present) >= self.at_least
        return sum(finding in seen for finding in self.asked) >= self.at_least


class MorePresent(Part):
    """More findings of the first list than of the second are present."""

    more_present: Annotated[tuple[Identifier, ...], Field(min_length=1)]
    than: Annotated[tuple[Identifier, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _two_lists(self) -> MorePresent:
        _listed_once(self.findings())
        return self

    def findings(self) -> tuple[str, ...]:
        """Every finding the condition names."""
        return self.more_present + self.than

    def holds(self, seen: Mapping[str, bool]) -> bool:
        """Whether the findings seen satisfy the condition."""
        more = sum(seen.get(finding, False) for finding in self.more_present)
        return more > sum(seen.get(finding, False) for finding in self.than)


def _listed_once(findings: tuple[str, ...]) -> None:
    for finding in findings:
        if findings.count(finding) > 1:
            raise ValueError(f"{finding!r} is listed twice; remove one")


def _first_if(first: type[Part]) -> Discriminator:
    """Of two kinds of part the first, where a value has one of its fields.

    So a mistake in a part is reported for one kind, the one that was meant.
    """

    def kind(value: Any) -> str:
        named = isinstance(value, Mapping) and not first.model_fields.keys().isdisjoint(value)
        return _FIRST if named or isinstance(value, first) else _SECOND

    return Discriminator(kind)


Condition = Annotated[
    Annotated[MorePresent, Tag(_FIRST)] | Annotated[AtLeast, Tag(_SECOND)], _first_if(MorePresent)
]
NoDecision = Annotated[
    Annotated[Literal["worst"], Tag(_FIRST)] | Annotated[dict[Identifier, Finite], Tag(_SECOND)],
    Discriminator(lambda value: _FIRST if isinstance(value, str) else _SECOND),
]


class ChecklistCommit(Part):
    """A leaf of the checklist."""

    commit: Identifier


class ChecklistAsk(Part):
    """A fork of the checklist."""

    ask: Identifier
    yes: ChecklistNode
    no: ChecklistNode


ChecklistNode = Annotated[
    Annotated[ChecklistAsk, Tag(_FIRST)] | Annotated[ChecklistCommit, Tag(_SECOND)],
    _first_if(ChecklistAsk),
]


class Version(Part):
    """One line of a task's version history."""

    version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")]
    date: Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    change: Text
