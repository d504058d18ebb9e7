"""Autoreset modes that changed returns, lost final observations or charged ignored actions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

ENV_ID = "clinical_envs:ClinicalDx-v0"
N_ACTIONS, SEED, LANES, EPISODES = 23, 12345, 4, 260
make_single = partial(gym.make, ENV_ID)
# One script of actions an episode and a lane; a turn cap of 12 bounds its length.
SCRIPT = np.random.default_rng(0).integers(N_ACTIONS, size=(LANES, EPISODES, 12))


class Record(NamedTuple):
    """What one episode came to."""

    index: int
    paid: float
    length: int
    asks: int
    repeats: int
    state: str
    last_observation: bytes


def played_alone(lane: int) -> list[Record]:
    env = make_single()
    records = []
    for episode in range(EPISODES):
        env.reset(seed=SEED + lane) if episode == 0 else env.reset()
        paid, length, over = 0.0, 0, False
        while not over:
            action = int(SCRIPT[lane, episode, length])
            observation, reward, over, _, info = env.step(action)
            paid, length = paid + float(reward), length + 1
        records.append(_record(info["outcome"], paid, length, observation))
    return records


def played_together(envs: VectorEnv[Any, Any, Any], mode: AutoresetMode) -> list[list[Record]]:
    records: list[list[Record]] = [[] for _ in range(LANES)]
    paid, length = np.zeros(LANES), np.zeros(LANES, int)
    ignored = np.zeros(LANES, bool)
    envs.reset(seed=SEED)
    while min(map(len, records)) < EPISODES:
        # An ignored action asks for finding 0: were it played, it would be charged and counted.
        actions = np.array(
            [
                0 if ignored[lane] else SCRIPT[lane, len(done) % EPISODES, length[lane]]
                for lane, done in enumerate(records)
            ]
        )
        observations, rewards, ended, _, info = envs.step(actions)
        assert not rewards[ignored].any()
        assert not ended[ignored].any()
        paid += rewards
        length += ~ignored
        final = info["final_info"] if mode is AutoresetMode.SAME_STEP and ended.any() else info
        for lane in np.flatnonzero(ended):
            same_step = mode is AutoresetMode.SAME_STEP
            last = info["final_obs"][lane] if same_step else observations[lane]
            outcome = {name: column[lane] for name, column in final["outcome"].items()}
            records[lane].append(_record(outcome, paid[lane], length[lane], last))
            paid[lane], length[lane] = 0.0, 0
        ignored = ended if mode is AutoresetMode.NEXT_STEP else np.zeros(LANES, bool)
        if mode is AutoresetMode.DISABLED and ended.any():
            envs.reset(options={"reset_mask": ended.copy()})
    envs.close()
    return records


def _record(outcome: dict[str, Any], paid: float, length: int, last: Any) -> Record:
    facts = (outcome[name] for name in ("asks", "repeats", "state"))
    return Record(int(outcome["index"]), float(paid), int(length), *facts, last.tobytes())


@pytest.fixture(scope="module")
def alone() -> list[list[Record]]:
    return [played_alone(lane) for lane in range(LANES)]


def ours(mode: AutoresetMode) -> VectorEnv[Any, Any, Any]:
    return gym.make_vec(ENV_ID, num_envs=LANES, autoreset_mode=mode)


def in_sync(mode: AutoresetMode) -> VectorEnv[Any, Any, Any]:
    return SyncVectorEnv([make_single] * LANES, autoreset_mode=mode)


def in_subprocesses(mode: AutoresetMode) -> VectorEnv[Any, Any, Any]:
    return AsyncVectorEnv([make_single] * LANES, autoreset_mode=mode, context="spawn")


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize(
    "make", [ours, in_sync, pytest.param(in_subprocesses, marks=pytest.mark.slow)]
)
def test_a_thousand_episodes_are_the_same_in_every_mode_and_every_vector_environment(
    make: Callable[[AutoresetMode], VectorEnv[Any, Any, Any]],
    mode: AutoresetMode,
    alone: list[list[Record]],
) -> None:
    """Gymnasium#1227, #1103, cleanrl#499: modes changed returns and lost final observations."""
    assert sum(map(len, alone)) >= 1000
    together = played_together(make(mode), mode)
    for lane in range(LANES):
        assert together[lane][:EPISODES] == alone[lane]


@pytest.mark.parametrize("mode", AutoresetMode)
def test_the_statistics_wrapper_counts_every_episode_and_no_ignored_action(
    mode: AutoresetMode,
) -> None:
    """Gymnasium#1624: statistics were wrong under SAME_STEP."""
    envs = RecordEpisodeStatistics(ours(mode), buffer_length=10**6)
    played = [record for lane in played_together(envs, mode) for record in lane]
    counted = sorted(zip(envs.length_queue, envs.return_queue, strict=True))
    expected = sorted((record.length, record.paid) for record in played)
    assert len(expected) >= 1000
    np.testing.assert_allclose(counted, expected, rtol=0.0, atol=1e-12)
