"""One row of the study: a number over seeds with its interval, and what it says about a bar.

    value = mean over seeds x_s,   interval = value ± t(.975, S - 1) · sd(x) / √S

The seed is the unit of chance: cases and rollouts are averaged within it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from oracles.sample import CONFIDENCE

MET, NOT_MET, UNCLEAR, MEASURED, SKIPPED = "met", "not met", "UNCLEAR", "measured", "SKIPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean over seeds."""

    value: float | None
    low: float | None
    high: float | None
    values: tuple[float, ...] = ()


Verdict = Callable[[Interval], str] | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What `study.json` lists.

    value, low, high: mean over seeds and its 95 % interval, None where nothing was played or one
    seed makes no interval. n: episodes, or logged steps, behind it. verdict: of the bar, or
    `measured` where there is none.
    """

    question: str
    task: str
    arm: str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    seeds: int
    n: int
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Where a row belongs."""

    question: str
    task: str
    arm: str

    def row(
        self,
        metric: str,
        by_seed: Mapping[int, float],
        n: int,
        verdict: Verdict = MEASURED,
    ) -> Row:
        """One row from one number a seed."""
        found = over_seeds(list(by_seed.values()))
        if found.value is None:
            said = SKIPPED
        else:
            said = verdict if isinstance(verdict, str) else verdict(found)
        return Row(
            question=self.question,
            task=self.task,
            arm=self.arm,
            metric=metric,
            value=found.value,
            low=found.low,
            high=found.high,
            seeds=len(by_seed),
            n=n,
            verdict=said,
        )


def exact(cell: Cell, metric: str, value: float) -> Row:
    """A row of a number that no seed has a part in."""
    return replace(cell.row(metric, {0: value}, 0), seeds=0)


def over_seeds(values: list[float]) -> Interval:
    """Mean and t interval.

    >>> over_seeds([1.0, 2.0, 3.0]).value
    2.0
    >>> over_seeds([1.0]).low is None
    True
    """
    if not values:
        return Interval(value=None, low=None, high=None)
    mean, size = float(np.mean(values)), len(values)
    if size == 1:
        return Interval(value=mean, low=None, high=None, values=tuple(values))
    error = float(np.std(values, ddof=1)) / size**0.5
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, size - 1)) * error
    return Interval(value=mean, low=mean - half, high=mean + half, values=tuple(values))


def within(low: float, high: float) -> Callable[[Interval], str]:
    """Met where every seed lies in [low, high]."""
    return lambda found: MET if all(low <= x <= high for x in found.values) else NOT_MET


def above_zero(found: Interval) -> str:
    """Met where the interval lies above zero, not met where it lies below, else UNCLEAR."""
    if found.low is None or found.high is None:
        return UNCLEAR
    return MET if found.low > 0.0 else NOT_MET if found.high < 0.0 else UNCLEAR


def below_zero(found: Interval) -> str:
    """`above_zero` of the negated difference."""
    flipped = {MET: NOT_MET, NOT_MET: MET, UNCLEAR: UNCLEAR}
    return flipped[above_zero(found)]


def not_above_zero(found: Interval) -> str:
    """Not met only where the interval lies above zero."""
    if found.low is None:
        return UNCLEAR
    return NOT_MET if found.low > 0.0 else MET
