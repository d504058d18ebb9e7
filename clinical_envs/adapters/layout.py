"""How an information state becomes arrays. One place, for the single and the vector environment."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from clinical_envs.belief import InfoState
from clinical_envs.task import Task

FloatArray = npt.NDArray[np.float32]
MaskArray = npt.NDArray[np.int8]


class Layout:
    """Positions of a task's findings, families and decisions in actions and observations.

    Actions, with Q findings and D decisions: 0, ..., Q-1 ask for a finding; Q, ..., Q+D-1 commit
    to a decision.

    Observations, with F families, a vector of Q + F + 1 numbers:

        [0, Q)      each finding: -1 absent, 0 not known, +1 present
        [Q, Q+F)    the family, one-hot
        Q+F         turns left / turn cap
    """

    def __init__(self, task: Task) -> None:
        self.findings = len(task.findings)
        self.actions = self.findings + len(task.decisions)
        self.width = self.findings + len(task.families) + 1
        self.turns = (np.arange(task.turn_cap + 1) / task.turn_cap).astype(np.float32)

    def observation_space(self) -> spaces.Box[np.float32]:
        """Every observation lies in [-1, 1]."""
        return spaces.Box(-1.0, 1.0, (self.width,), np.float32)

    def action_space(self) -> spaces.Discrete:
        """Asks first, then commits."""
        return spaces.Discrete(self.actions)

    def observation(self, info: InfoState) -> FloatArray:
        """A new array, shape (Q + F + 1,)."""
        observation = np.zeros(self.width, np.float32)
        for finding, present in info.seen():
            observation[finding] = 1.0 if present else -1.0
        observation[self.findings + info.family] = 1.0
        observation[-1] = self.turns[info.turns_left]
        return observation

    def action_mask(self, info: InfoState) -> MaskArray:
        """A new array, shape (Q + D,): 0 where an action can never be useful, else 1.

        Hidden are findings already seen, and on the last turn every ask: they are legal, and
        charged. A commit is never hidden.
        """
        mask = np.ones(self.actions, np.int8)
        if info.turns_left <= 1:
            mask[: self.findings] = 0
        for finding, _ in info.seen():
            mask[finding] = 0
        return mask
