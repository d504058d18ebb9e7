"""Criteria as predicates on a structured answer, so that every verdict is exact.

An answer is a set of claims. A claim mentions one concept, states it explicitly or leaves it
implied, and gives a reason or not. A concept belongs to a group of near synonyms that a careless
reader confuses (a drug class) and to a topic. Each kind of criterion makes one demand and is
blind to all others, so that whoever meets it by a lapse of the verifier shows which lapse it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clinical_envs.errors import InvalidArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class Concept:
    """A concept with its group of lookalikes and its topic."""

    id: str
    group: str
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim of an answer about one concept."""

    concept: Concept
    explicit: bool = True
    reasoned: bool = False


Answer = Sequence[Claim]


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every one of the concepts is mentioned (a conjunction)."""

    concepts: tuple[Concept, ...]

    def __post_init__(self) -> None:
        if len(set(self.concepts)) < 2:
            raise InvalidArgument("AllOf needs two different concepts; use Names for one")


@dataclass(frozen=True, slots=True)
class AtLeast:
    """At least `number` of the concepts are mentioned; "such as X, Y, Z" is `number` = 1."""

    number: int
    concepts: tuple[Concept, ...]

    def __post_init__(self) -> None:
        if not 1 <= self.number <= len(set(self.concepts)):
            raise InvalidArgument(
                f"AtLeast asks for {self.number} of {len(set(self.concepts))} different concepts; "
                "ask for one or more of those there are"
            )


@dataclass(frozen=True, slots=True)
class States:
    """The concept is stated explicitly."""

    concept: Concept


@dataclass(frozen=True, slots=True)
class Explains:
    """The concept is mentioned with a reason."""

    concept: Concept


@dataclass(frozen=True, slots=True)
class Names:
    """Exactly this concept is mentioned, not a lookalike and not merely its topic."""

    concept: Concept


@dataclass(frozen=True, slots=True)
class Avoids:
    """The concept is not mentioned at all; silence meets it."""

    concept: Concept


Criterion = AllOf | AtLeast | States | Explains | Names | Avoids


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A criterion of a rubric with its name and signed weight in points."""

    name: str
    weight: float
    criterion: Criterion


Rubric = Sequence[Item]


def mentions(answer: Answer, concept: Concept) -> bool:
    """Whether any claim is about the concept, explicit or implied."""
    return any(claim.concept == concept for claim in answer)
