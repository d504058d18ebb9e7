"""Checkers: does the evidence entail a claim, contradict it, or neither?

Every checker answers one claim against one piece of evidence. It may fail (`None`), which is
unscored and never `NEUTRAL`.
"""

from __future__ import annotations

import math
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from clinical_envs.checkedqa.claims import sentences
from clinical_envs.checkedqa.cues import Cues, overlap, quantities_conflict, read_cues
from clinical_envs.errors import InvalidArgument


class Label(StrEnum):
    """What the evidence says about a claim."""

    ENTAIL = "ENTAIL"
    NEUTRAL = "NEUTRAL"
    CONTRADICT = "CONTRADICT"


LABELS: tuple[Label, ...] = tuple(Label)


@dataclass(frozen=True, slots=True)
class Check:
    """A label and the probabilities of ENTAIL, NEUTRAL and CONTRADICT, in this order.

    Raises:
        InvalidArgument: not three probabilities that sum to 1.
    """

    label: Label
    probs: tuple[float, float, float]

    def __post_init__(self) -> None:
        in_range = len(self.probs) == len(LABELS) and all(0 <= p <= 1 for p in self.probs)
        if not in_range or not math.isclose(sum(self.probs), 1, abs_tol=1e-6):
            raise InvalidArgument(f"{self.probs} are not three probabilities that sum to 1")


NO_EVIDENCE = Check(Label.NEUTRAL, (0.0, 1.0, 0.0))
"""The verdict on a claim when nothing was retrieved, whatever the checker."""


class Checker(Protocol):
    """Anything that checks a claim against evidence."""

    @property
    def name(self) -> str:
        """Identifies the checker *and* its parameters: two checkers never share a name."""

    def check(self, claim: str, evidence: str) -> Check | None:
        """Check a claim; `None` if the checker failed (a timeout, an unreadable reply)."""


def check_claims(
    checker: Checker, claims: Sequence[str], passages: Sequence[str]
) -> tuple[Check | None, ...]:
    """Check each claim against the passage that says most about it.

    That is the passage with the least P(NEUTRAL); taking the most entailing one would hide
    contradictions. Without passages every claim is `NO_EVIDENCE`, so an answer that never
    searched earns no more than silence. A claim is unscored if the checker fails on any passage.

    >>> check_claims(RuleChecker(), ["Aspirin reduces fever"], [])[0].label
    <Label.NEUTRAL: 'NEUTRAL'>
    """
    return tuple(_check_claim(checker, claim, passages) for claim in claims)


def _check_claim(checker: Checker, claim: str, passages: Sequence[str]) -> Check | None:
    least_neutral = NO_EVIDENCE
    for passage in passages:
        check = checker.check(claim, passage)
        if check is None:
            return None
        if check.probs[1] < least_neutral.probs[1]:
            least_neutral = check
    return least_neutral


def closest_sentence(claim: Cues, evidence: str) -> Cues:
    """The cues of the evidence sentence that overlaps most with the claim; the first on ties."""
    candidates = [read_cues(sentence) for sentence in sentences(evidence)] or [read_cues("")]
    return max(candidates, key=lambda candidate: overlap(claim, candidate))


@dataclass(frozen=True, slots=True)
class RuleChecker:
    """Compares cues with the closest evidence sentence; the first rule that applies decides.

    1. fewer than `least_overlap` of the claim's content words found -> NEUTRAL
    2. the evidence is about another population, is hedged where the claim is not, or exactly one
       of the two speaks of missing evidence -> NEUTRAL
    3. negation or direction differ (both together cancel), or a quantity differs -> CONTRADICT
    4. otherwise ENTAIL

    The probabilities are 0 and 1: a rule has no doubt, and no calibration.

    >>> checker = RuleChecker()
    >>> evidence = "Metformin at 5 mg reduced glucose in adults."
    >>> for claim in ("Metformin at 5 mg reduced glucose in adults",
    ...               "Metformin at 5 g reduced glucose in adults",
    ...               "Metformin at 5 mg reduced glucose in mice"):
    ...     print(checker.check(claim, evidence).label)
    ENTAIL
    CONTRADICT
    NEUTRAL
    """

    least_overlap: float = 0.6

    @property
    def name(self) -> str:
        """Name with its parameter."""
        return f"rules-1(least_overlap={self.least_overlap:g})"

    def check(self, claim: str, evidence: str) -> Check:
        """Check a claim; this checker never fails."""
        cues = read_cues(claim)
        label = self._label(cues, closest_sentence(cues, evidence))
        entail, neutral, contradict = (float(label is one) for one in LABELS)
        return Check(label, (entail, neutral, contradict))

    def _label(self, claim: Cues, evidence: Cues) -> Label:
        if overlap(claim, evidence) < self.least_overlap:
            return Label.NEUTRAL
        if populations_differ(claim, evidence) or claim.no_evidence != evidence.no_evidence:
            return Label.NEUTRAL
        if evidence.hedged and not claim.hedged:
            return Label.NEUTRAL
        if polarity_differs(claim, evidence) or quantities_conflict(claim, evidence):
            return Label.CONTRADICT
        return Label.ENTAIL


def populations_differ(claim: Cues, evidence: Cues) -> bool:
    """Whether either names a population that the other does not."""
    return claim.populations != evidence.populations


def polarity_differs(claim: Cues, evidence: Cues) -> bool:
    """Whether negation times direction has the opposite sign ("not raised" against "raised").

    A sentence without a direction counts as affirming, one with opposite cues in balance too.
    """
    return _polarity(claim) != _polarity(evidence)


def _polarity(cues: Cues) -> int:
    sign = -1 if cues.direction < 0 else 1
    return -sign if cues.negated else sign


class CachedChecker:
    """Remembers verdicts under (checker name, claim, evidence), so swapping the checker misses.

    Failures are not remembered.
    """

    def __init__(
        self, checker: Checker, store: MutableMapping[tuple[str, str, str], Check] | None = None
    ) -> None:
        self._checker = checker
        self._store = {} if store is None else store

    @property
    def name(self) -> str:
        """The name of the checker behind the cache."""
        return self._checker.name

    def check(self, claim: str, evidence: str) -> Check | None:
        """Look the verdict up, or ask the checker and remember a verdict it gives."""
        key = (self._checker.name, claim, evidence)
        if key not in self._store:
            check = self._checker.check(claim, evidence)
            if check is None:
                return None
            self._store[key] = check
        return self._store[key]
