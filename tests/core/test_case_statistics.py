"""Drawn cases have the probabilities of the file and are independent.

Seeds are fixed, so nothing here is random from run to run. The tolerance is 4.5 standard errors:
a fair generator breaks one of the about 800 comparisons with probability 0.5 %.
"""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from clinical_envs.case import SPLITS, CaseBatch, CaseSampler, stream_key
from clinical_envs.catalog import load_task
from clinical_envs.task import Task

TASKS = ("diagnostics", "refill", "titration")
N = 100_000
RHO = 0.3
MAX_SE = 4.5

BoolArray = npt.NDArray[np.bool_]


class Sample(NamedTuple):
    """A task and many of its cases."""

    task: Task
    batch: CaseBatch


@functools.cache
def _draw(name: str, split: str = "train", seed: int = 1) -> Sample:
    task = load_task(name)
    sampler = CaseSampler(task, RHO)
    keys = np.full(N, stream_key(task, split, seed))
    return Sample(task, sampler.draw(sampler.place(keys, np.arange(N, dtype=np.uint64))))


def _check_share(events: BoolArray, p: float) -> None:
    n = events.size
    if p in (0.0, 1.0):
        assert events.mean() == p
        return
    assert abs(events.mean() - p) < MAX_SE * np.sqrt(p * (1 - p) / n)


def _check_uncorrelated(a: npt.NDArray[np.generic], b: npt.NDArray[np.generic]) -> None:
    """The sample correlation of independent variables has standard error 1 / sqrt(n)."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    assert abs(np.corrcoef(x, y)[0, 1]) < MAX_SE / np.sqrt(x.size)


@pytest.mark.parametrize("name", TASKS)
def test_states_follow_the_prior_and_families_are_equally_likely(name: str) -> None:
    task, batch = _draw(name)
    for state, p in enumerate(task.prior):
        _check_share(batch.state == state, p)
    for family in range(len(task.families)):
        _check_share(batch.family == family, 1 / len(task.families))


@pytest.mark.parametrize("name", TASKS)
def test_answers_follow_their_probabilities_in_every_state_and_family(name: str) -> None:
    task, batch = _draw(name)
    for family, state in itertools.product(range(len(task.families)), range(len(task.states))):
        here = (batch.family == family) & (batch.state == state)
        for q, finding in enumerate(task.findings):
            p = finding.p[task.family_ids[family]][state]
            _check_share(batch.answers[here, q], p)


@pytest.mark.parametrize("name", TASKS)
def test_answers_are_independent_given_state_and_family(name: str) -> None:
    task, batch = _draw(name)
    state = int(task.prior.argmax())
    here = (batch.family == 0) & (batch.state == state)
    for q, r in itertools.combinations(range(len(task.findings)), 2):
        _check_uncorrelated(batch.answers[here, q], batch.answers[here, r])


@pytest.mark.parametrize("name", TASKS)
def test_reveals_are_independent_of_everything_else(name: str) -> None:
    task, batch = _draw(name)
    here = batch.state == int(task.prior.argmax())
    for q in range(len(task.findings)):
        _check_share(batch.revealed[:, q], RHO)
        _check_uncorrelated(batch.revealed[:, q], batch.state)
        _check_uncorrelated(batch.revealed[here, q], batch.answers[here, q])
        _check_uncorrelated(batch.revealed[:, q], batch.revealed[:, q - 1])


@pytest.mark.parametrize("name", ["diagnostics", "refill"])
def test_the_state_is_independent_of_the_family(name: str) -> None:
    _, batch = _draw(name)
    _check_uncorrelated(batch.state, batch.family)


@pytest.mark.parametrize("name", TASKS)
def test_neighbouring_cases_are_independent(name: str) -> None:
    _, batch = _draw(name)
    for lag in (1, 2, 3, 64):
        _check_uncorrelated(batch.state[:-lag], batch.state[lag:])
        for q in range(3):
            _check_uncorrelated(batch.answers[:-lag, q], batch.answers[lag:, q])
        _check_uncorrelated(batch.state[:-lag], batch.answers[lag:, 0])


@pytest.mark.parametrize("name", TASKS)
def test_streams_of_different_splits_and_neighbouring_seeds_are_independent(name: str) -> None:
    batches = [_draw(name, split).batch for split in SPLITS]
    batches += [_draw(name, "train", seed).batch for seed in (0, 2, 3)]
    for one, other in itertools.combinations(batches, 2):
        _check_uncorrelated(one.state, other.state)
        _check_uncorrelated(one.answers[:, 0], other.answers[:, 0])
