"""The vector environment: lane i is a single environment; seeds, options, bad input."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.adapters.registry import array_ids
from clinical_envs.adapters.single import ClinicalEnv
from clinical_envs.adapters.vector import ClinicalVectorEnv
from clinical_envs.errors import EpisodeOver, InvalidAction, InvalidArgument
from clinical_envs.task import Task
from tests.strategies import tasks

TASK = "sore_throat"
N_ACTIONS = 10


def lanes(n: int = 3, **kwargs: Any) -> ClinicalVectorEnv:
    return ClinicalVectorEnv(TASK, num_envs=n, **kwargs)


def assert_same(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> None:
    assert ours[0].tobytes() == theirs[0].tobytes()  # -0.0 is not 0.0: its sign could tell
    for mine, reference in zip(ours, theirs, strict=True):
        assert data_equivalence(mine, reference, exact=True), f"{mine}\n{reference}"


def assert_runs_like_gymnasiums_own(
    task: Any, mode: AutoresetMode, rho: float, seed: int, steps: int
) -> None:
    n = 4
    ours = ClinicalVectorEnv(task, num_envs=n, rho=rho, autoreset_mode=mode)
    theirs = SyncVectorEnv([lambda: ClinicalEnv(task, rho=rho)] * n, autoreset_mode=mode)
    generator = np.random.default_rng(seed)
    assert_same(ours.reset(seed=seed), theirs.reset(seed=seed))
    for _ in range(steps):
        actions = generator.integers(ours.single_action_space.n, size=n)
        result = ours.step(actions)
        assert_same(result, theirs.step(actions))
        ended = result[2]
        if mode is AutoresetMode.DISABLED and ended.any():
            options = {"reset_mask": ended}
            assert_same(ours.reset(options=dict(options)), theirs.reset(options=dict(options)))


@pytest.mark.parametrize("mode", AutoresetMode)
@given(tasks(certain=True), st.sampled_from((0.0, 0.3, 1.0)), st.integers(0, 1000))
def test_every_number_is_that_of_gymnasiums_vector_of_single_environments(
    mode: AutoresetMode, task: Task, rho: float, seed: int
) -> None:
    assert_runs_like_gymnasiums_own(task, mode, rho, seed, steps=12)


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("env_id", array_ids())
def test_and_so_it_is_on_every_shipped_task(mode: AutoresetMode, env_id: str) -> None:
    task = TASK if env_id == array_ids()[0] else env_id
    assert_runs_like_gymnasiums_own(task, mode, 0.0, seed=7, steps=150)


def test_the_autoreset_mode_is_an_argument_and_stands_in_the_metadata() -> None:
    assert lanes().metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    same_step = gym.make_vec("ClinicalDx-v0", num_envs=2, autoreset_mode="SameStep")
    assert same_step.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert ClinicalVectorEnv.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


def test_seeds_may_be_one_a_lane_and_a_lane_without_one_goes_on() -> None:
    envs = lanes()
    singles = [ClinicalEnv(TASK) for _ in range(3)]
    for seeds in ([5, 9, 5], [None, 2, None], [7, None, None]):
        observations, _ = envs.reset(seed=seeds)
        for env, seed, shown in zip(singles, seeds, observations, strict=True):
            np.testing.assert_array_equal(env.reset(seed=seed)[0], shown)
    for bad in ([1, 2], [1, -1, 2], [1, "x", 2]):
        with pytest.raises(InvalidArgument, match="seed"):
            envs.reset(seed=bad)
    # A refused reset changed nothing: the next one goes on as if it had not been.
    for env, shown in zip(singles, envs.reset()[0], strict=True):
        np.testing.assert_array_equal(env.reset()[0], shown)


def test_a_first_reset_without_a_seed_takes_fresh_entropy_and_differs_by_lane() -> None:
    keys = set()
    for _ in range(2):
        envs = lanes()
        envs.reset()
        keys |= set(envs._key.tolist())
    assert len(keys) == 6


def test_an_index_picks_the_case_in_every_lane() -> None:
    envs = lanes()
    envs.reset(seed=3, options={"index": 41})
    info = envs.step(np.full(3, N_ACTIONS - 1))[-1]
    assert info["outcome"]["index"].tolist() == [41] * 3
    envs.step(np.zeros(3, int))
    assert envs.step(np.full(3, N_ACTIONS - 1))[-1]["outcome"]["index"].tolist() == [42] * 3


def test_options_are_left_as_they_were_given() -> None:
    envs, options = lanes(), {"reset_mask": np.array([True, False, True]), "index": 4}
    envs.reset(seed=0)
    envs.reset(options=options)
    assert options.keys() == {"reset_mask", "index"}
    assert options["reset_mask"].tolist() == [True, False, True]


@pytest.mark.parametrize(
    "mask",
    [[True, False, False], np.array([1, 0, 0]), np.array([True]), np.zeros(3, bool)],
    ids=["list", "integers", "shape", "empty"],
)
def test_a_bad_reset_mask_is_refused(mask: Any) -> None:
    with pytest.raises(InvalidArgument, match="reset_mask"):
        lanes().reset(seed=0, options={"reset_mask": mask})


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="num_envs is 0"):
        lanes(0)
    with pytest.raises(InvalidArgument, match="known: NextStep"):
        lanes(autoreset_mode="never")
    with pytest.raises(InvalidArgument, match="did you mean 'heldout'"):
        lanes(split="holdout")
    with pytest.raises(InvalidArgument, match="did you mean 'index'"):
        lanes().reset(options={"idx": 1})


@pytest.mark.parametrize(
    "actions",
    [[0, 0], [[0, 0, 0]], [0.0, 0.0, 0.0], [True] * 3, ["0"] * 3, None, [0, 0, 10], [-1, 0, 0]],
    ids=repr,
)
def test_bad_actions_are_refused_and_no_lane_is_charged(actions: Any) -> None:
    envs = lanes()
    before, _ = envs.reset(seed=0)
    with pytest.raises(InvalidAction):
        envs.step(actions)
    after = envs.step([9, 9, 9])
    np.testing.assert_array_equal(after[0][:, :-1], before[:, :-1])
    assert (after[0][:, -1] == np.float32(5 / 6)).all()


def test_a_refused_action_names_its_lane() -> None:
    envs = lanes()
    envs.reset(seed=0)
    with pytest.raises(InvalidAction, match="lane 2 is 10; it is an integer from 0 to 9"):
        envs.step([0, 0, 10])


def test_a_lane_without_a_running_episode_is_refused() -> None:
    for mode in AutoresetMode:
        with pytest.raises(EpisodeOver, match="lane 0"):
            lanes(autoreset_mode=mode).step([0, 0, 0])
    envs = lanes(autoreset_mode=AutoresetMode.DISABLED)
    envs.reset(seed=0)
    envs.step([0, 9, 0])
    with pytest.raises(EpisodeOver, match="lane 1"):
        envs.step([0, 0, 0])
    envs.reset(options={"reset_mask": np.array([False, True, False])})
    envs.step([0, 0, 0])


def test_the_ignored_action_of_a_waiting_lane_may_be_anything() -> None:
    envs = lanes()
    envs.reset(seed=0)
    envs.step([9, 0, 0])
    _, reward, terminated, _, _ = envs.step([-7, 0, 0])
    assert (reward[0], terminated[0]) == (0.0, False)


def test_what_is_returned_can_be_changed_without_harm() -> None:
    spoilt, kept = lanes(), lanes()
    observation, info = spoilt.reset(seed=1)
    kept.reset(seed=1)
    for action in (0, 9, 3, 3):
        observation[:] = 7.0
        info["action_mask"][:] = 7
        info["_action_mask"][:] = False
        actions = np.full(3, action)
        result = spoilt.step(actions)
        assert_same(result, kept.step(np.full(3, action)))
        observation, reward, terminated, truncated, info = result
        actions[:] = 99
        reward[:] = 9.0
        terminated[:] = ~terminated
        truncated[:] = True
        for column in info.get("outcome", {}).values():
            column[:] = np.zeros_like(column)


def test_copies_and_pickles_go_on_alike_and_apart() -> None:
    envs = lanes()
    envs.reset(seed=1)
    envs.step([0, 1, 9])
    twins = [copy.deepcopy(envs), pickle.loads(pickle.dumps(envs))]
    expected = [envs.step([2, 9, 0]) for _ in range(3)]
    for twin in twins:
        for want in expected:
            assert_same(twin.step([2, 9, 0]), want)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_record_episode_statistics_agrees_with_the_outcome(mode: AutoresetMode) -> None:
    envs = RecordEpisodeStatistics(lanes(5, autoreset_mode=mode), buffer_length=1000)
    envs.reset(seed=0)
    generator = np.random.default_rng(0)
    returns, lengths = [], []
    for _ in range(200):
        *_, terminated, _, info = envs.step(generator.integers(N_ACTIONS, size=5))
        if terminated.any():
            final = info["final_info"] if mode is AutoresetMode.SAME_STEP else info
            outcome = final["outcome"]
            returns += outcome["reward"][terminated].tolist()
            lengths += (outcome["asks"] + outcome["committed"])[terminated].tolist()
            if mode is AutoresetMode.DISABLED:
                envs.reset(options={"reset_mask": terminated})
    assert len(returns) > 100
    assert list(envs.return_queue) == pytest.approx(returns, abs=1e-12)
    assert list(envs.length_queue) == lengths
