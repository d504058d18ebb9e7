"""The early and the late part of a run, and sums per prompt over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracles.reward_audit.records import Key


@dataclass(frozen=True, slots=True)
class Phases:
    """The first and the last quarter of the recorded steps, one step at least in each.

    With a single step the two phases are the same and no change can be measured.
    """

    early: frozenset[int]
    late: frozenset[int]

    @property
    def differ(self) -> bool:
        """Whether the run has an early and a late part at all."""
        return self.early.isdisjoint(self.late)


def phases(steps: Iterable[int]) -> Phases:
    """Split the distinct steps of a run.

    >>> phases([0, 25, 50, 25]).late
    frozenset({50})
    """
    ordered = sorted(set(steps))
    size = max(1, len(ordered) // 4)
    return Phases(frozenset(ordered[:size]), frozenset(ordered[-size:]))


def stack(sums: Mapping[Key, Sequence[float]], width: int) -> NDArray[np.float64]:
    """Per-prompt sums as an array of shape (prompts, width)."""
    return np.array(list(sums.values()), dtype=np.float64).reshape(len(sums), width)
