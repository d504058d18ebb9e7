"""The one door of randomness: case `index` of stream (task id and version, split, seed).

    word(i, j) = mix(key + (i · W + j + 1) · γ),   key = SHA-256(task, split, seed)

`mix` and γ are SplitMix64's (Steele, Lea, Flood 2014): the generator is a function of a counter,
so any case is drawn alone, in bulk, or in any lane, and is the same. Each 64-bit word gives two
uniforms on a grid of 2^-32: one for the family, one for the state, one for each finding's answer,
one for whether the finding is revealed at the start.
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
_BLOCK = 64


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
    """Draws cases of one task for any stream keys and indices at once."""

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
        return np.cumsum(self.task.prior)[:-1]

    @cached_property
    def _answer_chance(self) -> npt.NDArray[np.float64]:
        return np.ascontiguousarray(self.task.likelihood.transpose(0, 2, 1))

    def draw(self, keys: npt.NDArray[np.uint64], indices: npt.NDArray[np.uint64]) -> CaseBatch:
        """The cases `indices[i]` of the streams `keys[i]`; both have shape (n,)."""
        n_findings = len(self.task.findings)
        needed = self._words if self.rho > 0.0 else (3 + n_findings) // 2
        uniforms = self._uniforms(keys, indices, needed)
        family = (uniforms[:, 0] * len(self.task.families)).astype(np.intp)
        state = np.searchsorted(self._state_edges, uniforms[:, 1], side="right")
        answers = uniforms[:, 2 : 2 + n_findings] < self._answer_chance[family, state]
        if self.rho > 0.0:
            revealed = uniforms[:, 2 + n_findings : 2 + 2 * n_findings] < self.rho
        else:
            revealed = np.zeros_like(answers)
        return CaseBatch(family=family, state=state, answers=answers, revealed=revealed)

    def _uniforms(
        self, keys: npt.NDArray[np.uint64], indices: npt.NDArray[np.uint64], words: int
    ) -> npt.NDArray[np.float64]:
        start = keys + indices * np.uint64(self._words * _GAMMA & _WORD)
        z = start[:, None] + np.arange(1, words + 1, dtype=np.uint64) * np.uint64(_GAMMA)
        z = (z ^ (z >> np.uint64(30))) * _MIX_1
        z = (z ^ (z >> np.uint64(27))) * _MIX_2
        z ^= z >> np.uint64(31)
        # "<u8" makes the low half come first on every machine.
        halves = z.astype("<u8", copy=False).view("<u4")
        return np.asarray(halves * 2.0**-32)


def stream_key(task: Task, split: str, seed: int) -> np.uint64:
    """64-bit key of the stream (task id and version, split, seed).

    Raises:
        InvalidArgument: an unknown split or a negative seed.
    """
    if split not in SPLITS:
        raise InvalidArgument(f"no split {split!r}; {did_you_mean(split, SPLITS)}")
    if seed < 0:
        raise InvalidArgument(f"seed is {seed}; a seed is a non-negative integer")
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
        self.task, self.split, self.seed, self.rho = task, split, int(seed), rho
        self._sampler = CaseSampler(task, rho)
        self._key = stream_key(task, split, seed)
        self._block_start = -1
        self._block: list[Case] = []

    def __len__(self) -> int:
        raise TypeError("a stream of cases is endless")

    def __getitem__(self, index: int) -> Case:  # type: ignore[override]
        if index < 0:
            raise InvalidArgument(f"case index is {index}; it is a non-negative integer")
        start = index - index % _BLOCK
        if start != self._block_start:
            self._block = self.block(start, _BLOCK)
            self._block_start = start
        return self._block[index - start]

    def block(self, start: int, n: int) -> list[Case]:
        """Cases start, ..., start + n - 1."""
        indices = np.arange(start, start + n, dtype=np.uint64)
        batch = self._sampler.draw(np.full(n, self._key), indices)
        return [
            Case(
                task=self.task.key,
                split=self.split,
                seed=self.seed,
                index=start + i,
                family=int(batch.family[i]),
                state=int(batch.state[i]),
                answers=tuple(batch.answers[i].tolist()),
                revealed=tuple(np.flatnonzero(batch.revealed[i]).tolist()),
            )
            for i in range(n)
        ]


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
