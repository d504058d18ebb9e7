"""Registration: every id makes, nothing heavy is imported, and a second call is silent."""

from __future__ import annotations

import subprocess
import sys

import gymnasium as gym
import pytest

import clinical_envs
from clinical_envs.adapters.registry import (
    ANY_TASK,
    EXAMPLE_TASK,
    array_ids,
    register_environments,
    text_ids,
)
from clinical_envs.catalog import evidence_ids, example_task_path, task_ids
from clinical_envs.errors import UnknownTask
from clinical_envs.task import text_id


def test_ids_are_those_of_the_catalog_and_the_one_for_any_task() -> None:
    assert array_ids() == (ANY_TASK, *sorted((*task_ids(), *evidence_ids())))
    assert text_ids() == tuple(map(text_id, array_ids()))
    assert example_task_path().stem == EXAMPLE_TASK


@pytest.mark.parametrize("env_id", [*array_ids(), *text_ids()])
def test_every_id_makes_without_arguments_and_with_the_package_in_front(env_id: str) -> None:
    for name in (env_id, f"clinical_envs:{env_id}"):
        env = gym.make(name)
        env.reset(seed=0)
        assert env.spec is not None
        assert env.spec.id == env_id
        assert env.spec.max_episode_steps is None
        env.close()


@pytest.mark.parametrize("env_id", array_ids())
def test_array_ids_have_a_vector_environment(env_id: str) -> None:
    envs = gym.make_vec(env_id, num_envs=3)
    assert type(envs.unwrapped).__name__ == "ClinicalVectorEnv"
    assert envs.reset(seed=0)[0].shape[0] == 3


def test_any_task_is_given_by_name_id_file_or_object() -> None:
    path = example_task_path()
    for task in ("refill", "ClinicalRefill-v0", clinical_envs.load_task("refill")):
        assert gym.make(ANY_TASK, task=task).action_space == gym.spaces.Discrete(12 + 5)
    for file in (path, str(path)):
        assert gym.make(ANY_TASK, task=file).action_space == gym.spaces.Discrete(6 + 4)
        assert gym.make_vec(ANY_TASK, task=file, num_envs=2).reset(seed=0)[0].shape == (2, 9)
    with pytest.raises(UnknownTask, match="did you mean 'refill'"):
        gym.make(ANY_TASK, task="refil")


def test_registering_again_changes_nothing_and_does_not_warn() -> None:
    before = dict(gym.registry)
    register_environments()
    assert gym.registry == before


def test_importing_the_package_imports_gymnasium_and_nothing_heavy() -> None:
    heavy = ["pydantic", "yaml", "scipy", "matplotlib", "torch", "rich", "typer"]
    code = (
        "import sys, gymnasium; before = set(sys.modules); import clinical_envs; "
        f"print([name for name in {heavy} if name in set(sys.modules) - before])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
