"""A calibrated checker: multinomial logistic regression on seven lexical features.

`P(label | x) = softmax(W x + b)`, fitted by penalised maximum likelihood, which also calibrates
it. It is trained in a fraction of a second wherever it is needed; no weights are shipped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from clinical_envs.checkedqa.checkers import (
    LABELS,
    Check,
    closest_sentence,
    polarity_differs,
    populations_differ,
)
from clinical_envs.checkedqa.cues import overlap, quantities_conflict, read_cues
from clinical_envs.checkedqa.pairs import Pair, written_pairs
from clinical_envs.errors import InvalidArgument

FEATURES = (
    "overlap",
    "polarity_differs",
    "evidence_negated",
    "quantities_conflict",
    "populations_differ",
    "evidence_hedged",
    "no_evidence",
)

_PENALTY = 1e-3
"""Of the squared weights per pair; keeps separable training sets from infinite weights."""


def features(claim: str, evidence: str) -> NDArray[np.float64]:
    """The seven features of a pair, in the order of `FEATURES`; all in [0, 1]."""
    asked = read_cues(claim)
    found = closest_sentence(asked, evidence)
    return np.array(
        [
            overlap(asked, found),
            polarity_differs(asked, found),
            found.negated,
            quantities_conflict(asked, found),
            populations_differ(asked, found),
            found.hedged and not asked.hedged,
            found.no_evidence != asked.no_evidence,
        ],
        dtype=np.float64,
    )


@dataclass(frozen=True, slots=True, eq=False)
class ClassifierChecker:
    """A fitted checker; `weights` has shape (labels, features + 1), the bias last."""

    weights: NDArray[np.float64]

    @property
    def name(self) -> str:
        """Name with a digest of the weights."""
        return f"logistic-{hashlib.sha256(self.weights.tobytes()).hexdigest()[:12]}"

    def check(self, claim: str, evidence: str) -> Check:
        """The most probable label and all three probabilities; this checker never fails."""
        design = np.append(features(claim, evidence), 1.0)
        entail, neutral, contradict = (float(p) for p in softmax(self.weights @ design))
        probs = (entail, neutral, contradict)
        return Check(LABELS[int(np.argmax(probs))], probs)


def fit(pairs: Sequence[Pair]) -> ClassifierChecker:
    """Fit the checker on labelled pairs.

    Raises:
        InvalidArgument: there are no pairs.
    """
    if not pairs:
        raise InvalidArgument("no pairs to fit the checker on; give labelled pairs")
    design, truth = _design(pairs)
    return ClassifierChecker(_fit_weights(design, truth))


@cache
def default_classifier() -> ClassifierChecker:
    """The checker fitted on 600 pairs written by the project (seed 0)."""
    return fit(written_pairs(np.random.default_rng(0), 600))


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Out-of-fold figures: accuracy, expected calibration error, predicted and true shares."""

    accuracy: float
    majority: float
    calibration_error: float
    predicted_shares: tuple[float, ...]
    true_shares: tuple[float, ...]


def cross_validate(pairs: Sequence[Pair], *, folds: int = 5, seed: int = 0) -> HeldOut:
    """Fit on all folds but one, predict that one, and score all predictions together.

    Raises:
        InvalidArgument: fewer than two folds or fewer pairs than folds.
    """
    if not 2 <= folds <= len(pairs):
        raise InvalidArgument(f"{folds} folds of {len(pairs)} pairs; give 2 folds or more")
    design, truth = _design(pairs)
    fold = np.random.default_rng(seed).permutation(len(pairs)) % folds
    probs = np.empty((len(pairs), len(LABELS)))
    for held_out in range(folds):
        weights = _fit_weights(design[fold != held_out], truth[fold != held_out])
        probs[fold == held_out] = softmax(design[fold == held_out] @ weights.T, axis=1)
    predicted = probs.argmax(axis=1)
    true_shares = np.bincount(truth, minlength=len(LABELS)) / len(truth)
    return HeldOut(
        accuracy=float((predicted == truth).mean()),
        majority=float(true_shares.max()),
        calibration_error=calibration_error(probs, truth),
        predicted_shares=tuple(
            (np.bincount(predicted, minlength=len(LABELS)) / len(truth)).tolist()
        ),
        true_shares=tuple(true_shares.tolist()),
    )


def calibration_error(
    probs: NDArray[np.float64], truth: NDArray[np.int64], *, bins: int = 10
) -> float:
    """`sum_b n_b / n |accuracy_b - confidence_b|` over equal bins of the largest probability."""
    confidence, hit = probs.max(axis=1), probs.argmax(axis=1) == truth
    bin_of = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = np.bincount(bin_of, weights=hit - confidence, minlength=bins)
    return float(np.abs(gaps).sum() / len(truth))


def _design(pairs: Sequence[Pair]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rows = np.array([features(pair.claim, pair.evidence) for pair in pairs])
    truth = np.array([LABELS.index(pair.label) for pair in pairs], dtype=np.int64)
    return np.column_stack([rows, np.ones(len(rows))]), truth


def _fit_weights(design: NDArray[np.float64], truth: NDArray[np.int64]) -> NDArray[np.float64]:
    shape = (len(LABELS), design.shape[1])
    target = np.eye(len(LABELS))[truth]

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = flat.reshape(shape)
        log_probs = log_softmax(design @ weights.T, axis=1)
        gradient = (np.exp(log_probs) - target).T @ design / len(truth) + _PENALTY * weights
        value = -(log_probs * target).sum() / len(truth) + _PENALTY / 2 * (weights**2).sum()
        return float(value), gradient.ravel()

    found = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B")
    weights: NDArray[np.float64] = found.x.reshape(shape)
    return weights
