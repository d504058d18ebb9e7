"""The one door of randomness: case `index` of stream (task id and version, split, seed).

    word(i, j) = mix(key + (i · W + j + 1) · γ),   key = SHA-256(task, split, seed)

`mix` and γ are SplitMix64's (Steele, Lea, Flood 2014): the generator is a function of a counter,
so any case is drawn alone, in bulk, or in any lane, and is the same. Each 64-bit word gives two
uniforms on a grid of 2^-32, kept as whole numbers: one for the family, one for the state, one for
each finding's answer, one for whether the finding is revealed at the start.
"""

from __future__ import annotations

import hashlib
import json
import operator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, SupportsIndex

import numpy as np
import numpy.typing as npt

from clinical_envs.errors import InvalidArgument, did_you_mean
from clinical_envs.task import Task

SPLITS: Final = ("train", "heldout", "sft", "validation", "test")
_GAMMA = 0x9E3779B97F4A7C15
_WORD = (1 << 64) - 1
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_GRID = 1 << 32

WordArray = npt.NDArray[np.uint64]
IntArray = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseBatch:
    """n cases as arrays: family (n,), state (n,), answers (n, Q) and revealed (n, Q).

    The representation shows nothing hidden.
    """

    family: IntArray
    state: IntArray = field(repr=False)
    answers: npt.NDArray[np.bool_] = field(repr=False)
    revealed: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class CaseSampler:
    """Draws cases of one task for any stream keys and indices at once.

    A case is a place in the generator's sequence, so its parts can be drawn together or alone:
    `draw` gives whole cases; `opening` and `answers` give the same parts on demand.
    """

    task: Task
    rho: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.rho <= 1.0:
            raise InvalidArgument(f"rho is {self.rho}; a reveal fraction lies in [0, 1]")

    @cached_property
    def _words(self) -> int:
        return 1 + len(self.task.findings)

    @cached_property
    def _state_edges(self) -> npt.NDArray[np.float64]:
        return np.cumsum(self.task.prior)[:-1] * _GRID

    @cached_property
    def _chance(self) -> npt.NDArray[np.float64]:
        """P(q present | s, f) on the grid, in row f · S + s and column q."""
        by_state = self.task.likelihood.transpose(0, 2, 1) * _GRID
        return by_state.reshape(-1, len(self.task.findings))

    @cached_property
    def _answer_word(self) -> WordArray:
        """For each finding the step from the case's place to its word, and the half it uses."""
        number = np.arange(2, 2 + len(self.task.findings), dtype=np.uint64)
        return np.stack([_step(number // np.uint64(2)), number % np.uint64(2) * np.uint64(32)])

    def place(self, keys: WordArray, indices: WordArray) -> WordArray:
        """Where the cases `indices[i]` of the streams `keys[i]` begin in the sequence, (n,)."""
        return keys + indices * np.uint64(self._words * _GAMMA & _WORD)

    def draw(self, place: WordArray) -> CaseBatch:
        """The cases that begin at `place`, shape (n,)."""
        n_findings = len(self.task.findings)
        needed = self._words if self.rho > 0.0 else (3 + n_findings) // 2
        words = _mix(place[:, None] + _step(np.arange(needed, dtype=np.uint64)))
        # "<u8" makes the low half come first on every machine.
        uniforms = words.astype("<u8", copy=False).view("<u4")
        family, state = self._opening(uniforms)
        chance = self._chance.take(self.situation(family, state), axis=0)
        answers = uniforms[:, 2 : 2 + n_findings] < chance
        if self.rho > 0.0:
            revealed = uniforms[:, 2 + n_findings : 2 + 2 * n_findings] < self.rho * _GRID
        else:
            revealed = np.zeros_like(answers)
        return CaseBatch(family=family, state=state, answers=answers, revealed=revealed)

    def opening(self, place: WordArray) -> tuple[IntArray, IntArray]:
        """Family and state of the cases that begin at `place`, both (n,)."""
        word = _mix(place + np.uint64(_GAMMA))  # word 0 lies one step on
        return self._opening(word.astype("<u8", copy=False).view("<u4").reshape(-1, 2))

    def situation(self, family: IntArray, state: IntArray) -> IntArray:
        """Family and state as one number, f · S + s."""
        return family * len(self.task.states) + state

    def answers(
        self, place: WordArray, situation: IntArray, findings: IntArray
    ) -> npt.NDArray[np.bool_]:
        """The answer to finding `findings[i]` of the case that begins at `place[i]`, (n,)."""
        step, shift = self._answer_word
        word = _mix(place + step[findings])
        uniform = word >> shift[findings] & np.uint64(_GRID - 1)
        chance = self._chance.reshape(-1)[situation * len(self.task.findings) + findings]
        return np.asarray(uniform < chance)

    def _opening(self, uniforms: npt.NDArray[np.uint32]) -> tuple[IntArray, IntArray]:
        family = uniforms[:, 0].astype(np.intp) * len(self.task.families) >> 32
        state = np.zeros(len(uniforms), np.intp)
        for edge in self._state_edges:
            state += uniforms[:, 1] >= edge
        return family, state


def _step(word: WordArray) -> WordArray:
    return (word + np.uint64(1)) * np.uint64(_GAMMA)


def _mix(z: WordArray) -> WordArray:
    """SplitMix64's finaliser, in place."""
    z ^= z >> np.uint64(30)
    z *= _MIX_1
    z ^= z >> np.uint64(27)
    z *= _MIX_2
    z ^= z >> np.uint64(31)
    return z


def stream_key(task: Task, split: str, seed: SupportsIndex) -> np.uint64:
    """64-bit key of the stream (task id and version, split, seed).

    Raises:
        InvalidArgument: an unknown split, or a seed that is no non-negative integer.
    """
    if split not in SPLITS:
        raise InvalidArgument(f"no split {split!r}; {did_you_mean(split, SPLITS)}")
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if number < 0:
        raise InvalidArgument(f"seed is {seed!r}; a seed is a non-negative integer")
    identity = json.dumps([task.key, split, number])
    return np.uint64(int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8], "little"))
