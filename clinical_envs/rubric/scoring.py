"""Rewards from the verdicts on a rubric's criteria.

A rubric is a sequence of signed weights `w`, its verdicts a sequence of `met` of the same length.
A criterion of negative weight earns its credit by *not* being met. Weights are in points, rewards
have no unit. Sources: arXiv 2605.12474; HealthBench's published scoring code.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import overload

from clinical_envs.errors import InvalidArgument
from clinical_envs.rubric.consensus import Verdict, unanimous_met


def credit(weight: float, met: Verdict) -> Verdict:
    """`met` for a weight >= 0, `not met` for a negative one; unscored stays unscored.

    >>> credit(5, True), credit(-5, True), credit(-5, None)
    (True, False, None)
    """
    if met is None:
        return None
    return met if weight >= 0 else not met


@overload
def rubric_reward(weights: Sequence[float], met: Sequence[bool]) -> float: ...
@overload
def rubric_reward(weights: Sequence[float], met: Sequence[Verdict]) -> float | None: ...
def rubric_reward(weights: Sequence[float], met: Sequence[Verdict]) -> float | None:
    """`R = [sum_{w>0} w g + sum_{w<0} |w| (1 - g)] / sum |w|`, in [0, 1].

    With the training verifier's verdicts this is `R_proxy`. A criterion of weight 0 changes
    nothing. One unscored criterion of another weight leaves the whole reward unscored: leaving
    it out would grade the answer on an easier rubric.

    >>> rubric_reward([10, 7, -8], [True, False, True])
    0.4
    >>> rubric_reward([10, 7, -8], [True, None, True]) is None
    True

    Raises:
        InvalidArgument: empty rubric, no weight other than 0, a weight that is not finite, or
            another number of verdicts than of weights.
    """
    _require_rubric(weights, met)
    total = math.fsum(abs(weight) for weight in weights)
    if total == 0:
        raise InvalidArgument("every weight of the rubric is 0; give one criterion a weight")
    if _unscored(weights, met):
        return None
    earned = math.fsum(
        abs(weight) for weight, g in zip(weights, met, strict=True) if credit(weight, g)
    )
    return earned / total


@overload
def reference_reward(weights: Sequence[float], panel: Sequence[Sequence[bool]]) -> float: ...
@overload
def reference_reward(
    weights: Sequence[float], panel: Sequence[Sequence[Verdict]]
) -> float | None: ...
def reference_reward(weights: Sequence[float], panel: Sequence[Sequence[Verdict]]) -> float | None:
    """`R_ref`: `rubric_reward` of the unanimous verdicts, `panel[k]` the votes on criterion k.

    Unanimity is asked of "met", so it is severe on positive weights and lenient on negative ones.

    >>> reference_reward([2, 1], [[True, True, True], [True, True, False]])
    0.6666666666666666

    Raises:
        InvalidArgument: as `rubric_reward`, or a criterion without votes.
    """
    return rubric_reward(weights, [unanimous_met(votes) for votes in panel])


def healthbench_score(weights: Sequence[float], met: Sequence[Verdict]) -> float | None:
    """`sum_{met} w / sum_{w>0} w`: the published score of one answer, at most 1, not clipped.

    Unscored (`None`) without a positive weight, where the quotient has no denominator, and where
    the verdict on a criterion of weight other than 0 is missing.

    >>> round(healthbench_score([10, 7, -8], [True, False, True]), 4)
    0.1176

    Raises:
        InvalidArgument: empty rubric, a weight that is not finite, or another number of verdicts
            than of weights.
    """
    _require_rubric(weights, met)
    positive = math.fsum(weight for weight in weights if weight > 0)
    if positive == 0 or _unscored(weights, met):
        return None
    return math.fsum(w for w, g in zip(weights, met, strict=True) if g) / positive


def healthbench_flipped(weights: Sequence[float], met: Sequence[Verdict]) -> float | None:
    """HealthBench with negative criteria turned round, denominator `P + N`: it *is* `R`.

    `P` and `N` are the sums of the positive and of the absolute negative points. Defined for a
    rubric of negative points only, where `healthbench_score` is not.

    >>> healthbench_flipped([-8, -2], [False, True])
    0.8

    Raises:
        InvalidArgument: as `rubric_reward`.
    """
    return rubric_reward(weights, met)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredMean:
    """A mean over what could be scored, beside the count of what could not."""

    mean: float | None
    scored: int
    unscored: int


def scored_mean(values: Iterable[float | None]) -> ScoredMean:
    """Mean of the values that are neither `None` nor NaN; `None` if there are none.

    >>> scored_mean([0.5, None, 1.0])
    ScoredMean(mean=0.75, scored=2, unscored=1)
    """
    everything = list(values)
    scored = [value for value in everything if value is not None and not math.isnan(value)]
    return ScoredMean(
        mean=math.fsum(scored) / len(scored) if scored else None,
        scored=len(scored),
        unscored=len(everything) - len(scored),
    )


def healthbench_mean(scores: Iterable[float | None]) -> ScoredMean:
    """Mean score of many answers, clipped to [0, 1]; the single scores are not clipped.

    >>> healthbench_mean([-1.0, 0.5]).mean, healthbench_mean([-0.5, 1.0]).mean
    (0.0, 0.25)
    """
    average = scored_mean(scores)
    if average.mean is None:
        return average
    clipped = min(1.0, max(0.0, average.mean))
    return ScoredMean(mean=clipped, scored=average.scored, unscored=average.unscored)


def _unscored(weights: Sequence[float], met: Sequence[Verdict]) -> bool:
    return any(g is None and w != 0 for w, g in zip(weights, met, strict=True))


def _require_rubric(weights: Sequence[float], met: Sequence[Verdict]) -> None:
    if not weights:
        raise InvalidArgument("the rubric is empty and has no reward; leave its prompt out")
    if len(weights) != len(met):
        raise InvalidArgument(
            f"{len(weights)} weights but {len(met)} verdicts; give one verdict per criterion"
        )
    if not all(math.isfinite(weight) for weight in weights):
        raise InvalidArgument(f"a weight is not finite in {list(weights)}; give numbers")
