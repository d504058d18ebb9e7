"""The vector environment for Gymnasium: streams, seeds and autoreset over `lanes.Lanes`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from clinical_envs.adapters.encounters import index_option
from clinical_envs.adapters.lanes import BoolArray, Lanes
from clinical_envs.adapters.layout import FloatArray
from clinical_envs.case import IntArray, stream_key
from clinical_envs.catalog import load_task
from clinical_envs.errors import EpisodeOver, InvalidAction, InvalidArgument
from clinical_envs.task import Task

Step = tuple[FloatArray, npt.NDArray[np.float64], BoolArray, BoolArray, dict[str, Any]]


class ClinicalVectorEnv(VectorEnv[FloatArray, npt.ArrayLike, npt.NDArray[Any]]):
    """Many encounters of one task at once; lane i equals a single environment.

    Spaces are those of `ClinicalEnv`, batched. `reset(seed=s)` starts lane i at case 0 of stream
    s + i; a list gives one seed a lane. `info` has Gymnasium's vector format: `action_mask`,
    and `outcome` for the lanes whose episode has ended.

    Autoreset follows Gymnasium's three modes. NEXT_STEP (default): the step after the end ignores
    the lane's action, charges nothing, pays 0 and starts the next case. SAME_STEP: the next case
    starts at once, and the last observation and info are in `final_obs` and `final_info`.
    DISABLED: call `reset(options={"reset_mask": ended})`.

    Arguments: task, num_envs, split, rho, autoreset_mode (an `AutoresetMode` or its value).
    There is no privileged view and no rendering; use `vectorization_mode="sync"` for them.
    """

    metadata = {  # noqa: RUF012
        "render_modes": [],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        task: str | Path | Task,
        num_envs: int = 1,
        split: str = "train",
        rho: float = 0.0,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        if num_envs < 1:
            raise InvalidArgument(f"num_envs is {num_envs}; give at least 1")
        try:
            self.autoreset_mode = AutoresetMode(autoreset_mode)
        except ValueError:
            known = ", ".join(mode.value for mode in AutoresetMode)
            raise InvalidArgument(f"no autoreset_mode {autoreset_mode!r}; known: {known}") from None
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.task, self.num_envs, self.split, self.rho = load_task(task), num_envs, split, rho
        stream_key(self.task, split, 0)  # refuses a bad split now, not at the reset
        self._lanes = Lanes(self.task, num_envs, rho)
        layout = self._lanes.layout
        self.single_observation_space = layout.observation_space()
        self.single_action_space = layout.action_space()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._all = np.ones(num_envs, np.bool_)
        self._has_stream = np.zeros(num_envs, np.bool_)
        self._key = np.zeros(num_envs, np.uint64)
        self._index = np.zeros(num_envs, np.int64)
        self._running = np.zeros(num_envs, np.bool_)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Start the next case in every lane, or in those of the option `reset_mask`.

        The option `index` picks the case, as in the single environment.

        Raises:
            InvalidArgument: an unknown or bad option, or not one seed a lane.
        """
        others = dict(options or {})
        starting = self._reset_mask(others.pop("reset_mask", None))
        index = index_option(others)
        seeds = self._lane_seeds(seed)
        super().reset(seed=seed if isinstance(seed, int) else None)
        lanes = np.flatnonzero(starting)
        self._index[lanes] += 1
        self._open_streams(lanes, seeds)
        if index is not None:
            self._index[lanes] = index
        self._deal(lanes)
        return self._lanes.observation.copy(), self._mask_info(starting)

    def step(self, actions: npt.ArrayLike) -> Step:
        """Play one turn in every lane.

        Raises:
            InvalidAction: an action lies outside the action space; no lane is charged.
            EpisodeOver: a lane has no running episode and this autoreset mode starts none.
        """
        waiting = ~self._running
        self._check_running(waiting)
        reward, ended = self._lanes.play(self._checked(actions, waiting), self._running)
        self._running = ~ended
        info: dict[str, Any] = {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            if ended.any():
                info = self._final_info(ended)
                self._next_case(np.flatnonzero(ended))
        else:
            info = self._outcome_info(ended)
            self._next_case(np.flatnonzero(waiting))
        info |= self._mask_info(self._all)
        truncated = np.zeros(self.num_envs, np.bool_)
        return self._lanes.observation.copy(), reward, ended, truncated, info

    def _next_case(self, lanes: IntArray) -> None:
        self._index[lanes] += 1
        self._deal(lanes)

    def _deal(self, lanes: IntArray) -> None:
        self._lanes.deal(lanes, self._key[lanes], self._index[lanes].view(np.uint64))
        self._running[lanes] = True

    def _open_streams(self, lanes: IntArray, seeds: Sequence[int | None]) -> None:
        """Give the lanes their streams: those with a seed, and those that have none yet."""
        for lane in lanes.tolist():
            seed = seeds[lane]
            if seed is None and self._has_stream[lane]:
                continue
            seed = int(self.np_random_seed or 0) + lane if seed is None else seed
            self._key[lane] = stream_key(self.task, self.split, seed)
            self._index[lane] = 0
            self._has_stream[lane] = True

    def _lane_seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int):
            return [seed + lane for lane in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise InvalidArgument(f"{len(seed)} seeds for {self.num_envs} lanes; give one a lane")
        for given in seed:
            if given is not None:
                stream_key(self.task, self.split, given)  # refuses a bad seed before any change
        return seed

    def _reset_mask(self, mask: Any) -> BoolArray:
        if mask is None:
            return self._all.copy()
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
            raise InvalidArgument("option reset_mask is no boolean array; give one")
        if mask.shape != (self.num_envs,) or not mask.any():
            raise InvalidArgument(
                f"option reset_mask has shape {mask.shape} and {mask.sum()} lanes; "
                f"give shape ({self.num_envs},) and at least one lane"
            )
        return mask.copy()

    def _check_running(self, waiting: BoolArray) -> None:
        if self.autoreset_mode is AutoresetMode.NEXT_STEP:
            waiting = ~self._has_stream
        if waiting.any():
            lane = int(waiting.argmax())
            raise EpisodeOver(f"lane {lane} has no running episode; call reset()")

    def _checked(self, actions: npt.ArrayLike, waiting: BoolArray) -> IntArray:
        chosen = np.asarray(actions)
        if chosen.shape != (self.num_envs,) or chosen.dtype.kind not in "iu":
            raise InvalidAction(
                f"actions have shape {chosen.shape} and type {chosen.dtype}; "
                f"give ({self.num_envs},) integers"
            )
        limit = self._lanes.layout.actions
        chosen = chosen.astype(np.intp, copy=False)
        if chosen.view(np.uintp).max() >= limit:  # as unsigned, negative numbers are large
            outside = (chosen < 0) | (chosen >= limit)
            wrong = outside & ~waiting
            if wrong.any():
                lane = int(wrong.argmax())
                raise InvalidAction(
                    f"action of lane {lane} is {chosen[lane]}; "
                    f"it is an integer from 0 to {limit - 1}"
                )
            chosen = np.where(outside, 0, chosen)
        return chosen

    def _mask_info(self, which: BoolArray) -> dict[str, Any]:
        mask = self._lanes.mask.copy()
        if not which.all():
            mask[~which] = 0
        return {"action_mask": mask, "_action_mask": which.copy()}

    def _outcome_info(self, ended: BoolArray) -> dict[str, Any]:
        if not ended.any():
            return {}
        facts = self._lanes.outcome(ended) | {"index": self._index * ended}
        outcome: dict[str, Any] = {}
        for name, values in facts.items():
            outcome |= {name: values, f"_{name}": ended.copy()}
        return {"outcome": outcome, "_outcome": ended.copy()}

    def _final_info(self, ended: BoolArray) -> dict[str, Any]:
        final_obs = np.empty(self.num_envs, dtype=object)
        for lane in np.flatnonzero(ended):
            final_obs[lane] = self._lanes.observation[lane].copy()
        return {
            "final_obs": final_obs,
            "_final_obs": ended.copy(),
            "final_info": self._mask_info(ended) | self._outcome_info(ended),
            "_final_info": ended.copy(),
        }
