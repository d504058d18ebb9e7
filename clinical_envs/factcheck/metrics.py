"""Metrics of fact-checking: label metrics, evidence quality (EQS), hallucination rate (EHR)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from clinical_envs.errors import InvalidArgument
from clinical_envs.factcheck.rewards import JudgedReport
from clinical_envs.factcheck.verdict import Verdict

CLASSES = (Verdict.SUPPORTED, Verdict.REFUTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean over ``n`` reports, and how many were skipped because they define none."""

    value: float | None
    n: int
    skipped: int


def evidence_quality(reports: Sequence[JudgedReport]) -> Mean:
    """EQS: mean over reports of the mean score of the evidence on the side of the verdict.

    Scores are not cut at 0.5; a foreign PMID scores 0. A report without evidence on the side of
    its verdict (so every NOT ENOUGH INFORMATION) is skipped and counted.
    """
    means = [
        fmean(scores)
        for report in reports
        if report.verdict is not None and (scores := report.scores(report.verdict))
    ]
    return Mean(
        value=fmean(means) if means else None, n=len(means), skipped=len(reports) - len(means)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HallucinationRates:
    """EHR in its three readings; None where there is nothing to divide by.

    ``ehr_report_share``: reports with a hallucinated piece / reports, in [0, 1];
    ``ehr_per_report``: hallucinated pieces / reports, can exceed 1 (the paper's words);
    ``ehr_per_evidence``: hallucinated pieces / pieces.
    """

    ehr_report_share: float | None
    ehr_per_report: float | None
    ehr_per_evidence: float | None


def hallucination_rates(reports: Sequence[JudgedReport]) -> HallucinationRates:
    """All three readings of EHR."""
    hallucinated = [sum(i.hallucination is not None for i in r.evidence) for r in reports]
    pieces = sum(len(report.evidence) for report in reports)
    return HallucinationRates(
        ehr_report_share=_ratio(sum(map(bool, hallucinated)), len(reports)),
        ehr_per_report=_ratio(sum(hallucinated), len(reports)),
        ehr_per_evidence=_ratio(sum(hallucinated), pieces),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelMetrics:
    """Accuracy, and the unweighted means of precision, recall and F1 over the two verdicts."""

    n: int
    accuracy: float | None
    macro_precision: float | None
    macro_recall: float | None
    macro_f1: float | None


def label_metrics(truths: Sequence[Verdict], predictions: Sequence[Verdict | None]) -> LabelMetrics:
    """Accuracy and macro P, R, F1 over SUPPORTED and REFUTED.

    Abstaining (NOT ENOUGH INFORMATION) or giving no verdict (None) is a miss of the true class
    and a false alarm of neither. A verdict that is never predicted has precision 0. A verdict
    that is never true has no recall; the macro values are then None.

    Raises:
        InvalidArgument: the two sequences differ in length.
    """
    if len(truths) != len(predictions):
        message = f"{len(truths)} truths and {len(predictions)} predictions"
        raise InvalidArgument(f"{message}; give one prediction for each truth")
    hits = sum(truth is guess for truth, guess in zip(truths, predictions, strict=True))
    accuracy = _ratio(hits, len(truths))
    n = len(truths)
    if any(verdict not in truths for verdict in CLASSES):
        return LabelMetrics(
            n=n, accuracy=accuracy, macro_precision=None, macro_recall=None, macro_f1=None
        )
    precisions, recalls, f1s = [], [], []
    for verdict in CLASSES:
        right = sum(t is verdict is p for t, p in zip(truths, predictions, strict=True))
        true, predicted = truths.count(verdict), predictions.count(verdict)
        precisions.append(right / predicted if predicted else 0.0)
        recalls.append(right / true)
        f1s.append(2 * right / (true + predicted))
    return LabelMetrics(
        n=n,
        accuracy=accuracy,
        macro_precision=fmean(precisions),
        macro_recall=fmean(recalls),
        macro_f1=fmean(f1s),
    )


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
