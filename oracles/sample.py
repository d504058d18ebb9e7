"""Estimates from assessed episodes, with the case as the unit of chance.

    mean  = Σ_c w_c Σ_i x_ci / Σ_c w_c n_c          share = the same for x in {0, 1}

Rollouts of one case are not independent: intervals of means resample cases (percentile
bootstrap), intervals of shares are Wilson's with the effective number of cases
(Σ w)² / Σ w² in the place of n. Where a set fixes the shares of the risk groups, w re-weights
them to their prevalence. Values that do not exist (None) leave the denominator and are counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import stats

from oracles.assessment import Assessment

CONFIDENCE = 0.95
RESAMPLES = 1000
STRATIFIED_SPLITS = frozenset({"validation", "test"})
Floats = npt.NDArray[np.float64]
Column = Callable[[Assessment], float | bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean or share with its 95 % interval.

    value, low, high: None where nothing could be counted; the interval is None with one case.
    n: episodes in the denominator. n_cases: their cases. missing: episodes without the value.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int
    n_cases: int
    missing: int = 0

    def __str__(self) -> str:
        if self.value is None:
            return "-"
        if self.low is None or self.high is None:
            return f"{self.value:+.3f}"
        return f"{self.value:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def wilson(share: float, n: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson's score interval for a share of n trials; n may be an effective, fractional number.

    >>> tuple(round(x, 3) for x in wilson(0.5, 2))
    (0.095, 0.905)
    """
    z = float(stats.norm.ppf(0.5 + confidence / 2))
    center = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    low = 0.0 if share == 0.0 else max(0.0, center - half)
    return low, 1.0 if share == 1.0 else min(1.0, center + half)


@dataclass(frozen=True)
class Sample:
    """Assessed episodes of one policy on one set.

    prevalence: P(risk group), to re-weight stratified sets; empty for none.
    """

    rows: tuple[Assessment, ...]
    prevalence: Mapping[str, float]

    @cached_property
    def cases(self) -> tuple[str, ...]:
        """Names of the cases, in order of appearance."""
        return tuple(dict.fromkeys(row.case for row in self.rows))

    @cached_property
    def case_of(self) -> npt.NDArray[np.intp]:
        """Position of each row's case."""
        position = {case: i for i, case in enumerate(self.cases)}
        return np.array([position[row.case] for row in self.rows], dtype=np.intp)

    @cached_property
    def stratified(self) -> bool:
        """Whether every row comes from a set whose group shares are fixed by design."""
        refs = [row.episode.case for row in self.rows]
        known = bool(self.prevalence) and all(row.group is not None for row in self.rows)
        return known and all(ref is not None and ref.split in STRATIFIED_SPLITS for ref in refs)

    @cached_property
    def weights(self) -> Floats:
        """Weight of each case: prevalence of its group over the group's share of the cases."""
        if not self.stratified:
            return np.ones(len(self.cases))
        group_of = {row.case: row.group for row in self.rows}
        groups = [group_of[case] for case in self.cases]
        share = {group: groups.count(group) / len(groups) for group in set(groups)}
        return np.array([self.prevalence[str(group)] / share[group] for group in groups])

    def where(self, keep: Callable[[Assessment], bool]) -> Sample:
        """The rows that pass, as a sample."""
        return Sample(tuple(row for row in self.rows if keep(row)), self.prevalence)

    def mean(self, column: Column) -> Estimate:
        """Mean of a column with its bootstrap interval."""
        sums, counts, missing = self._per_case(column)
        return _estimate(sums, counts, self.weights, missing, _bootstrap)

    def share(self, column: Column, of: Callable[[Assessment], bool] | None = None) -> Estimate:
        """Share of a yes/no column, among the rows that pass `of`, with Wilson's interval."""
        column = column if of is None else _among(column, of)
        sums, counts, missing = self._per_case(column)
        excluded = 0 if of is None else sum(not of(row) for row in self.rows)
        return _estimate(sums, counts, self.weights, missing - excluded, _wilson_interval)

    def ratio(self, numerator: Column, denominator: Column) -> Estimate:
        """Σ numerator / Σ denominator over the rows that have both, with its bootstrap interval.

        Where every case has the same ratio the interval has no width.
        """
        sums, _, missing = self._per_case(numerator)
        counts, _, _ = self._per_case(
            lambda row: None if numerator(row) is None else denominator(row)
        )
        return _estimate(sums, counts, self.weights, missing, _bootstrap)

    def per_case(self, column: Column) -> dict[str, float]:
        """Mean of a column in each case that has it."""
        sums, counts, _ = self._per_case(column)
        return {
            case: float(sums[i] / counts[i]) for i, case in enumerate(self.cases) if counts[i] > 0
        }

    def _per_case(self, column: Column) -> tuple[Floats, Floats, int]:
        values = np.array([_number(column(row)) for row in self.rows])
        known = ~np.isnan(values)
        size = len(self.cases)
        at = self.case_of[known]
        sums = np.asarray(np.bincount(at, weights=values[known], minlength=size), dtype=np.float64)
        counts = np.asarray(np.bincount(at, minlength=size), dtype=np.float64)
        return sums, counts, int((~known).sum())


def paired_difference(ours: Sample, theirs: Sample, column: Column) -> Estimate:
    """Mean over shared cases of (our case mean - their case mean), with its bootstrap interval.

    Episodes that name no case are paired with none.
    """
    ours, theirs = (part.where(lambda row: row.episode.case is not None) for part in (ours, theirs))
    a, b = ours.per_case(column), theirs.per_case(column)
    shared = [case for case in ours.cases if case in a and case in b]
    keep = set(shared)
    part = ours.where(lambda row: row.case in keep)
    differences = np.array([a[case] - b[case] for case in part.cases])
    return _estimate(differences, np.ones(len(shared)), part.weights, 0, _bootstrap)


Interval = Callable[[Floats, Floats, Floats], tuple[float, float]]


def _estimate(
    sums: Floats, counts: Floats, weights: Floats, missing: int, interval: Interval
) -> Estimate:
    used = counts > 0
    sums, counts, weights = sums[used], counts[used], weights[used]
    n, n_cases = int(counts.sum()), len(sums)
    total = float(weights @ counts)
    if total <= 0.0:
        return Estimate(value=None, n=n, n_cases=n_cases, missing=missing)
    value = float(weights @ sums) / total
    low = high = None
    if n_cases > 1:
        low, high = interval(sums, counts, weights)
    return Estimate(value=value, low=low, high=high, n=n, n_cases=n_cases, missing=missing)


def _wilson_interval(sums: Floats, counts: Floats, weights: Floats) -> tuple[float, float]:
    share = float(weights @ sums) / float(weights @ counts)
    mass = weights * counts
    return wilson(min(1.0, share), float(mass.sum() ** 2 / (mass @ mass)))


def _bootstrap(sums: Floats, counts: Floats, weights: Floats) -> tuple[float, float]:
    def ratio(top: Floats, bottom: Floats, axis: int = -1) -> Floats:
        return np.asarray(top.sum(axis=axis) / bottom.sum(axis=axis))

    order = np.lexsort((weights, counts, sums))  # cases in any order have the same interval
    result = stats.bootstrap(
        ((weights * sums)[order], (weights * counts)[order]),
        ratio,
        paired=True,
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=max(1, 2_000_000 // len(sums)),
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    interval = result.confidence_interval
    return float(interval.low), float(interval.high)


def _among(column: Column, of: Callable[[Assessment], bool]) -> Column:
    return lambda row: column(row) if of(row) else None


def _number(value: float | bool | None) -> float:
    return math.nan if value is None else float(value)


def unbiased_any(n: int, c: int, k: int) -> float:
    """P(some of k rollouts succeed) from c of n: 1 - C(n-c, k) / C(n, k) (Chen et al. 2021)."""
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def unbiased_all(n: int, c: int, k: int) -> float:
    """P(all of k rollouts succeed) from c of n: C(c, k) / C(n, k)."""
    return math.comb(c, k) / math.comb(n, k)


def successes(rows: Sequence[Assessment]) -> tuple[int, int]:
    """Scored rollouts, and oracle-grade ones among them."""
    graded = [row.oracle_grade for row in rows if row.oracle_grade is not None]
    return len(graded), sum(graded)
