"""The checkers of Gymnasium and Stable-Baselines3, and the trainers that rely on them.

Warnings are errors in this project, so a checker that warns fails too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import RecordEpisodeStatistics

from clinical_envs.adapters.registry import array_ids, text_ids

OBSERVATION, ACTIONS = 18 + 2 + 1, 18 + 5

NEEDS = "pip install 'clinical-envs[dev]'"


@pytest.mark.parametrize("env_id", [*array_ids(), *text_ids()])
@pytest.mark.parametrize("options", [{}, {"rho": 0.5, "privileged": True}], ids=["plain", "rho"])
def test_gymnasiums_checker_passes_on_every_id(env_id: str, options: dict[str, Any]) -> None:
    check_env(gym.make(env_id, **options).unwrapped)


@pytest.mark.parametrize("env_id", array_ids())
def test_stable_baselines_checker_passes_on_every_array_id(env_id: str) -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker", reason=NEEDS)
    checker.check_env(gym.make(env_id).unwrapped, warn=True)


def test_maskable_ppo_learns_without_ever_taking_a_hidden_action() -> None:
    maskable = pytest.importorskip("sb3_contrib", reason=NEEDS)
    env = RecordEpisodeStatistics(gym.make("clinical_envs:ClinicalDx-v0"))
    taken: list[bool] = []

    class Watch(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            taken.append(bool(self.get_wrapper_attr("action_masks")()[action]))
            return super().step(action)

    model = maskable.MaskablePPO("MlpPolicy", Watch(env), n_steps=64, batch_size=32, seed=0)
    model.learn(128)
    assert taken
    assert all(taken)


@pytest.mark.slow
def test_subprocesses_that_are_spawned_find_the_environment_by_its_package() -> None:
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env", reason=NEEDS)
    make: Callable[[], gym.Env[Any, Any]] = partial(gym.make, "clinical_envs:ClinicalDx-v0")
    envs = vec_env.SubprocVecEnv([make, make], start_method="spawn")
    try:
        envs.seed(5)
        assert envs.reset().shape == (2, OBSERVATION)
        assert np.array(envs.env_method("action_masks")).shape == (2, ACTIONS)
        _, rewards, dones, infos = envs.step(np.array([0, ACTIONS - 1]))
    finally:
        envs.close()
    assert rewards[0] == -0.03
    assert dones.tolist() == [False, True]
    assert infos[1]["terminal_observation"].shape == (OBSERVATION,)
    assert infos[1]["outcome"]["asks"] == 0


def test_statistics_wrapper_and_outcome_stand_side_by_side() -> None:
    env = RecordEpisodeStatistics(gym.make("ClinicalDx-v0"))
    env.reset(seed=0)
    env.step(3)
    info = env.step(20)[-1]
    assert info["episode"]["r"] == pytest.approx(info["outcome"]["reward"], abs=1e-12)
    assert info["episode"]["l"] == 2
