from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.errors import InvalidArgument
from clinical_envs.factcheck.metrics import (
    HallucinationRates,
    Mean,
    evidence_quality,
    hallucination_rates,
    label_metrics,
)
from clinical_envs.factcheck.report import Evidence
from clinical_envs.factcheck.rewards import Hallucination, JudgedEvidence, JudgedReport
from clinical_envs.factcheck.verdict import Verdict

S, R, NEI = Verdict.SUPPORTED, Verdict.REFUTED, Verdict.NOT_ENOUGH_INFO


def report(
    verdict: Verdict | None, *pieces: tuple[Verdict, float], hallucinated: int = 0
) -> JudgedReport:
    return JudgedReport(
        verdict=verdict,
        evidence=tuple(
            JudgedEvidence(
                evidence=Evidence(pmid="1", quote=""),
                side=side,
                score=score,
                hallucination=Hallucination.UNFAITHFUL_QUOTE if i < hallucinated else None,
            )
            for i, (side, score) in enumerate(pieces)
        ),
    )


def test_golden_label_metrics() -> None:
    metrics = label_metrics([S, S, R, R], [S, NEI, R, S])
    assert metrics.n == 4
    assert metrics.accuracy == 0.5
    assert metrics.macro_precision == 0.75
    assert metrics.macro_recall == 0.5
    assert metrics.macro_f1 == pytest.approx(0.5833, abs=5e-5)


_labels = st.sampled_from(Verdict)


@given(st.lists(st.tuples(_labels, st.none() | _labels)), st.permutations([S, R]))
def test_label_metrics_are_shares_and_do_not_depend_on_the_names(
    pairs: list[tuple[Verdict, Verdict | None]], names: list[Verdict]
) -> None:
    renamed = {S: names[0], R: names[1], NEI: NEI, None: None}
    metrics = label_metrics([t for t, _ in pairs], [p for _, p in pairs])
    again = label_metrics([renamed[t] or NEI for t, _ in pairs], [renamed[p] for _, p in pairs])
    for name in ("accuracy", "macro_precision", "macro_recall", "macro_f1"):
        value = getattr(metrics, name)
        assert value is None or 0.0 <= value <= 1.0
        assert getattr(again, name) == (value if value is None else pytest.approx(value))


@given(st.lists(st.sampled_from([S, R]), min_size=1).filter(lambda truths: {S, R} <= set(truths)))
def test_perfect_labels_score_one_and_abstaining_scores_zero(truths: list[Verdict]) -> None:
    perfect = label_metrics(truths, list(truths))
    assert perfect.accuracy == perfect.macro_precision == perfect.macro_recall == 1.0
    assert perfect.macro_f1 == 1.0
    for abstention in (NEI, None):
        silent = label_metrics(truths, [abstention] * len(truths))
        assert silent.accuracy == silent.macro_precision == silent.macro_f1 == 0.0


def test_abstentions_cost_recall_and_not_precision() -> None:
    metrics = label_metrics([S, S, R, R], [S, NEI, R, None])
    assert metrics.macro_precision == 1.0
    assert metrics.macro_recall == 0.5


def test_a_verdict_that_is_never_true_leaves_the_macro_values_unscored() -> None:
    metrics = label_metrics([S, S], [S, R])
    assert metrics.accuracy == 0.5
    assert metrics.macro_precision is metrics.macro_recall is metrics.macro_f1 is None
    assert label_metrics([], []).accuracy is None
    with pytest.raises(InvalidArgument, match="1 truths and 0 predictions"):
        label_metrics([S], [])


def test_evidence_quality_averages_the_side_of_the_verdict_and_counts_the_skipped() -> None:
    reports = [
        report(S, (S, 0.9), (S, 0.4), (R, 1.0)),
        report(R, (R, 0.25)),
        report(R, (S, 0.9)),  # evidence only against the verdict
        report(NEI, (S, 0.9), (R, 0.9)),
        report(None, (S, 0.9)),
        report(S),
    ]
    quality = evidence_quality(reports)
    assert quality.value == pytest.approx((0.65 + 0.25) / 2)
    assert (quality.n, quality.skipped) == (2, 4)
    assert evidence_quality(reports[2:]) == Mean(value=None, n=0, skipped=4)


def test_the_three_readings_of_the_hallucination_rate_differ() -> None:
    reports = [
        report(S, (S, 0.9), (S, 0.9), (S, 0.9), hallucinated=3),
        report(R, (R, 0.9)),
        report(NEI),
    ]
    assert hallucination_rates(reports) == HallucinationRates(
        ehr_report_share=1 / 3, ehr_per_report=1.0, ehr_per_evidence=0.75
    )
    assert hallucination_rates([report(S)]).ehr_per_evidence is None
    assert hallucination_rates([]).ehr_report_share is None
