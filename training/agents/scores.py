"""What a method is worth on a file of claims, with 95 % intervals over claims.

Label metrics are those of `clinical_envs.factcheck.metrics`. A claim without a verdict is scored,
as a miss; one that an outage left unscored is counted and stands in no mean; one without a label
stands in all means but those of labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clinical_envs.factcheck.metrics import CLASSES
from clinical_envs.factcheck.verdict import Verdict
from oracles.reward_audit.intervals import Interval, cluster_interval, ratio, share_interval
from training.agents.claims_run import Row

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Values with their intervals; None where the claims cannot give one.

    labelled: scored claims with a label. macro_*: over SUPPORTED and REFUTED. hallucinated,
    distorted: shares of cited pieces; reports_hallucinated: share of reports with such a piece.
    searches, requests: a claim. tokens: of all claims; None where the endpoint counted none.
    """

    n: int
    unscored: int
    labelled: int
    accuracy: Interval | None
    macro_precision: Interval | None
    macro_recall: Interval | None
    macro_f1: Interval | None
    abstained: Interval | None
    no_verdict: Interval | None
    pieces: int
    hallucinated: Interval | None
    reports_hallucinated: Interval | None
    distorted: Interval | None
    searches: Interval | None
    requests: Interval | None
    prompt_tokens: int | None
    completion_tokens: int | None


def score_rows(rows: Sequence[Row]) -> Scores:
    """Score the rows of one method, one row a claim."""
    scored = [row for row in rows if row.unscored is None]
    ones = np.ones(len(scored))
    pieces = _column(len(row.citations) for row in scored)
    hallucinated = _column(
        sum(c.hallucination is not None for c in row.citations) for row in scored
    )
    distorted = _column(sum(bool(c.distortions) for c in row.citations) for row in scored)
    labelled = [row for row in scored if row.label is not None]
    right = _column(row.verdict is row.label for row in labelled)
    confusion = _confusion(labelled)
    return Scores(
        n=len(scored),
        unscored=len(rows) - len(scored),
        labelled=len(labelled),
        accuracy=share_interval(right, np.ones(len(labelled))),
        macro_precision=cluster_interval(confusion, _macro_precision),
        macro_recall=cluster_interval(confusion, _macro_recall),
        macro_f1=cluster_interval(confusion, _macro_f1),
        abstained=share_interval(
            _column(row.verdict is Verdict.NOT_ENOUGH_INFO for row in scored), ones
        ),
        no_verdict=share_interval(_column(row.verdict is None for row in scored), ones),
        pieces=int(pieces.sum()),
        hallucinated=share_interval(hallucinated, pieces),
        reports_hallucinated=share_interval((hallucinated > 0).astype(float), ones)
        if pieces.any()
        else None,
        distorted=share_interval(distorted, pieces),
        searches=_mean(_column(row.n_searches for row in scored)),
        requests=_mean(_column(row.spent.requests for row in scored)),
        prompt_tokens=_total([row.spent.prompt_tokens for row in scored]),
        completion_tokens=_total([row.spent.completion_tokens for row in scored]),
    )


def _column(values: Any) -> Floats:
    return np.array([float(value) for value in values])


def _mean(values: Floats) -> Interval | None:
    return cluster_interval(np.column_stack([values, np.ones(len(values))]), ratio)


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _confusion(rows: Sequence[Row]) -> Floats:
    """Shape (claims, 2, 3): for each class, whether the claim is right, true and predicted."""
    return np.array(
        [
            [
                (row.label is row.verdict is label, row.label is label, row.verdict is label)
                for label in CLASSES
            ]
            for row in rows
        ],
        dtype=np.float64,
    ).reshape(len(rows), 2 * 3)


def _parts(totals: Floats) -> tuple[Floats, Floats, Floats]:
    """Right, true and predicted of totals of shape (..., 6), each of shape (..., 2)."""
    by_class = totals.reshape(*totals.shape[:-1], 2, 3)
    return by_class[..., 0], by_class[..., 1], by_class[..., 2]


def _macro_precision(totals: Floats) -> Floats:
    right, true, predicted = _parts(totals)
    values = np.where(predicted > 0, right / np.maximum(predicted, 1), 0.0)
    return _mean_of_classes(np.where((true > 0).all(axis=-1, keepdims=True), values, np.nan))


def _macro_recall(totals: Floats) -> Floats:
    right, true, _ = _parts(totals)
    return _mean_of_classes(right / true)


def _macro_f1(totals: Floats) -> Floats:
    right, true, predicted = _parts(totals)
    return _mean_of_classes(np.where(true > 0, 2 * right / (true + predicted), np.nan))


def _mean_of_classes(values: Floats) -> Floats:
    mean: Floats = values.mean(axis=-1)
    return mean
