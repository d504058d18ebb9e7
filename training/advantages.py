"""Group-relative advantages, of episodes and of single turns.

    A_i = (R_i - mean_g R) / (sd + 1e-4)    scale group: sd of the group; batch: of all rewards
    A_i = R_i - mean_g R                    scale none

A group holds the rollouts of one case; sd divides by n - 1, as TRL's does. A rollout without a
reward (NaN) gets advantage 0 and leaves the statistics; equal rewards give advantage 0.
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
    mean = np.where(known, rewards, 0.0).sum(axis=1, keepdims=True) / np.maximum(counts, 1)
    return np.asarray(np.where(known, rewards - mean, 0.0) / _width(rewards, scale))


def turn_advantages(
    turn_rewards: Sequence[Sequence[Sequence[float]]], scale: Scale
) -> list[list[list[float]]]:
    """Advantages of every turn, from its reward-to-go against the group's mean at that turn.

    turn_rewards: groups of rollouts of turns. A turn is compared with the same turn of those
    rollouts that got as far; the spread is that of the episode sums, as for whole episodes.
    """
    widths = _width(np.array([[sum(turns) for turns in group] for group in turn_rewards]), scale)
    result = []
    for group, width in zip(turn_rewards, widths[:, 0].tolist(), strict=True):
        to_go = [list(np.cumsum(turns[::-1])[::-1]) for turns in group]
        longest = max(len(turns) for turns in to_go)
        means = [
            float(np.mean([turns[t] for turns in to_go if t < len(turns)])) for t in range(longest)
        ]
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


def _width(rewards: Floats, scale: Scale) -> Floats:
    """What each group's centred rewards are divided by, (groups, 1)."""
    if scale == "none":
        return np.ones((len(rewards), 1))
    pools = rewards if scale == "group" else rewards.reshape(1, -1)
    known = ~np.isnan(pools)
    counts = known.sum(axis=1, keepdims=True)
    mean = np.where(known, pools, 0.0).sum(axis=1, keepdims=True) / np.maximum(counts, 1)
    squares = np.where(known, (pools - mean) ** 2, 0.0).sum(axis=1, keepdims=True)
    deviation = np.sqrt(squares / np.maximum(counts - 1, 1))
    return np.asarray(np.broadcast_to(deviation, (len(rewards), 1)) + _EPSILON)
