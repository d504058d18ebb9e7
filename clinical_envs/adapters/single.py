"""The array environment for Gymnasium."""

from __future__ import annotations

import operator
import reprlib
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from clinical_envs.adapters.encounters import EncounterEnv
from clinical_envs.adapters.layout import FloatArray, Layout, MaskArray
from clinical_envs.errors import InvalidAction
from clinical_envs.simulator import Ask, Commit
from clinical_envs.task import Task


class ClinicalEnv(EncounterEnv[FloatArray, SupportsIndex]):
    """Find out what matters about one patient, then commit to a decision.

    ## Description

    A patient has a hidden clinical state and one answer to every finding. The family, which is how
    the patient presents, is public. Each turn asks for one finding or commits to a decision. A
    question costs, a decision pays by how well it fits the state, so a good policy knows what to
    ask, when to stop and what to do. It is a partially observed decision problem; its information
    state is the findings seen and the turns left, and both are in the observation, so no memory is
    needed.

    ## Action space

    `Discrete(Q + D)`, with Q findings and D decisions in the order of the task file:

    | action | meaning |
    |---|---|
    | 0, ..., Q-1 | ask for a finding |
    | Q, ..., Q+D-1 | commit to a decision, which ends the episode |

    Asking again is legal: the answer is the same, and it is charged again. An action outside the
    space raises `InvalidAction` and is not charged.

    `info["action_mask"]` (int8) and `action_masks()` (bool) mark the actions that can be useful.
    They hide findings already seen and, on the last turn, every ask; never a commit.

    ## Observation space

    `Box(-1, 1, (Q + F + 1,), float32)`, with F families:

    | position | meaning |
    |---|---|
    | 0, ..., Q-1 | each finding: -1 absent, 0 not known, +1 present |
    | Q, ..., Q+F-1 | the family, one-hot |
    | Q+F | turns left / turn cap |

    ## Starting state

    Case i of the stream (task, split, seed). With `rho` 0 nothing is known but the family;
    otherwise each finding is shown at the start with that probability.
    `reset(seed=s)` starts at case 0 of stream s, `reset()` goes on to the next case, and
    `reset(options={"index": i})` picks one. A first `reset()` without a seed takes fresh entropy.

    ## Rewards

    -c for each ask, repeats included, and `U[state, decision]` for the commit. The sum is
    `U - c · asks`.

    ## Episode end

    An episode terminates at the commit, or when the turns of the task's cap are used up: then the
    last turn also pays the task's utility of no decision. The cap is part of the problem, so this
    is a termination and not a truncation; the environment never truncates.

    At the end `info["outcome"]` has `committed`, `utility`, `asks`, `repeats`, `invalid_turns`
    (always 0 here), `reward`, `state` and `index` (of the case), and `episode()` gives the record.

    ## Arguments

    - `task`: a task by name, id or file, or a `Task`.
    - `split`: `train`, `heldout`, `sft`, `validation` or `test`; no two share a case.
    - `rho`: the probability with which a finding is shown at the start.
    - `render_mode`: `ansi` (a string), `human` (printed), `rgb_array` (needs the `plots` extra).
    - `privileged`: adds `info["privileged"]` with the exact `posterior` over states and the hidden
      `state`. For analysis and for critics; a policy that reads it is cheating.

    ## Version history

    v0: first release.

    ## References

    "Safe Reinforcement Learning for Multi-Turn Clinical Agents: When Dense Rewards Beat Outcome
    Rewards", arXiv 2611.12728. Synthetic tasks with hand-set utilities; not for clinical use.
    """

    _observation: FloatArray
    _mask: MaskArray

    def __init__(
        self,
        task: str | Path | Task,
        split: str = "train",
        rho: float = 0.0,
        render_mode: str | None = None,
        privileged: bool = False,
    ) -> None:
        super().__init__(task, split, rho, render_mode, privileged)
        self._layout = Layout(self.task)
        self.observation_space = self._layout.observation_space()
        self.action_space = self._layout.action_space()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Start the next case, or the one that `seed` and the option `index` pick."""
        info = self._begin(seed, options).info
        self._observation = self._layout.observation(info)
        self._mask = self._layout.action_mask(info)
        return self._view()

    def step(self, action: SupportsIndex) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """Play one turn.

        Raises:
            InvalidAction: the action lies outside the action space; nothing is charged.
            EpisodeOver: the episode has ended, or none has started.
        """
        encounter, layout = self._encounter(), self._layout
        chosen = self._position(action)
        asks = layout.findings
        turn = encounter.step(Ask(chosen) if chosen < asks else Commit(chosen - asks))
        left = encounter.info.turns_left
        if turn.answer is not None:
            self._observation[chosen] = 1.0 if turn.answer else -1.0
            self._mask[chosen] = 0
        if left <= 1:
            self._mask[:asks] = 0
        self._observation[-1] = layout.turns[left]
        observation, info = self._view()
        return observation, turn.reward, turn.terminated, False, info

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """`info["action_mask"]` as booleans, under the name that MaskablePPO looks for."""
        self._encounter()
        return self._mask.astype(np.bool_)

    def _view(self) -> tuple[FloatArray, dict[str, Any]]:
        if self.render_mode == "human":
            self.render()
        info = {"action_mask": self._mask.copy(), **self._extra_info()}
        return self._observation.copy(), info

    def _position(self, action: SupportsIndex) -> int:
        try:
            chosen = operator.index(action)
        except TypeError:
            chosen = -1
        if isinstance(action, bool) or not 0 <= chosen < self._layout.actions:
            asks, last = self._layout.findings, self._layout.actions - 1
            raise InvalidAction(
                f"action is {reprlib.repr(action)}; it is an integer from 0 to {last}: "
                f"0 to {asks - 1} ask for a finding, {asks} to {last} commit to a decision"
            )
        return chosen
