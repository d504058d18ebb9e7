"""Environments against Gymnasium's own CartPole: steps a second, uniform actions, resets included.

Uniform over the legal actions for the single environment, over all actions for the vector one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import gymnasium as gym
import numpy as np

import clinical_envs  # noqa: F401 (registers the environments)
from tests.benchmarks.record import Figure, alternating, at_least, middle

SINGLE_STEPS = 40_000
VECTOR_STEPS = 300


def figures() -> Iterator[Figure]:
    ratio, detail = middle(
        alternating(lambda: _single("ClinicalDx-v0"), lambda: _single("CartPole-v1"))
    )
    yield at_least("env_single_vs_cartpole", ratio, "ratio", 0.35, detail)
    for lanes in (1024, 4096):
        ratio, detail = middle(
            alternating(
                lambda lanes=lanes: _vector("ClinicalDx-v0", lanes),
                lambda lanes=lanes: _vector("CartPole-v1", lanes),
            )
        )
        yield at_least(f"env_vector_{lanes}_vs_cartpole", ratio, "ratio", 0.5, detail)


def _single(env_id: str) -> float:
    """Steps a second of one environment through gym.make."""
    env = gym.make(env_id)
    choices = np.random.default_rng(0).random(SINGLE_STEPS).tolist()
    n = int(env.action_space.n)
    _, info = env.reset(seed=0)
    legal = _legal(info, n)
    start = time.perf_counter()
    for choice in choices:
        _, _, terminated, truncated, info = env.step(legal[int(choice * len(legal))])
        if terminated or truncated:
            _, info = env.reset()
        legal = _legal(info, n)
    took = time.perf_counter() - start
    env.close()
    return SINGLE_STEPS / took


def _legal(info: dict[str, np.ndarray], n: int) -> list[int]:
    mask = info.get("action_mask")
    return list(range(n)) if mask is None else mask.nonzero()[0].tolist()


def _vector(env_id: str, lanes: int) -> float:
    """Steps a second of a vector environment."""
    envs = gym.make_vec(env_id, num_envs=lanes, vectorization_mode="vector_entry_point")
    n = int(envs.single_action_space.n)
    actions = np.random.default_rng(0).integers(n, size=(VECTOR_STEPS, lanes))
    envs.reset(seed=0)
    for row in actions[:20]:
        envs.step(row)
    start = time.perf_counter()
    for row in actions:
        envs.step(row)
    took = time.perf_counter() - start
    envs.close()
    return VECTOR_STEPS * lanes / took
