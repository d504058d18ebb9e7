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
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from clinical_envs.belief import InfoState, initial_state
from clinical_envs.errors import InvalidArgument, did_you_mean
from clinical_envs.task import Task

SPLITS: Final = ("train", "heldout", "sft", "validation", "test")
_GAMMA = 0x9E3779B97F4A7C15
_WORD = (1 << 64) - 1
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_GRID = 1 << 32
_BLOCK = 64

WordArray = npt.NDArray[np.uint64]
IntArray = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One patient: hidden state and one pre-drawn answer for every finding.

    The representation shows the public identity only.

    family, state: positions in the task. answers: one a finding. revealed: findings shown at the
    start, in file order.
    """

    task: str
    split: str
    seed: int
    index: int
    family: int
    state: int = field(repr=False)
    answers: tuple[bool, ...] = field(repr=False)
    revealed: tuple[int, ...] = ()

    @property
    def hash(self) -> str:
        """First 16 hex digits of SHA-256 over identity and drawn content."""
        content = [self.task, self.split, self.seed, self.index, self.family, self.state]
        text = json.dumps([*content, self.answers, self.revealed])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def start(self, task: Task) -> InfoState:
        """The information state before the first turn."""
        return initial_state(task, self.family, [(q, self.answers[q]) for q in self.revealed])


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseBatch:
    """n cases as arrays: family (n,), state (n,), answers (n, Q) and revealed (n, Q)."""

    family: npt.NDArray[np.intp]
    state: npt.NDArray[np.intp]
    answers: npt.NDArray[np.bool_]
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


def stream_key(task: Task, split: str, seed: int) -> np.uint64:
    """64-bit key of the stream (task id and version, split, seed).

    Raises:
        InvalidArgument: an unknown split, or a seed that is no non-negative integer.
    """
    if split not in SPLITS:
        raise InvalidArgument(f"no split {split!r}; {did_you_mean(split, SPLITS)}")
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidArgument(f"seed is {seed!r}; a seed is a non-negative integer")
    identity = json.dumps([task.key, split, int(seed)])
    return np.uint64(int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8], "little"))


class CaseStream(Sequence[Case]):
    """The endless sequence of cases of one stream.

    >>> from clinical_envs import load_task
    >>> stream = CaseStream(load_task("diagnostics"), "train", seed=12345)
    >>> stream[7] == CaseStream(load_task("diagnostics"), "train", seed=12345)[7]
    True
    """

    def __init__(self, task: Task, split: str, seed: int, rho: float = 0.0) -> None:
        self._sampler = CaseSampler(task, rho)
        self._key = stream_key(task, split, seed)
        self.task, self.split, self.seed, self.rho = task, split, int(seed), rho
        self._block_start = -1
        self._block: CaseBatch

    def __len__(self) -> int:
        raise TypeError("a stream of cases is endless")

    def __getitem__(self, index: int) -> Case:  # type: ignore[override]
        if index < 0:
            raise InvalidArgument(f"case index is {index}; it is a non-negative integer")
        start = index - index % _BLOCK
        if start != self._block_start:
            self._block = self._draw(start, _BLOCK)
            self._block_start = start
        return self._case(self._block, start, index - start)

    def block(self, start: int, n: int) -> list[Case]:
        """Cases start, ..., start + n - 1."""
        batch = self._draw(start, n)
        return [self._case(batch, start, i) for i in range(n)]

    def _draw(self, start: int, n: int) -> CaseBatch:
        indices = np.arange(start, start + n, dtype=np.uint64)
        return self._sampler.draw(self._sampler.place(np.full(n, self._key), indices))

    def _case(self, batch: CaseBatch, start: int, i: int) -> Case:
        return Case(
            task=self.task.key,
            split=self.split,
            seed=self.seed,
            index=start + i,
            family=int(batch.family[i]),
            state=int(batch.state[i]),
            answers=tuple(batch.answers[i].tolist()),
            revealed=tuple(np.flatnonzero(batch.revealed[i]).tolist()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSet:
    """A named set of cases: a prefix of a stream, or the first n of each risk group.

    stratified: the shares of the risk groups are fixed by design, so that overall values are
    re-weighted to prevalence.
    """

    name: str
    cases: tuple[Case, ...]
    stratified: bool


_PREFIX_SETS: Final = {
    "train": ("train", 12345, 300),
    "heldout": ("heldout", 100, 60),
    "heldout200": ("heldout", 100, 200),
    "sft": ("sft", 7, 800),
}
_STRATIFIED_SETS: Final = {"validation": ("validation", 100, 120), "test": ("test", 100, 120)}
SET_NAMES: Final = (*_PREFIX_SETS, *_STRATIFIED_SETS)


def case_set(task: Task, name: str, rho: float = 0.0) -> CaseSet:
    """A named set. `train`, `heldout`, `heldout200`, `sft` are prefixes of a published stream;
    `validation` and `test` hold the first 120 cases of each risk group.

    Raises:
        InvalidArgument: no such set.
    """  # noqa: D205
    if name in _PREFIX_SETS:
        split, seed, n = _PREFIX_SETS[name]
        cases = CaseStream(task, split, seed, rho).block(0, n)
        return CaseSet(name=name, cases=tuple(cases), stratified=False)
    if name in _STRATIFIED_SETS:
        split, seed, per_group = _STRATIFIED_SETS[name]
        return CaseSet(
            name=name,
            cases=_first_of_each_group(CaseStream(task, split, seed, rho), per_group),
            stratified=True,
        )
    raise InvalidArgument(f"no set {name!r}; {did_you_mean(name, SET_NAMES)}")


def _first_of_each_group(stream: CaseStream, per_group: int) -> tuple[Case, ...]:
    task = stream.task
    if not (task.group_prevalence > 0.0).all():
        empty = task.risk_groups[int(task.group_prevalence.argmin())]
        raise InvalidArgument(
            f"{task.key}: risk group {empty!r} has prior 0, so a stratified set cannot be filled"
        )
    wanted = dict.fromkeys(range(len(task.risk_groups)), per_group)
    chosen: list[Case] = []
    start = 0
    while any(wanted.values()):
        for case in stream.block(start, 1024):
            group = task.group_of_state[case.state]
            if wanted[group]:
                wanted[group] -= 1
                chosen.append(case)
        start += 1024
    return tuple(chosen)
