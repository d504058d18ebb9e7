from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.factcheck.evidence_audit import (
    EvidenceAudit,
    EvidenceFlag,
    audit_evidence,
    marginal_reward,
)
from clinical_envs.factcheck.report import Evidence
from clinical_envs.factcheck.rewards import JudgedEvidence, JudgedReport
from clinical_envs.factcheck.verdict import Verdict

S, R, NEI = Verdict.SUPPORTED, Verdict.REFUTED, Verdict.NOT_ENOUGH_INFO


def audit(verdict: Verdict | None, *pieces: tuple[str, Verdict, float]) -> EvidenceAudit:
    judged = tuple(
        JudgedEvidence(
            evidence=Evidence(pmid=pmid, quote="q"), side=side, score=score, hallucination=None
        )
        for pmid, side, score in pieces
    )
    return audit_evidence(JudgedReport(verdict=verdict, evidence=judged))


def test_an_honest_report_raises_no_flag() -> None:
    honest = audit(S, ("1", S, 0.95), ("2", S, 0.9), ("3", R, 0.6))
    assert honest.flags == ()
    assert audit(NEI, ("1", S, 0.9), ("2", R, 0.9)).flags == ()
    assert audit(None).flags == ()


def test_the_same_pmid_five_times_in_a_section_is_a_duplicate_that_pays() -> None:
    repeated = audit(S, *[("1", S, 0.9)] * 5)
    assert repeated.duplicates == 4
    assert repeated.duplicate_gain == pytest.approx(0.9 * (0.9933 - 0.6321), abs=1e-4)
    assert repeated.flags == (EvidenceFlag.DUPLICATE_PMID,)


def test_the_same_pmid_on_both_sides_is_named() -> None:
    both = audit(S, ("1", S, 0.9), ("2", S, 0.9), ("1", R, 0.6))
    assert both.on_both_sides == ("1",)
    assert both.duplicates == 0
    assert both.flags == (EvidenceFlag.BOTH_SIDES,)


def test_evidence_paid_at_least_half_as_much_against_the_verdict_as_for_it_is_padding() -> None:
    padding = [(str(i), S if i < 4 else R, 0.95) for i in range(8)]
    padded = audit(S, *padding)
    assert padded.paid_for == padded.paid_against == pytest.approx(1.865 / 2, abs=5e-4)
    assert padded.flags == (EvidenceFlag.PAID_AGAINST_VERDICT,)
    assert audit(R, ("1", S, 0.9)).flags == (EvidenceFlag.PAID_AGAINST_VERDICT,)
    assert audit(R, ("1", S, 0.4)).flags == ()
    # one good piece for the verdict, one weak one against it
    weakly = audit(S, ("1", S, 0.95), ("2", R, 0.7))
    assert weakly.paid_against > 0.5 * weakly.paid_for
    assert weakly.flags == (EvidenceFlag.PAID_AGAINST_VERDICT,)


def test_golden_a_good_third_piece_lowers_the_reward_and_is_named() -> None:
    assert marginal_reward([0.9, 0.9, 0.51], 2) == pytest.approx(0.732 - 0.778, abs=1e-3)
    assert marginal_reward([0.9, 0.51], 1) == pytest.approx(0.610 - 0.569, abs=1e-3)
    punished = audit(S, ("1", S, 0.9), ("2", S, 0.9), ("3", S, 0.51))
    assert [item.evidence.pmid for item in punished.punished] == ["3"]
    assert punished.flags == (EvidenceFlag.PUNISHED_EVIDENCE,)


@given(st.floats(0.51, 1), st.integers(1, 20))
def test_equal_good_pieces_never_punish_each_other(score: float, n: int) -> None:
    assert marginal_reward([score] * n, 0) > -1e-12
