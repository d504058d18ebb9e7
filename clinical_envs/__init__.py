"""Clinical ask-to-commit environments: what to ask, when to stop, what to do.

Importing the package registers the environments with Gymnasium and nothing more; the parts
below are loaded on first use.

>>> import clinical_envs, gymnasium as gym
>>> env = gym.make("ClinicalDx-v0", split="train")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from clinical_envs.adapters.registry import register_environments

if TYPE_CHECKING:
    from clinical_envs.belief import InfoState, entropy, info_state, posterior, predictive
    from clinical_envs.case import Case, CaseSet, CaseStream, case_set
    from clinical_envs.catalog import load_task, task_ids
    from clinical_envs.episode import Episode, read_episodes, write_episodes
    from clinical_envs.errors import ClinicalEnvsError
    from clinical_envs.protocol import parse_action, prompt
    from clinical_envs.simulator import Ask, Commit, Encounter, Invalid
    from clinical_envs.task import Task
    from clinical_envs.verifier import Outcome, verify

__version__ = "0.1.0"

register_environments()

_HOME = {
    "belief": ("InfoState", "entropy", "info_state", "posterior", "predictive"),
    "case": ("Case", "CaseSet", "CaseStream", "case_set"),
    "catalog": ("load_task", "task_ids"),
    "episode": ("Episode", "read_episodes", "write_episodes"),
    "errors": ("ClinicalEnvsError",),
    "protocol": ("parse_action", "prompt"),
    "simulator": ("Ask", "Commit", "Encounter", "Invalid"),
    "task": ("Task",),
    "verifier": ("Outcome", "verify"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Ask",
    "Case",
    "CaseSet",
    "CaseStream",
    "ClinicalEnvsError",
    "Commit",
    "Encounter",
    "Episode",
    "InfoState",
    "Invalid",
    "Outcome",
    "Task",
    "case_set",
    "entropy",
    "info_state",
    "load_task",
    "parse_action",
    "posterior",
    "predictive",
    "prompt",
    "read_episodes",
    "task_ids",
    "verify",
    "write_episodes",
]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(importlib.import_module(f"clinical_envs.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'clinical_envs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
