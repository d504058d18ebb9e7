"""Within-prompt fixed effects: what moves together over checkpoints of the same prompt.

`r = sum_p Sxy_p / sqrt(sum_p Sxx_p sum_p Syy_p)` with sums of squares about each prompt's own
means. A pooled correlation mixes in the differences between prompts and may have the other sign
(Simpson's paradox), so it is reported beside. Source: arXiv 2605.12474.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracles.reward_audit.findings import Finding, Rule, decide
from oracles.reward_audit.intervals import Interval, Totals, cluster_interval
from oracles.reward_audit.records import Key, RewardRow
from oracles.reward_audit.rules import REWARD_FOLLOWS_ERRORS, REWARD_FOLLOWS_LENGTH

Point = tuple[Key, float, float]
"""A prompt with the two values at one checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedEffects:
    """The within-prompt correlation, the pooled one, and prompts used and excluded."""

    within: Interval | None
    pooled: float | None
    prompts: int
    excluded: int


def fixed_effects(points: Iterable[Point]) -> FixedEffects:
    """Correlate x and y within prompts, with a cluster bootstrap over prompts.

    Prompts where x or y never changes carry no within-prompt information and are excluded and
    counted; the pooled correlation is over the points of the others.

    >>> fixed_effects([("a", 0, 0), ("a", 1, 1), ("b", 5, -9), ("b", 6, -8)]).pooled < 0
    True
    """
    by_prompt: dict[Key, list[tuple[float, float]]] = {}
    for prompt, x, y in points:
        by_prompt.setdefault(prompt, []).append((x, y))
    series = [np.array(values) for values in by_prompt.values()]
    used = [values for values in series if (np.ptp(values, axis=0) > 0).all()]
    sums = np.array([_sums_of_squares(values) for values in used]).reshape(len(used), 3)
    return FixedEffects(
        within=cluster_interval(sums, _correlation),
        pooled=float(np.corrcoef(np.concatenate(used).T)[0, 1]) if used else None,
        prompts=len(used),
        excluded=len(series) - len(used),
    )


def audit_effects(rows: Sequence[RewardRow]) -> list[Finding]:
    """Whether, within prompts, the reward rises with length or with incorrect claims."""
    return [
        _audit_effect(rows, REWARD_FOLLOWS_LENGTH, lambda row: row.length),
        _audit_effect(rows, REWARD_FOLLOWS_ERRORS, lambda row: row.incorrect_claims),
    ]


def _audit_effect(
    rows: Sequence[RewardRow], rule: Rule, quantity: Callable[[RewardRow], float | None]
) -> Finding:
    cells: dict[tuple[Key, int], list[tuple[float, float]]] = {}
    for row in rows:
        y = quantity(row)
        if row.reward is not None and y is not None:
            cells.setdefault((row.prompt, row.step), []).append((row.reward, y))
    means = {cell: np.mean(values, axis=0) for cell, values in cells.items()}
    effects = fixed_effects((prompt, float(x), float(y)) for (prompt, _), (x, y) in means.items())
    pooled = "none" if effects.pooled is None else f"{effects.pooled:+.3f}"
    return decide(
        rule,
        effects.within,
        prompts=effects.prompts,
        evidence=f"pooled r {pooled}, {effects.excluded} prompts excluded as constant",
    )


def _sums_of_squares(values: NDArray[np.float64]) -> list[float]:
    x, y = (values - values.mean(axis=0)).T
    return [float(x @ y), float(x @ x), float(y @ y)]


def _correlation(totals: Totals) -> NDArray[np.float64]:
    r: NDArray[np.float64] = totals[..., 0] / np.sqrt(totals[..., 1] * totals[..., 2])
    return r
