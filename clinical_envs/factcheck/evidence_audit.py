"""Evidence that the published reward pays for, or punishes, without reason.

``R_CER`` divides by the number of pieces, so it is not monotone: a third good piece can lower it.
It pays both sides whatever the verdict, so a report earns by padding both of them. It reads
PMIDs one by one, so the same abstract can be paid again and again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from clinical_envs.factcheck.rewards import (
    MIN_PROBABILITY,
    JudgedEvidence,
    JudgedReport,
    composite_evidence_reward,
    evidence_reward,
)
from clinical_envs.factcheck.verdict import Verdict

PADDED_SHARE = 0.5
"""Reward against the verdict over reward for it, from which a report counts as padded (ours): one
dissenting study of middling score beside two good ones stays below."""


class EvidenceFlag(StrEnum):
    """What is wrong with the evidence of a report, or with how it is paid."""

    DUPLICATE_PMID = "duplicate_pmid"  # a PMID twice in one section
    BOTH_SIDES = "both_sides"  # a PMID in both sections
    PAID_AGAINST_VERDICT = "paid_against_verdict"  # paid at least half as much against as for it
    PUNISHED_EVIDENCE = "punished_evidence"  # a piece above 0.5 that lowers the reward


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceAudit:
    """How a report earns its evidence reward.

    ``duplicates``: pieces that repeat a PMID within a section, and ``duplicate_gain``, what they
    change in the reward. ``on_both_sides``: PMIDs cited for and against. ``paid_for`` and
    ``paid_against``: reward of the sides with and against the verdict, 0 for a report without a
    side. ``punished``: pieces with a score above 0.5 that lower the reward of their section.
    """

    duplicates: int
    duplicate_gain: float
    on_both_sides: tuple[str, ...]
    paid_for: float
    paid_against: float
    punished: tuple[JudgedEvidence, ...]

    @property
    def flags(self) -> tuple[EvidenceFlag, ...]:
        """The flags that these numbers raise."""
        raised = {
            EvidenceFlag.DUPLICATE_PMID: self.duplicates > 0,
            EvidenceFlag.BOTH_SIDES: bool(self.on_both_sides),
            EvidenceFlag.PAID_AGAINST_VERDICT: self.paid_against > 0
            and self.paid_against >= PADDED_SHARE * self.paid_for,
            EvidenceFlag.PUNISHED_EVIDENCE: bool(self.punished),
        }
        return tuple(flag for flag, is_raised in raised.items() if is_raised)


def marginal_reward(scores: Sequence[float], index: int) -> float:
    """``R_CER(scores) - R_CER(scores without piece index)``; negative means punished.

    >>> round(marginal_reward([0.9, 0.9, 0.51], 2), 3)
    -0.047
    """
    without = [*scores[:index], *scores[index + 1 :]]
    return composite_evidence_reward(scores) - composite_evidence_reward(without)


def audit_evidence(judged: JudgedReport) -> EvidenceAudit:
    """Audit the evidence of one judged report."""
    cited = Counter((item.side, item.evidence.pmid) for item in judged.evidence)
    both = [pmid for side, pmid in cited if side is Verdict.SUPPORTED]
    other = {Verdict.SUPPORTED: Verdict.REFUTED, Verdict.REFUTED: Verdict.SUPPORTED}
    verdict = judged.verdict
    against = None if verdict is None else other.get(verdict)
    return EvidenceAudit(
        duplicates=len(judged.evidence) - len(cited),
        duplicate_gain=evidence_reward(judged) - evidence_reward(judged, dedupe=True),
        on_both_sides=tuple(pmid for pmid in both if (Verdict.REFUTED, pmid) in cited),
        paid_for=_paid(judged, verdict),
        paid_against=_paid(judged, against),
        punished=_punished(judged),
    )


def _paid(judged: JudgedReport, side: Verdict | None) -> float:
    return 0.0 if side is None else composite_evidence_reward(judged.scores(side))


def _punished(judged: JudgedReport) -> tuple[JudgedEvidence, ...]:
    punished = []
    for side in (Verdict.SUPPORTED, Verdict.REFUTED):
        section = [item for item in judged.evidence if item.side is side]
        scores = judged.scores(side)
        punished += [
            item
            for index, item in enumerate(section)
            if item.score > MIN_PROBABILITY and marginal_reward(scores, index) < 0
        ]
    return tuple(punished)
