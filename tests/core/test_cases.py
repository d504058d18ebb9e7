"""A case is a function of (task and version, split, seed, index), however it is drawn."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import re
import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clinical_envs.case import (
    MAX_INDEX,
    SET_NAMES,
    SPLITS,
    Case,
    CaseSampler,
    CaseStream,
    case_set,
    stream_key,
)
from clinical_envs.catalog import load_task, task_ids
from clinical_envs.errors import InvalidArgument
from clinical_envs.simulator import Encounter
from clinical_envs.task import Task
from tests.core.small_task import small_task, small_task_data
from tests.strategies import RHOS, cases, tasks

# Computed once from the published seeds; any change of the generator changes them.
GROUP_COUNTS = {
    ("diagnostics", "heldout"): {"benign": 23, "moderate": 34, "high": 3},
    ("diagnostics", "heldout200"): {"benign": 86, "moderate": 103, "high": 11},
    ("refill", "heldout"): {"benign": 34, "moderate": 18, "high": 8},
    ("refill", "heldout200"): {"benign": 120, "moderate": 58, "high": 22},
    ("titration", "heldout"): {"high_clot": 4, "other": 56},
    ("titration", "heldout200"): {"high_clot": 14, "other": 186},
}
SET_SIZES = {"train": 300, "heldout": 60, "heldout200": 200, "sft": 800}

positions = st.integers(0, 2**40) | st.integers(0, 300)


def _groups(task: Task, cases: tuple[Case, ...]) -> dict[str, int]:
    return Counter(task.risk_groups[task.group_of_state[case.state]] for case in cases)


def _patient(case: Case) -> tuple[int, int, tuple[bool, ...]]:
    return case.family, case.state, case.answers


@functools.cache
def _straight() -> list[Case]:
    return CaseStream(small_task(), "train", 5).block(0, 401)


@given(tasks(), st.sampled_from(SPLITS), st.integers(0, 2**80), positions, st.sampled_from(RHOS))
def test_a_case_alone_is_the_case_in_bulk(
    task: Task, split: str, seed: int, index: int, rho: float
) -> None:
    alone = CaseStream(task, split, seed, rho)[index]
    assert alone.index == index
    assert CaseStream(task, split, seed, rho).block(index, 1) == [alone]
    start = max(0, index - 5)
    assert CaseStream(task, split, seed, rho).block(start, 11)[index - start] == alone


@settings(max_examples=30)
@given(st.data(), st.lists(st.integers(0, 400), min_size=1, max_size=6))
def test_the_order_of_access_changes_no_case(data: st.DataObject, order: list[int]) -> None:
    straight = _straight()
    stream = CaseStream(small_task(), "train", 5)
    assert [stream[i] for i in order] == [straight[i] for i in order]
    shuffled = data.draw(st.permutations(order))
    assert [stream[i] for i in shuffled] == [straight[i] for i in shuffled]


@given(tasks(), st.lists(st.tuples(st.integers(0, 50), positions), min_size=1, max_size=20))
def test_many_streams_at_once_give_the_cases_of_each(
    task: Task, wanted: list[tuple[int, int]]
) -> None:
    keys = np.array([stream_key(task, "test", seed) for seed, _ in wanted])
    indices = np.array([index for _, index in wanted], dtype=np.uint64)
    sampler = CaseSampler(task, 0.3)
    batch = sampler.draw(sampler.place(keys, indices))
    for i, (seed, index) in enumerate(wanted):
        case = CaseStream(task, "test", seed, 0.3)[index]
        assert (int(batch.family[i]), int(batch.state[i])) == (case.family, case.state)
        assert tuple(batch.answers[i].tolist()) == case.answers
        assert tuple(np.flatnonzero(batch.revealed[i]).tolist()) == case.revealed


@given(tasks(certain=True), st.integers(0, 1000), positions, st.sampled_from(RHOS))
def test_the_parts_of_cases_drawn_on_demand_are_those_of_whole_cases(
    task: Task, seed: int, index: int, rho: float
) -> None:
    sampler = CaseSampler(task, rho)
    keys = np.full(40, stream_key(task, "train", seed))
    place = sampler.place(keys, np.arange(index, index + 40, dtype=np.uint64))
    whole = sampler.draw(place)
    family, state = sampler.opening(place)
    np.testing.assert_array_equal(family, whole.family)
    np.testing.assert_array_equal(state, whole.state)
    for q in range(len(task.findings)):
        asked = (np.arange(40) + q) % len(task.findings)
        answers = sampler.answers(place, sampler.situation(family, state), asked)
        np.testing.assert_array_equal(answers, whole.answers[np.arange(40), asked])


@given(tasks(certain=True), st.integers(0, 1000), positions)
def test_rho_reveals_more_of_the_same_patient(task: Task, seed: int, index: int) -> None:
    shown = [CaseStream(task, "train", seed, rho)[index] for rho in (0.0, 0.2, 0.7, 1.0)]
    assert len({_patient(case) for case in shown}) == 1
    assert shown[0].revealed == ()
    assert shown[-1].revealed == tuple(range(len(task.findings)))
    for fewer, more in itertools.pairwise(shown):
        assert set(fewer.revealed) <= set(more.revealed)


@given(tasks(certain=True), st.integers(0, 1000), positions)
def test_a_certain_answer_is_given_and_an_impossible_one_never(
    task: Task, seed: int, index: int
) -> None:
    case = CaseStream(task, "train", seed)[index]
    chance = task.likelihood[case.family, :, case.state]
    for q, present in enumerate(case.answers):
        assert chance[q] > 0.0 if present else chance[q] < 1.0


@pytest.mark.parametrize("task_id", task_ids())
def test_no_hash_is_shared_between_sets(task_id: str) -> None:
    task = load_task(task_id)
    hashes = {name: {case.hash for case in case_set(task, name).cases} for name in SET_NAMES}
    assert hashes["heldout"] < hashes.pop("heldout200")
    for name, some in hashes.items():
        assert len(some) == len(case_set(task, name).cases)
    for (_, some), (_, others) in itertools.combinations(hashes.items(), 2):
        assert not some & others


def test_streams_differ_by_task_version_split_and_seed() -> None:
    old = small_task()
    newer = small_task_data() | {"version": "1.0.1"}
    newer["history"].append({"version": "1.0.1", "date": "2026-01-02", "change": "Second."})
    new = Task.model_validate(newer)
    streams = [
        CaseStream(task, split, seed).block(0, 200)
        for task in (old, new)
        for split in SPLITS
        for seed in range(10)
    ]
    hashes = [case.hash for stream in streams for case in stream]
    assert len(set(hashes)) == len(hashes)
    drawn = {tuple(_patient(case) for case in stream) for stream in streams}
    assert len(drawn) == len(streams)


def test_a_thousand_seeds_do_not_share_a_first_case_and_neighbours_are_not_shifted() -> None:
    task = load_task("diagnostics")
    first = [CaseStream(task, "train", seed)[0] for seed in range(1000)]
    assert len({case.hash for case in first}) == 1000
    assert len({_patient(case) for case in first}) > 100
    here, there = (CaseStream(task, "train", seed).block(0, 200) for seed in (3, 4))
    for shift in range(-20, 21):
        pairs = [(here[i], there[i + shift]) for i in range(30, 150)]
        equal = sum(_patient(a) == _patient(b) for a, b in pairs)
        assert equal < 10  # two independent patients are equal three times in a thousand


@given(cases(small_task()))
def test_the_hash_covers_identity_and_content(case: Case) -> None:
    changes: dict[str, Any] = {
        "task": case.task + "1",
        "split": case.split + "x",
        "seed": case.seed + 1,
        "index": case.index + 1,
        "family": case.family + 1,
        "state": case.state + 1,
        "answers": (not case.answers[0], *case.answers[1:]),
        "revealed": case.revealed[1:] if case.revealed else (0,),
    }
    assert set(changes) == {field.name for field in dataclasses.fields(Case)}
    assert dataclasses.replace(case).hash == case.hash
    for name, value in changes.items():
        assert dataclasses.replace(case, **{name: value}).hash != case.hash


@given(cases(small_task()))
def test_the_representation_of_a_case_shows_its_identity_only(case: Case) -> None:
    other = dataclasses.replace(
        case, state=case.state + 1, answers=tuple(not answer for answer in case.answers)
    )
    assert repr(other) == repr(case)
    assert str(other) == str(case)
    assert f"index={case.index}" in repr(case)


def test_the_representation_of_many_cases_shows_nothing_hidden() -> None:
    sampler = CaseSampler(small_task(), 0.3)
    key = np.array([stream_key(small_task(), "train", 0)])
    shown = repr(sampler.draw(sampler.place(key, np.zeros(1, np.uint64))))
    assert shown.startswith("CaseBatch(family=")
    assert "state" not in shown
    assert "answers" not in shown


@pytest.mark.parametrize("number", [np.int64(70), np.uint8(70), np.array(70)])
def test_a_numpy_integer_is_an_index_and_a_seed(number: Any) -> None:
    task = small_task()
    case = CaseStream(task, "train", number)[number]
    assert case == CaseStream(task, "train", 70)[70]
    assert (type(case.seed), type(case.index)) == (int, int)
    assert CaseStream(task, "train", 70).block(number, 1) == [case]
    numbers: dict[str, Any] = {"index": number, "state": np.int64(case.state)}
    assert dataclasses.replace(case, **numbers).hash == case.hash


def test_the_last_case_of_a_stream_can_be_had() -> None:
    stream = CaseStream(small_task(), "train", 0)
    assert stream[MAX_INDEX].index == MAX_INDEX == 2**63 - 1
    assert stream.block(MAX_INDEX, 1) == [stream[MAX_INDEX]]


@given(st.integers(0, 2**62), st.integers(0, 100))
def test_the_states_of_a_stretch_are_those_of_its_cases(start: int, n: int) -> None:
    stream = CaseStream(small_task(), "train", 3)
    assert stream.states(start, n).tolist() == [case.state for case in stream.block(start, n)]


def test_a_running_encounter_and_its_stream_print_nothing_hidden() -> None:
    task = small_task()
    stream = CaseStream(task, "train", 0)
    for shown in (repr(stream), repr(Encounter(task, stream[0])), str(Encounter(task, stream[0]))):
        assert "state" not in shown
        assert "answers" not in shown
        assert not any(state in shown for state in task.state_ids)


_PRINT_HASHES = """
import hashlib
from clinical_envs import CaseStream, load_task, task_ids
for name in task_ids():
    cases = CaseStream(load_task(name), "heldout", 100, rho=0.3).block(0, 100)
    print(hashlib.sha256("".join(case.hash for case in cases).encode()).hexdigest())
"""


def test_cases_depend_neither_on_the_process_nor_on_its_hash_seed() -> None:
    def printed(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", _PRINT_HASHES]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return run.stdout

    first = printed("0")
    assert len(first.split()) == len(task_ids())
    assert printed("4242") == first


@pytest.mark.parametrize(("name", "which"), GROUP_COUNTS)
def test_the_published_sets_hold_the_published_counts_of_risk_groups(name: str, which: str) -> None:
    task = load_task(name)
    assert _groups(task, case_set(task, which).cases) == GROUP_COUNTS[name, which]


@pytest.mark.parametrize("name", ["diagnostics", "refill", "titration"])
def test_prefix_sets_are_prefixes_and_stratified_sets_the_first_of_each_group(name: str) -> None:
    task = load_task(name)
    for which, size in SET_SIZES.items():
        found = case_set(task, which)
        assert not found.stratified
        assert [case.index for case in found.cases] == list(range(size))
    assert case_set(task, "heldout").cases == case_set(task, "heldout200").cases[:60]
    for which in ("validation", "test"):
        found = case_set(task, which)
        assert found.stratified
        assert {case.split for case in found.cases} == {which}
        assert _groups(task, found.cases) == dict.fromkeys(task.risk_groups, 120)
        chosen = {case.index for case in found.cases}
        counted: Counter[int] = Counter()
        for case in CaseStream(task, which, 100).block(0, max(chosen) + 1):
            group = task.group_of_state[case.state]
            assert (case.index in chosen) == (counted[group] < 120)
            counted[group] += 1


def test_a_rare_group_is_filled() -> None:
    data = small_task_data()
    data["states"][0]["prior"], data["states"][2]["prior"] = 0.7495, 0.0005
    task = Task.model_validate(data)
    assert _groups(task, case_set(task, "test").cases) == {"low": 120, "urgent": 120}


@pytest.mark.parametrize(("prior", "held"), [(0.0, 0), (2e-6, 8)])
def test_a_stratified_set_with_too_rare_a_group_is_refused_with_the_numbers(
    prior: float, held: int
) -> None:
    data = small_task_data()
    data["states"][0]["prior"], data["states"][2]["prior"] = 0.75 - prior, prior
    with pytest.raises(InvalidArgument) as caught:
        case_set(Task.model_validate(data), "test")
    assert str(caught.value) == (
        f"SoreThroat-v0@1.0.0: 2000000 cases hold {held} of risk group 'urgent' (prevalence "
        f"{prior:.3g}), a stratified set needs 120; raise the priors of its states"
    )


def test_nonsense_arguments_are_refused_on_one_line() -> None:
    task = small_task()
    with pytest.raises(InvalidArgument, match=r"no split 'trian'; did you mean 'train'\?"):
        CaseStream(task, "trian", 0)
    for seed in (-1, 1.5, "7", None):
        with pytest.raises(InvalidArgument, match=f"seed is {seed!r}; a seed is a non-negative"):
            CaseStream(task, "train", seed)  # type: ignore[arg-type]
    stream: Any = CaseStream(task, "train", 0)
    for index in (-1, 2**63, 2**64, 1.5, "7", slice(3)):
        message = re.escape(f"case index is {index!r}; it is a non-negative integer below 2^63")
        with pytest.raises(InvalidArgument, match=message):
            stream[index]
        with pytest.raises(InvalidArgument, match=message):
            stream.block(index, 1)
    with pytest.raises(InvalidArgument, match=r"no set 'held_out'; did you mean 'heldout'\?"):
        case_set(task, "held_out")
    for rho in (-0.1, 1.1, float("nan")):
        with pytest.raises(InvalidArgument, match=r"rho is .*; a reveal fraction lies in \[0, 1\]"):
            CaseStream(task, "train", 0, rho)
    with pytest.raises(TypeError, match="endless"):
        len(CaseStream(task, "train", 0))
