"""Observations and infos that share memory with the environment or with each other."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from clinical_envs.adapters.registry import array_ids, text_ids


@pytest.mark.parametrize("env_id", [*array_ids(), *text_ids()])
def test_the_checker_of_gymnasium_1_4_passes(env_id: str) -> None:
    """Gymnasium#1681, #1683: returned arrays and dictionaries were reused between calls."""
    check_env(gym.make(env_id).unwrapped)


def _spoil(value: Any) -> None:
    if isinstance(value, np.ndarray):
        value[...] = 3
    elif isinstance(value, dict):
        for inner in value.values():
            _spoil(inner)
        value.clear()


@pytest.mark.parametrize("env_id", array_ids())
def test_what_a_user_does_to_returned_data_changes_nothing_later(env_id: str) -> None:
    """Gymnasium#1681, #1683: a mask changed by the user changed the next steps."""
    kept, spoilt = (gym.make(env_id, rho=0.3, privileged=True) for _ in range(2))
    calls: list[Any] = [("reset", {"seed": 3})]
    calls += [("step", action) for action in (0, 1, 1, 4, int(kept.action_space.n) - 1)]
    for name, argument in calls:
        results = []
        for env in (kept, spoilt):
            result = env.reset(**argument) if name == "reset" else env.step(argument)
            masks = env.unwrapped.action_masks()
            results.append(pickle.dumps((result, masks.tolist())))
            if env is spoilt:
                _spoil(result[0])
                _spoil(result[-1])
                _spoil(masks)
        assert results[0] == results[1]
