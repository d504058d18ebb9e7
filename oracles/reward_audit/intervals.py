"""95 % intervals that respect prompts: rows of one prompt are alike and are resampled together.

Every statistic here is a function of sums over prompts, so a bootstrap resample is a vector of
multinomial prompt counts times the matrix of per-prompt sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

RESAMPLES = 1000
_UNDEFINED_SHARE = 0.05

Totals = NDArray[np.float64]
Statistic = Callable[[Totals], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float


def cluster_interval(sums: Totals, statistic: Statistic, *, seed: int = 0) -> Interval | None:
    """Percentile cluster bootstrap (1,000 resamples) of a function of summed rows.

    Args:
        sums: shape (prompts, k), what each prompt adds to the totals.
        statistic: maps totals of shape (..., k) to values of shape (...), NaN where undefined.
        seed: of the resamples.

    Returns:
        `None` if the statistic is undefined on the data or on more than 5 % of the resamples.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(statistic(sums.sum(axis=0)))
        prompts = len(sums)
        if not prompts or np.isnan(value):
            return None
        generator = np.random.default_rng(seed)
        counts = generator.multinomial(prompts, np.full(prompts, 1 / prompts), size=RESAMPLES)
        resampled = statistic(counts @ sums)
    defined = resampled[~np.isnan(resampled)]
    if len(defined) < (1 - _UNDEFINED_SHARE) * RESAMPLES:
        return None
    low, high = np.percentile(defined, [2.5, 97.5])
    return Interval(value, float(low), float(high))


def share_interval(
    hits: NDArray[np.float64], rows: NDArray[np.float64], *, seed: int = 0
) -> Interval | None:
    """Interval of `sum hits / sum rows`, both of shape (prompts,); a row adds 0 to 1 to the hits.

    Where no row or every row is a hit, resampling finds no spread; the exact binomial interval of
    the rows takes over.
    """
    hit, total = float(hits.sum()), int(rows.sum())
    if total and hit in (0, total):
        exact = binomtest(int(hit), total).proportion_ci(0.95, method="exact")
        return Interval(hit / total, float(exact.low), float(exact.high))
    return cluster_interval(np.column_stack([hits, rows]), ratio, seed=seed)


def ratio(totals: Totals) -> NDArray[np.float64]:
    """`t0 / t1` of totals of shape (..., 2); NaN for 0 / 0."""
    return totals[..., 0] / totals[..., 1]


def ratio_change(totals: Totals) -> NDArray[np.float64]:
    """`t2 / t3 - t0 / t1` of totals of shape (..., 4): the change from a first ratio to a last."""
    return totals[..., 2] / totals[..., 3] - totals[..., 0] / totals[..., 1]
