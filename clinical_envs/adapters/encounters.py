"""What the single environments share: a stream of cases, the encounter played, its outcome."""

from __future__ import annotations

import operator
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import gymnasium

from clinical_envs.adapters.render import picture, transcript
from clinical_envs.belief import posterior
from clinical_envs.case import Case, CaseStream
from clinical_envs.catalog import load_task
from clinical_envs.episode import Episode
from clinical_envs.errors import EpisodeOver, InvalidArgument, did_you_mean
from clinical_envs.simulator import Ask, Commit, Encounter, Invalid
from clinical_envs.task import Task

Obs = TypeVar("Obs")
Act = TypeVar("Act")

RENDER_MODES = ("ansi", "human", "rgb_array")
MAX_INDEX = 2**63


class EncounterEnv(gymnasium.Env[Obs, Act]):
    """Plays the cases of a stream, one after another.

    `reset(seed=s)` starts at case 0 of stream s, `reset()` goes on to the next case, and
    `reset(options={"index": i})` picks one. A first `reset()` without a seed takes fresh entropy.
    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 4}  # noqa: RUF012

    _case: Case
    _current: Encounter | None = None
    _stream: CaseStream | None = None
    _index: int

    def __init__(
        self,
        task: str | Path | Task,
        split: str = "train",
        rho: float = 0.0,
        render_mode: str | None = None,
        privileged: bool = False,
    ) -> None:
        if render_mode is not None and render_mode not in RENDER_MODES:
            hint = did_you_mean(render_mode, RENDER_MODES)
            raise InvalidArgument(f"no render_mode {render_mode!r}; {hint}")
        self.task = load_task(task)
        self.split, self.rho = split, rho
        self.render_mode, self.privileged = render_mode, privileged
        CaseStream(self.task, split, 0, rho)  # refuses a bad split or rho now, not at the reset

    def episode(
        self, *, policy: str | None = None, rollout: int | None = None, greedy: bool = False
    ) -> Episode:
        """The record of the encounter that has ended.

        Raises:
            EpisodeOver: none has; while an encounter runs, its state is hidden.
        """
        return self._encounter().episode(policy=policy, rollout=rollout, greedy=greedy)

    def render(self) -> Any:
        """The encounter so far: a string (ansi), a printout (human) or a picture (rgb_array).

        Raises:
            EpisodeOver: before the first reset.
            InvalidArgument: the environment was made without a render_mode.
        """
        if self.render_mode is None:
            raise InvalidArgument("no render_mode was given; make it with render_mode='ansi'")
        encounter = self._encounter()
        if self.render_mode == "rgb_array":
            return picture(encounter)
        if self.render_mode == "ansi":
            return transcript(encounter)
        sys.stdout.write(transcript(encounter) + "\n")
        return None

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> Encounter:
        """The encounter that a reset starts."""
        index = index_option(options)
        super().reset(seed=seed)
        if self._stream is None or seed is not None:
            self._stream = CaseStream(self.task, self.split, self.np_random_seed, self.rho)
            self._index = 0
        else:
            self._index += 1
        if index is not None:
            self._index = index
        self._case = self._stream[self._index]
        self._current = Encounter(self.task, self._case)
        return self._current

    def _encounter(self) -> Encounter:
        if self._current is None:
            raise EpisodeOver("no episode has started; call reset()")
        return self._current

    def _extra_info(self) -> dict[str, Any]:
        """The outcome, at the end; posterior and state, where `privileged` asks for them."""
        encounter = self._encounter()
        extra: dict[str, Any] = {}
        if encounter.over:
            extra["outcome"] = facts(encounter, self._case) | {"index": self._case.index}
        if self.privileged:
            extra["privileged"] = {
                "posterior": posterior(self.task, encounter.info),
                "state": self.task.state_ids[self._case.state],
            }
        return extra


def facts(encounter: Encounter, case: Case) -> dict[str, Any]:
    """The facts of `verifier.Outcome`, without making and checking a record.

    An encounter that is still running counts as one whose turns are used up.
    """
    task, actions = encounter.task, encounter.actions
    last = actions[-1] if actions else None
    if isinstance(last, Commit):
        utility = float(task.utility_matrix[case.state, last.decision])
    else:
        utility = float(task.no_decision_utility[case.state])
    asks = sum(isinstance(action, Ask) for action in actions)
    invalid_turns = sum(isinstance(action, Invalid) for action in actions)
    new = encounter.info.asked & ~encounter.start.asked
    return {
        "committed": isinstance(last, Commit),
        "utility": utility,
        "asks": asks,
        "repeats": asks - new.bit_count(),
        "invalid_turns": invalid_turns,
        "reward": utility - task.question_cost * (asks + invalid_turns),
        "state": task.state_ids[case.state],
    }


def index_option(options: Mapping[str, Any] | None) -> int | None:
    """The case index that a reset asks for.

    Raises:
        InvalidArgument: another option, or no index of a case.
    """
    if not options:
        return None
    for name in options:
        if name != "index":
            raise InvalidArgument(f"no reset option {name!r}; {did_you_mean(name, ['index'])}")
    value = options["index"]
    try:
        index = operator.index(value)
    except TypeError:
        index = -1
    if isinstance(value, bool) or not 0 <= index < MAX_INDEX:
        raise InvalidArgument(f"option index is {value!r}; it is an integer from 0 to 2^63 - 1")
    return index
