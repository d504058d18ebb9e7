"""The rules of `simulator.Encounter` in numpy, for n encounters at once.

    R = U[s][a] - c · n_charged

Tests compare every lane with the simulator, turn by turn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clinical_envs.adapters.layout import Layout
from clinical_envs.belief import initial_state
from clinical_envs.case import CaseSampler, IntArray, WordArray
from clinical_envs.task import Task

BoolArray = npt.NDArray[np.bool_]

_SHOWN = np.array([-1.0, 1.0], np.float32)  # an absent finding, a present one


class Lanes:
    """n encounters of one task.

    observation: (n, Q + F + 1) float32, mask: (n, Q + D) int8, as in `Layout`. Both are the
    working arrays; copy before handing them out.
    """

    def __init__(self, task: Task, n: int, rho: float) -> None:
        self.task, self.layout = task, Layout(task)
        self._sampler = CaseSampler(task, rho)
        asks, width, actions = self.layout.findings, self.layout.width, self.layout.actions
        # The last column, which decision -1 reaches, is the utility of running out of turns.
        self._utilities = np.column_stack([task.utility_matrix, task.no_decision_utility])
        self._state_names = np.array(task.state_ids, dtype=object)
        openings = [initial_state(task, family) for family in range(len(task.families))]
        self._opening = np.array([self.layout.observation(info) for info in openings])
        self._opening_mask = self.layout.action_mask(openings[0])
        # By action: the bit of the finding asked for, as in InfoState, and the cell of the
        # observation that is written. A commit has no bit, and writes the cell of the turns left.
        self._bit = np.zeros(actions, np.uint64)
        self._bit[:asks] = np.uint64(1) << np.arange(asks, dtype=np.uint64)
        self._cell = np.full(actions, width - 1)
        self._cell[:asks] = np.arange(asks)
        self._first_cell = np.arange(n) * width
        self._first_action = np.arange(n) * actions
        self._place = np.zeros(n, np.uint64)
        self._state = np.zeros(n, np.intp)
        self._situation = np.zeros(n, np.intp)
        self._asked = np.zeros(n, np.uint64)
        self._start_asked = np.zeros(n, np.uint64)
        self._left = np.zeros(n, np.intp)
        # Of the last turn: who asked, whose encounter ended, and the utility that was paid.
        self._asking = np.zeros(n, np.bool_)
        self._ended = np.zeros(0, np.intp)
        self._utility = np.zeros(n)
        self.observation = np.zeros((n, width), np.float32)
        self.mask = np.zeros((n, actions), np.int8)

    def deal(self, lanes: IntArray, keys: WordArray, indices: WordArray) -> None:
        """Start case `indices[i]` of stream `keys[i]` in lane `lanes[i]`."""
        place = self._sampler.place(keys, indices)
        family, state = self._sampler.opening(place)
        self._place[lanes] = place
        self._state[lanes] = state
        self._situation[lanes] = self._sampler.situation(family, state)
        self._left[lanes] = self.task.turn_cap
        self.observation[lanes] = self._opening.take(family, axis=0)
        self.mask[lanes] = self._opening_mask
        if self._sampler.rho > 0.0:
            self._reveal(lanes)
        self._asked[lanes] = self._start_asked[lanes]

    def _reveal(self, lanes: IntArray) -> None:
        asks, batch = self.layout.findings, self._sampler.draw(self._place[lanes])
        # In whole numbers: in floats an absent finding that is not shown would be -0.0, not 0.0.
        self.observation[lanes, :asks] = (batch.answers.view(np.int8) * 2 - 1) * batch.revealed
        self.mask[lanes, :asks] &= ~batch.revealed
        self._start_asked[lanes] = batch.revealed @ self._bit[:asks]

    def play(
        self, actions: IntArray, running: BoolArray
    ) -> tuple[npt.NDArray[np.float64], BoolArray]:
        """One turn in every running lane: rewards and which encounters ended, both (n,).

        The arrays of a lane that does not run are spoilt; deal it a case before it is shown.
        """
        # Products stand for np.where, which is slow where a condition is hard to predict.
        asks = self.layout.findings
        asking = actions < asks
        answers = self._sampler.answers(self._place, self._situation, actions * asking)
        self._left -= 1
        self._asked |= self._bit[actions]
        cells = self._first_cell + self._cell[actions]
        self.observation.reshape(-1)[cells] = _SHOWN.take(answers)
        self.observation[:, -1] = self.layout.turns[self._left]
        self.mask.reshape(-1)[self._first_action + actions] = (~asking).view(np.int8)
        self.mask[np.flatnonzero(self._left == 1), :asks] = 0

        ended = running & ~(asking & (self._left > 0))
        lanes = np.flatnonzero(ended)
        decision = np.maximum(actions[lanes] - asks, -1)
        utility = np.zeros(len(actions))
        utility[lanes] = self._utilities[self._state[lanes], decision]
        self._asking, self._ended, self._utility = asking, lanes, utility
        return -self.task.question_cost * (running & asking) + utility, ended

    def outcome(self, ended: BoolArray) -> dict[str, npt.NDArray[Any]]:
        """The facts of `verifier.Outcome` for the lanes that `play` ended, else 0 or None."""
        lanes = self._ended
        committed = ended & ~self._asking
        asks = (self.task.turn_cap - self._left - committed) * ended
        new = np.bitwise_count(self._asked & ~self._start_asked) * ended
        state = np.empty(len(ended), dtype=object)
        state[lanes] = self._state_names[self._state[lanes]]
        return {
            "committed": committed,
            "utility": self._utility,
            "asks": asks,
            "repeats": asks - new,
            "invalid_turns": np.zeros(len(ended), np.intp),
            "reward": self._utility - self.task.question_cost * asks,
            "state": state,
        }
