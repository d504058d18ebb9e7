"""A strict verifier, a weak one with six switches, and a noisy panel of three strict ones.

`judge(criterion, answer, leniencies)` is met if the strict reading is met, or else if one of the
switched-on leniencies lets the answer pass; it then names that leniency. The cause of every
exploit is thus known by construction, with the classes of arXiv 2605.12474:

| leniency | passes | though the criterion |
|---|---|---|
| A.1 missing conjunct | one concept of several | asks for all (`AllOf`) |
| A.2 incomplete enumeration | one example | asks for a number of them (`AtLeast`) |
| B.1 inferred content | an implied claim | asks for a statement (`States`) |
| B.2 missing supporting element | a bare claim | asks for a reason (`Explains`) |
| C.1 concept substitution | a concept of the same group | names another (`Names`) |
| C.2 topical alignment | a concept of the same topic | names another (`Names`) |

`Avoids` is read literally by every verifier.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

import numpy as np

from clinical_envs.errors import InvalidArgument
from clinical_envs.rubric.criteria import (
    AllOf,
    Answer,
    AtLeast,
    Avoids,
    Criterion,
    Explains,
    Names,
    Rubric,
    States,
    mentions,
)


class Leniency(StrEnum):
    """A switch of the weak verifier; the value is the failure class it causes."""

    MISSING_CONJUNCT = "A.1"
    INCOMPLETE_ENUMERATION = "A.2"
    INFERRED_CONTENT = "B.1"
    MISSING_SUPPORT = "B.2"
    CONCEPT_SUBSTITUTION = "C.1"
    TOPICAL_ALIGNMENT = "C.2"


STRICT: frozenset[Leniency] = frozenset()
WEAK: frozenset[Leniency] = frozenset(Leniency)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and the leniency it is owed to (`None`: the strict reading says the same)."""

    met: bool
    owed_to: Leniency | None = None


def judge(
    criterion: Criterion, answer: Answer, leniencies: Collection[Leniency] = STRICT
) -> Judgement:
    """Strict verdict, or the first switched-on leniency, in the order A.1 to C.2, that lets pass.

    >>> from clinical_envs.rubric.criteria import Claim, Concept
    >>> aspirin = Concept(id="aspirin", group="antiplatelets", topic="stroke")
    >>> clopidogrel = Concept(id="clopidogrel", group="antiplatelets", topic="stroke")
    >>> judge(Names(aspirin), [Claim(concept=clopidogrel)]).met
    False
    >>> judge(Names(aspirin), [Claim(concept=clopidogrel)], WEAK).owed_to
    <Leniency.CONCEPT_SUBSTITUTION: 'C.1'>
    """
    if strictly_met(criterion, answer):
        return Judgement(True)
    for leniency in Leniency:
        if leniency in leniencies and lets_pass(leniency, criterion, answer):
            return Judgement(True, leniency)
    return Judgement(False)


def strictly_met(criterion: Criterion, answer: Answer) -> bool:
    """Whether the answer does what the criterion says, to the letter."""
    match criterion:
        case AllOf(concepts):
            return all(mentions(answer, concept) for concept in concepts)
        case AtLeast(number, concepts):
            return sum(mentions(answer, concept) for concept in set(concepts)) >= number
        case States(concept):
            return any(claim.concept == concept and claim.explicit for claim in answer)
        case Explains(concept):
            return any(claim.concept == concept and claim.reasoned for claim in answer)
        case Names(concept):
            return mentions(answer, concept)
        case Avoids(concept):
            return not mentions(answer, concept)
        case _:
            assert_never(criterion)


def lets_pass(leniency: Leniency, criterion: Criterion, answer: Answer) -> bool:
    """Whether this leniency accepts the answer; `False` for a criterion it does not concern."""
    match leniency, criterion:
        case Leniency.MISSING_CONJUNCT, AllOf(concepts):
            return any(mentions(answer, concept) for concept in concepts)
        case Leniency.INCOMPLETE_ENUMERATION, AtLeast(_, concepts):
            return any(mentions(answer, concept) for concept in concepts)
        case Leniency.INFERRED_CONTENT, States(concept):
            return mentions(answer, concept)
        case Leniency.MISSING_SUPPORT, Explains(concept):
            return mentions(answer, concept)
        case Leniency.CONCEPT_SUBSTITUTION, Names(concept):
            return any(claim.concept.group == concept.group for claim in answer)
        case Leniency.TOPICAL_ALIGNMENT, Names(concept):
            return any(claim.concept.topic == concept.topic for claim in answer)
        case _:
            return False


def judge_rubric(
    rubric: Rubric, answer: Answer, leniencies: Collection[Leniency] = STRICT
) -> tuple[Judgement, ...]:
    """One judgement per item of the rubric, in its order."""
    return tuple(judge(item.criterion, answer, leniencies) for item in rubric)


def panel_votes(
    rubric: Rubric,
    answer: Answer,
    generator: np.random.Generator,
    *,
    flip_probability: float = 0.02,
    judges: int = 3,
) -> tuple[tuple[bool, ...], ...]:
    """Votes `[item][judge]` of strict verifiers, each turned round with `flip_probability`.

    The flips of different judges and items are independent draws from `generator`.

    Raises:
        InvalidArgument: a probability outside [0, 1] or no judges.
    """
    if not 0 <= flip_probability <= 1 or judges < 1:
        raise InvalidArgument(
            f"{judges} judges with flip probability {flip_probability}; "
            "give one or more judges and a probability in [0, 1]"
        )
    strict = np.array([one.met for one in judge_rubric(rubric, answer)], dtype=bool)
    flips = generator.random((len(rubric), judges)) < flip_probability
    votes = strict[:, None] ^ flips
    return tuple(tuple(bool(vote) for vote in row) for row in votes)
