"""The messages of `ClinicalRubric-v0`: concepts, a rubric for each state, an answer a decision.

A message is worded from its family and its public case name alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

from pydantic import BaseModel, ConfigDict

from clinical_envs.catalog import read_yaml
from clinical_envs.errors import InvalidTask
from clinical_envs.rubric.criteria import (
    AllOf,
    Answer,
    AtLeast,
    Avoids,
    Claim,
    Concept,
    Criterion,
    Explains,
    Item,
    Names,
    States,
)

Demand = Literal["presence", "absence"]
_IMPLIED, _REASONED = "~", "!"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Role(_Part):
    group: str
    topic: str


class _Said(_Part):
    id: str
    say: str
    why: str


class _Kind(_Part):
    messages: tuple[str, ...]
    concepts: dict[str, _Said]


class _Item(_Part):
    name: str
    weight: float
    demand: Demand
    names: str | None = None
    avoids: str | None = None
    states: str | None = None
    explains: str | None = None
    all_of: tuple[str, ...] | None = None
    at_least: tuple[str, ...] | None = None
    number: int = 1


class Context(_Part):
    """The two answers of a context item."""

    present: str
    absent: str

    def text(self, answer: bool) -> str:
        """What the record or the patient says."""
        return self.present if answer else self.absent


class _Texts(_Part):
    roles: dict[str, _Role]
    kinds: dict[str, _Kind]
    items: tuple[_Item, ...]
    harms: dict[str, str]
    answers: dict[str, tuple[str, ...]]
    context: dict[str, Context]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A worded message with everything that depends on its kind.

    concepts: what can be said, by name. sayings: name -> (imperative, reason). rubrics: by state.
    demands: by item name. answers: the canonical claims of each decision, in the file's order.
    """

    text: str
    concepts: Mapping[str, Concept]
    sayings: Mapping[str, tuple[str, str]]
    rubrics: Mapping[str, tuple[Item, ...]]
    demands: Mapping[str, Demand]
    answers: Mapping[str, tuple[Claim, ...]]

    def render(self, claims: Answer) -> str:
        """An answer in words: one sentence a claim.

        >>> rest = message("knee_pain", "a case").concepts["rest"]
        >>> message("knee_pain", "a case").render([Claim(concept=rest, reasoned=True)])
        'Rest the knee, because it heals faster.'
        """
        return " ".join(self._sentence(claim) for claim in claims)

    def _sentence(self, claim: Claim) -> str:
        say, why = self.sayings[claim.concept.id]
        stated = say if claim.explicit else f"perhaps you already {say}"
        reason = f", because {why}" if claim.reasoned else ""
        return f"{stated[0].upper()}{stated[1:]}{reason}."


def message(family: str, case: str) -> Message:
    """The message of a case; the public name of the case picks its wording."""
    number = int.from_bytes(hashlib.sha256(case.encode()).digest()[:8], "big")
    wordings = messages(family)
    return wordings[number % len(wordings)]


@cache
def messages(family: str) -> tuple[Message, ...]:
    """All wordings of a family."""
    return tuple(_worded(family, text) for text in _texts().kinds[family].messages)


def context() -> Mapping[str, Context]:
    """The answers of each context item, by finding."""
    return _texts().context


@cache
def _texts() -> _Texts:
    source = resources.files("clinical_envs.rubric") / "world.yaml"
    return _Texts.model_validate(read_yaml(source.read_text(encoding="utf-8")))


def _worded(family: str, text: str) -> Message:
    texts = _texts()
    said = texts.kinds[family].concepts
    concepts = {
        role: Concept(id=said[role].id, group=of.group, topic=of.topic)
        for role, of in texts.roles.items()
    }
    rubrics = {}
    for state, harm in texts.harms.items():
        of_state = concepts | {
            "choice_c": concepts[f"choice_{state}"],
            "warn_c": concepts[f"warn_{state}"],
            "harm_c": concepts[harm],
        }
        rubrics[state] = tuple(
            Item(name=item.name, weight=item.weight, criterion=_criterion(item, of_state))
            for item in texts.items
        )
    return Message(
        text=text,
        concepts={concept.id: concept for concept in concepts.values()},
        sayings={one.id: (one.say, one.why) for one in said.values()},
        rubrics=rubrics,
        demands={item.name: item.demand for item in texts.items},
        answers={
            decision: tuple(_claim(one, concepts) for one in claims)
            for decision, claims in texts.answers.items()
        },
    )


def _claim(written: str, concepts: Mapping[str, Concept]) -> Claim:
    return Claim(
        concept=concepts[written.rstrip(_IMPLIED + _REASONED)],
        explicit=not written.endswith(_IMPLIED),
        reasoned=written.endswith(_REASONED),
    )


def _criterion(item: _Item, concepts: Mapping[str, Concept]) -> Criterion:
    match item:
        case _Item(names=str(role)):
            return Names(concepts[role])
        case _Item(avoids=str(role)):
            return Avoids(concepts[role])
        case _Item(states=str(role)):
            return States(concepts[role])
        case _Item(explains=str(role)):
            return Explains(concepts[role])
        case _Item(all_of=tuple(roles)):
            return AllOf(tuple(concepts[role] for role in roles))
        case _Item(at_least=tuple(roles)):
            return AtLeast(item.number, tuple(concepts[role] for role in roles))
        case _:
            raise InvalidTask(f"item {item.name!r} demands nothing; give it one criterion")
