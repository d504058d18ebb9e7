"""Group-relative advantages, of episodes and of single turns.

    A_i = (R_i - mean_g R) / (sd + 1e-4)    scale group: sd of the group; batch: of all rewards
    A_i = R_i - mean_g R                    scale none

A group holds the rollouts of one case; sd divides by n - 1, as TRL's does. A rollout without a
reward (NaN) gets advantage 0 and leaves the statistics; equal rewards give advantage 0.

The loss is a mean over tokens, or over the tokens of a turn, then the turns of a rollout, then the
rollouts (`turn_weights`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Scale = Literal["group", "batch", "none"]
_EPSILON = 1e-4
_EQUAL = 1e-9


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


def turn_weights(turns: Sequence[tuple[int, int]], width: int) -> Floats:
    """w_t = 1 / (turns * tokens of the turn) for a token of a turn, 0 elsewhere, (width,).

    The weighted sum of a rollout's token losses is the mean over its turns of the means over
    their tokens (EG-GRPO, arXiv 2608.23811), however long a turn is.

    >>> turn_weights([(0, 2), (3, 4)], 5).tolist()
    [0.25, 0.25, 0.0, 0.5, 0.0]
    """
    weights = np.zeros(width)
    for start, end in turns:
        weights[start:end] = 1.0 / (len(turns) * (end - start))
    return weights


def informative(rewards: Floats) -> npt.NDArray[np.bool_]:
    """Which rollouts, of rewards (groups, rollouts), a group has something to say about.

    Not those without a reward, and none where all known rewards are equal: what is left of their
    loss is the divergence from the start alone.
    """
    known = ~np.isnan(rewards)
    highest = np.where(known, rewards, -np.inf).max(axis=1, keepdims=True)
    lowest = np.where(known, rewards, np.inf).min(axis=1, keepdims=True)
    return np.asarray(known & (highest - lowest > _EQUAL))


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
