"""Registration with Gymnasium. Runs at `import clinical_envs`, so it reads names and no files.

Every shipped task has an array id (`ClinicalDx-v0`) and a text id (`ClinicalDxText-v0`);
`ClinicalAskToCommit-v0` and `ClinicalAskToCommitText-v0` take any task.
"""

from __future__ import annotations

import re
from pathlib import Path

import gymnasium

SINGLE = "clinical_envs.adapters.single:ClinicalEnv"
VECTOR = "clinical_envs.adapters.vector:ClinicalVectorEnv"
TEXT = "clinical_envs.adapters.text:ClinicalTextEnv"
ANY_TASK = "ClinicalAskToCommit-v0"
EXAMPLE_TASK = "sore_throat"


def array_ids() -> tuple[str, ...]:
    """Ids of the array environments: one a shipped task, and the one for any task.

    >>> array_ids()[0], "ClinicalDx-v0" in array_ids()
    ('ClinicalAskToCommit-v0', True)
    """
    tasks = Path(__file__).parent.parent / "tasks"
    shipped = [*tasks.glob("*.yaml"), *tasks.glob("evidence/*.yaml")]
    return (ANY_TASK, *sorted(path.stem for path in shipped))


def text_ids() -> tuple[str, ...]:
    """Ids of the text environments, in the order of `array_ids`."""
    return tuple(map(_text_id, array_ids()))


def register_environments() -> None:
    """Register every id once; a second call changes nothing."""
    for array_id in array_ids():
        task = {"task": EXAMPLE_TASK if array_id == ANY_TASK else array_id}
        _register(array_id, SINGLE, task, VECTOR)
        _register(_text_id(array_id), TEXT, task, None)


def _register(env_id: str, entry_point: str, kwargs: dict[str, str], vector: str | None) -> None:
    if env_id in gymnasium.registry:
        return
    # The environments refuse a step before reset and after the end themselves, and the turn cap is
    # part of the task: neither OrderEnforcing nor TimeLimit is wanted.
    gymnasium.register(
        env_id,
        entry_point,
        max_episode_steps=None,
        order_enforce=False,
        kwargs=kwargs,
        vector_entry_point=vector,
    )


def _text_id(array_id: str) -> str:
    return re.sub(r"-v(\d+)$", r"Text-v\1", array_id)
