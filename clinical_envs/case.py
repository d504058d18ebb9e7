"""One patient, and the streams and published sets of them.

Case `index` of stream (task id and version, split, seed) is the same however it is reached; how it
is drawn is in `sampler`, whose names are offered here too.
"""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, SupportsIndex

import numpy as np

from clinical_envs.belief import InfoState, initial_state
from clinical_envs.errors import InvalidArgument, did_you_mean
from clinical_envs.sampler import SPLITS, CaseBatch, CaseSampler, IntArray, WordArray, stream_key
from clinical_envs.task import Task

__all__ = [
    "SET_NAMES",
    "SPLITS",
    "Case",
    "CaseBatch",
    "CaseSampler",
    "CaseSet",
    "CaseStream",
    "IntArray",
    "WordArray",
    "case_set",
    "stream_key",
]

MAX_INDEX = 2**63 - 1
MAX_DRAWN = 2_000_000
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
        text = json.dumps([*content, self.answers, self.revealed], default=operator.index)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def start(self, task: Task) -> InfoState:
        """The information state before the first turn."""
        return initial_state(task, self.family, [(q, self.answers[q]) for q in self.revealed])


class CaseStream(Sequence[Case]):
    """The endless sequence of cases of one stream, at indices from 0 to 2^63 - 1.

    >>> from clinical_envs import load_task
    >>> stream = CaseStream(load_task("diagnostics"), "train", seed=12345)
    >>> stream[7] == CaseStream(load_task("diagnostics"), "train", seed=12345)[7]
    True
    """

    def __init__(self, task: Task, split: str, seed: SupportsIndex, rho: float = 0.0) -> None:
        self._sampler = CaseSampler(task, rho)
        self._key = stream_key(task, split, seed)
        self.task, self.split, self.seed, self.rho = task, split, operator.index(seed), rho
        self._block_start = -1
        self._block: CaseBatch

    def __len__(self) -> int:
        raise TypeError("a stream of cases is endless")

    def __getitem__(self, index: SupportsIndex) -> Case:  # type: ignore[override]
        number = _checked(index)
        start = number - number % _BLOCK
        if start != self._block_start:
            self._block = self._sampler.draw(self._place(start, _BLOCK))
            self._block_start = start
        return self._case(self._block, start, number - start)

    def block(self, start: SupportsIndex, n: int) -> list[Case]:
        """Cases start, ..., start + n - 1."""
        first = _checked(start)
        batch = self._sampler.draw(self._place(first, n))
        return [self._case(batch, first, i) for i in range(n)]

    def states(self, start: SupportsIndex, n: int) -> IntArray:
        """The hidden states of cases start, ..., start + n - 1, (n,)."""
        return self._sampler.opening(self._place(_checked(start), n))[1]

    def _place(self, start: int, n: int) -> WordArray:
        indices = np.uint64(start) + np.arange(n, dtype=np.uint64)
        return self._sampler.place(np.full(n, self._key), indices)

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


def _checked(index: SupportsIndex) -> int:
    try:
        number = operator.index(index)
    except TypeError:
        number = -1
    if not 0 <= number <= MAX_INDEX:
        raise InvalidArgument(f"case index is {index!r}; it is a non-negative integer below 2^63")
    return number


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
        InvalidArgument: no such set, or a risk group too rare to be filled.
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
    group_of_state = np.array(task.group_of_state)
    found: list[list[int]] = [[] for _ in task.risk_groups]
    start, n = 0, 1000
    while any(len(indices) < per_group for indices in found):
        if start >= MAX_DRAWN:
            rare = min(range(len(found)), key=lambda group: len(found[group]))
            raise InvalidArgument(
                f"{task.key}: {start} cases hold {len(found[rare])} of risk group "
                f"{task.risk_groups[rare]!r} (prevalence {task.group_prevalence[rare]:.3g}), a "
                f"stratified set needs {per_group}; raise the priors of its states"
            )
        groups = group_of_state[stream.states(start, n)]
        for group, indices in enumerate(found):
            new = np.flatnonzero(groups == group)[: per_group - len(indices)]
            indices += (start + new).tolist()
        start += n
    return tuple(stream[index] for index in sorted(index for some in found for index in some))
