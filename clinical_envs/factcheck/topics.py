"""What a case is about: an invented drug, an outcome and a population, drawn from its identity.

    number(identity, key, n) = SHA-256(identity, key) mod n

A text needs no generator with a state: each choice is a number of its own, fixed by the public
name of the case and by what is chosen. Nothing hidden goes in, so nothing hidden comes out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from clinical_envs.errors import InvalidArgument

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Drug:
    """An invented drug and what kind of drug it is."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A claim in parts; `family` says whether the drug is said to lower a risk or to raise it."""

    family: str
    drug: Drug
    outcome: str
    population: str

    @property
    def verb(self) -> str:
        """What the claim says the drug does, as an infinitive: lower or raise."""
        return VERBS[self.family]

    @property
    def claim(self) -> str:
        """The claim as a sentence.

        >>> topic("example", "harm").claim
        'Lepridone raises the risk of liver injury in women after menopause.'
        """
        drug = self.drug.name.capitalize()
        return f"{drug} {self.verb}s the risk of {self.outcome} in {self.population}."


VERBS = {"benefit": "lower", "harm": "raise"}
PAST = {"benefit": "lowered", "harm": "raised"}
DRUGS = (
    Drug("velotrapine", "a β1-selective blocker"),
    Drug("ostrelimab", "an antibody against TNF-α"),
    Drug("cordaxiban", "a factor Xa inhibitor"),
    Drug("mirvolstat", "an inhibitor of α-glucosidase"),
    Drug("talufenac", "a COX-2 inhibitor"),
    Drug("brevilukast", "a leukotriene antagonist"),
    Drug("senogliptin", "a DPP-4 inhibitor"),
    Drug("lepridone", "a κ-opioid agonist"),
    Drug("zelutapril", "an ACE inhibitor"),
    Drug("quemoglitazar", "a PPAR-γ agonist"),
    Drug("anfrekinumab", "an antibody against IL-1β"),
    Drug("dorvegabalin", "a ligand of the α2δ subunit"),
)
OUTCOMES = {
    "benefit": (
        "stroke",
        "heart failure",
        "vertebral fracture",
        "postoperative delirium",
        "urinary tract infection",
        "migraine",
        "venous thromboembolism",
        "kidney failure",
    ),
    "harm": (
        "gastrointestinal bleeding",
        "atrial fibrillation",
        "hip fracture",
        "acute pancreatitis",
        "hypoglycaemia",
        "liver injury",
        "dementia",
        "falls",
    ),
}
POPULATIONS = (
    "adults with type 2 diabetes",
    "adults over 75 years",
    "women after menopause",
    "people with rheumatoid arthritis",
    "people with chronic kidney disease",
    "adults with obesity",
    "smokers",
    "people with depression",
)
LONGEST_CLAIM = max(
    (
        Topic(family=family, drug=drug, outcome=outcome, population=population).claim
        for family, outcomes in OUTCOMES.items()
        for drug in DRUGS
        for outcome in outcomes
        for population in POPULATIONS
    ),
    key=len,
)


def number(identity: str, key: str, n: int) -> int:
    """A whole number below n, fixed by the identity of a case and a key."""
    digest = hashlib.sha256(f"{identity}\n{key}".encode()).digest()
    return int.from_bytes(digest[:8], "little") % n


@lru_cache(maxsize=1024)
def topic(identity: str, family: str) -> Topic:
    """The topic of a case.

    Raises:
        InvalidArgument: a family this world has no claims for.
    """
    if family not in VERBS:
        raise InvalidArgument(f"no claims of family {family!r}; known: {', '.join(VERBS)}")
    return Topic(
        family=family,
        drug=DRUGS[number(identity, "drug", len(DRUGS))],
        outcome=OUTCOMES[family][number(identity, "outcome", len(OUTCOMES[family]))],
        population=POPULATIONS[number(identity, "population", len(POPULATIONS))],
    )


def other_topics(identity: str, family: str) -> tuple[Topic, ...]:
    """Three topics close to that of a case: another outcome, another drug, another of all."""
    ours, outcomes = topic(identity, family), OUTCOMES[family]
    drug = _another(ours.drug, DRUGS, identity)
    outcome = _another(ours.outcome, outcomes, identity)
    population = _another(ours.population, POPULATIONS, identity)
    return (
        Topic(family=family, drug=ours.drug, outcome=outcome, population=ours.population),
        Topic(family=family, drug=drug, outcome=ours.outcome, population=ours.population),
        Topic(family=family, drug=drug, outcome=outcome, population=population),
    )


def _another(ours: _Item, pool: Sequence[_Item], identity: str) -> _Item:
    step = 1 + number(identity, f"another of {len(pool)}", len(pool) - 1)
    return pool[(pool.index(ours) + step) % len(pool)]
