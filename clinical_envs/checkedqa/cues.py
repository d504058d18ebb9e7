"""The cues of a medical sentence that decide whether another sentence supports it.

Content words, negation, quantities with units, direction of effect, population and hedging, read
by fixed word lists. Only Latin text carries cues; other scripts yield content words alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_QUANTITY = re.compile(
    r"(?<![\w.])(?<![^\W\d_][-−])"  # neither inside a word nor the number of a name: IL-6
    r"([-−]?\d+(?:,\d{3})*(?:\.\d+)?)\s*([a-zµμ]+|%)?"
)
_NO_EVIDENCE = re.compile(
    r"\b(?:no|insufficient|little|lack of|without)\s+(?:\w+\s+)?evidence\b", re.IGNORECASE
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NEGATIONS = _words(
    "not no never neither nor without cannot none failed lacks lacked absent isn't aren't wasn't "
    "weren't doesn't don't didn't can't couldn't won't hasn't haven't"
)
_UP = _words(
    "increase increases increased increasing raise raises raised higher rise rises rose elevated "
    "elevates more greater improve improves improved"
)
_DOWN = _words(
    "decrease decreases decreased decreasing reduce reduces reduced reducing lower lowers lowered "
    "fall falls fell decline declines declined fewer less"
)
_HEDGES = _words(
    "may might could possibly perhaps potentially probably likely suggest suggests suggested "
    "appear appears appeared seem seems unclear uncertain"
)
_POPULATIONS = _words(
    "mice mouse rats rat animals rabbits dogs vitro children child infants neonates adolescents "
    "adults elderly older men women pregnant pregnancy postmenopausal smokers diabetics"
)
_STOP = _words(
    "a an the of in on at to for by with from and or that this these those is are was were be been "
    "being it its as than then there their has have had do does did so such which who"
)

_UNITS: dict[str, tuple[str, float]] = {
    "g": ("mass", 1.0), "kg": ("mass", 1e3), "mg": ("mass", 1e-3), "mcg": ("mass", 1e-6),
    "µg": ("mass", 1e-6), "μg": ("mass", 1e-6), "ug": ("mass", 1e-6), "ng": ("mass", 1e-9),
    "l": ("volume", 1.0), "ml": ("volume", 1e-3), "dl": ("volume", 1e-1),
    "h": ("hours", 1.0), "hour": ("hours", 1.0), "hours": ("hours", 1.0),
    "day": ("hours", 24.0), "days": ("hours", 24.0),
    "week": ("hours", 168.0), "weeks": ("hours", 168.0),
    "month": ("months", 1.0), "months": ("months", 1.0),
    "year": ("months", 12.0), "years": ("months", 12.0),
    "%": ("percent", 1.0), "percent": ("percent", 1.0), "mmhg": ("pressure", 1.0),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Cues:
    """What the word lists find in one sentence.

    `negated` is the parity of negations; `no_evidence` marks statements about missing evidence,
    whose negations are not counted. `quantities` are (dimension, value in the dimension's base
    unit), the dimension empty for a bare number. `direction` is the sign of ups minus downs.
    """

    content: frozenset[str]
    negated: bool
    no_evidence: bool
    quantities: frozenset[tuple[str, float]]
    direction: int
    populations: frozenset[str]
    hedged: bool


@lru_cache(maxsize=4096)  # every claim is compared with the same few sentences
def read_cues(text: str) -> Cues:
    """Read the cues of a sentence; total on any text.

    >>> read_cues("5 mg does not raise pressure in mice").quantities
    frozenset({('mass', 0.005)})
    >>> read_cues("No evidence that it does not help").no_evidence
    True
    """
    lowered = text.lower().replace("’", "'")
    no_evidence = _NO_EVIDENCE.search(lowered) is not None
    words = _WORD.findall(_NO_EVIDENCE.sub(" ", lowered))
    ups = sum(word in _UP for word in words)
    downs = sum(word in _DOWN for word in words)
    cue_words = _STOP | _NEGATIONS | _UP | _DOWN | _HEDGES | _POPULATIONS | _UNITS.keys()
    return Cues(
        content=frozenset(words) - cue_words,
        negated=sum(word in _NEGATIONS for word in words) % 2 == 1,
        no_evidence=no_evidence,
        quantities=_quantities(lowered),
        direction=(ups > downs) - (ups < downs),
        populations=frozenset(words) & _POPULATIONS,
        hedged=not _HEDGES.isdisjoint(words),
    )


def overlap(claim: Cues, evidence: Cues) -> float:
    """Share of the claim's content words found in the evidence; 0 for a claim without any."""
    if not claim.content:
        return 0.0
    return len(claim.content & evidence.content) / len(claim.content)


def quantities_conflict(claim: Cues, evidence: Cues) -> bool:
    """Whether both give quantities and the claim has one that the evidence does not.

    Values are compared to a relative 1e-9 after conversion, so 5 mg is 0.005 g and not 5 g.
    """
    if not claim.quantities or not evidence.quantities:
        return False
    return not all(
        any(_same(quantity, other) for other in evidence.quantities)
        for quantity in claim.quantities
    )


def _same(one: tuple[str, float], other: tuple[str, float]) -> bool:
    return one[0] == other[0] and abs(one[1] - other[1]) <= 1e-9 * max(abs(one[1]), abs(other[1]))


def _quantities(lowered: str) -> frozenset[tuple[str, float]]:
    found: set[tuple[str, float]] = set()
    for number, unit in _QUANTITY.findall(lowered):
        dimension, factor = _UNITS.get(unit, ("", 1.0))
        found.add((dimension, float(number.replace(",", "").replace("−", "-")) * factor))
    return frozenset(found)
