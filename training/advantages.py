"""Group-relative advantages, of episodes and of single turns.

    A_i = (R_i - mean_g R) / (sd + 1e-4),   sd over the group, over the batch, or 1

A group holds the rollouts of one case. A rollout without a reward (NaN) gets advantage 0 and
leaves the statistics; equal rewards give advantage 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Scale = Literal["group", "batch", "none"]
_EPSILON = 1e-4


def advantages(rewards: Floats, scale: Scale) -> Floats:
    """Advantages of rewards (groups, rollouts), the same shape."""
    known = ~np.isnan(rewards)
    counts = known.sum(axis=1, keepdims=True)
    filled = np.where(known, rewards, 0.0)
    mean = filled.sum(axis=1, keepdims=True) / np.maximum(counts, 1)
    centered = np.where(known, rewards - mean, 0.0)
    return np.asarray(centered / (_spread(centered, known, scale) + _EPSILON))


def turn_advantages(
    turn_rewards: Sequence[Sequence[Sequence[float]]], scale: Scale
) -> list[list[list[float]]]:
    """Advantages of every turn, from its reward-to-go against the group's mean at that turn.

    turn_rewards: groups of rollouts of turns. A turn is compared with the same turn of those
    rollouts that got as far; the spread is that of the episode sums, as for whole episodes.
    """
    sums = np.array([[sum(turns) for turns in group] for group in turn_rewards])
    centered = sums - sums.mean(axis=1, keepdims=True)
    spread = _spread(centered, np.ones_like(centered, dtype=bool), scale) + _EPSILON
    result = []
    for g, group in enumerate(turn_rewards):
        to_go = [list(np.cumsum(turns[::-1])[::-1]) for turns in group]
        longest = max(len(turns) for turns in to_go)
        means = [
            float(np.mean([turns[t] for turns in to_go if t < len(turns)])) for t in range(longest)
        ]
        width = float(np.broadcast_to(spread, centered.shape)[g, 0])
        result.append(
            [[(value - means[t]) / width for t, value in enumerate(turns)] for turns in to_go]
        )
    return result


def same_utility_share(utilities: Floats) -> float:
    """Share of groups (rows) whose rollouts all end with the same utility.

    With group scaling such a group only pushes towards asking less, so the share predicts
    collapse.
    """
    return float((np.ptp(utilities, axis=1) < 1e-12).mean())


def _spread(centered: Floats, known: npt.NDArray[np.bool_], scale: Scale) -> Floats:
    if scale == "none":
        return np.ones((len(centered), 1))
    squares = np.where(known, centered**2, 0.0)
    if scale == "batch":
        return np.full((len(centered), 1), np.sqrt(squares.sum() / max(1, known.sum())))
    return np.asarray(
        np.sqrt(
            squares.sum(axis=1, keepdims=True) / np.maximum(1, known.sum(axis=1, keepdims=True))
        )
    )
