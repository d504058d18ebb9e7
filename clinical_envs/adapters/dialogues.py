"""Which dialogue words a task: its own where it has one, else the JSON protocol of findings."""

from __future__ import annotations

import importlib

from clinical_envs.protocol import Dialogue
from clinical_envs.task import Task

_OWN = {
    "ClinicalFactCheck-v0": "clinical_envs.factcheck.dialogue:FactCheckDialogue",
    "ClinicalFactCheckLabel-v0": "clinical_envs.factcheck.dialogue:LabelDialogue",
    "ClinicalCheckedQA-v0": "clinical_envs.checkedqa.dialogue:CheckedQADialogue",
    "ClinicalRubric-v0": "clinical_envs.rubric.dialogue:RubricDialogue",
}
"""Task id -> `module:class` of a dialogue with its own wording."""


def dialogue_for(task: Task) -> type[Dialogue]:
    """The dialogue class of a task.

    >>> from clinical_envs import load_task
    >>> dialogue_for(load_task("diagnostics")).__name__
    'Dialogue'
    """
    if task.id not in _OWN:
        return Dialogue
    module, _, name = _OWN[task.id].partition(":")
    found: type[Dialogue] = getattr(importlib.import_module(module), name)
    return found
