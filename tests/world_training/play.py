"""Scripted episodes of the evidence worlds."""

from __future__ import annotations

from collections.abc import Sequence

from clinical_envs.adapters.dialogues import dialogue_for
from clinical_envs.case import Case, case_set
from clinical_envs.episode import Episode
from clinical_envs.simulator import Action, Ask, Commit, Encounter, Invalid
from clinical_envs.task import Task


def first_cases(task: Task, n: int) -> Sequence[Case]:
    """Cases of the `train` set."""
    return case_set(task, "train").cases[:n]


def spoken(task: Task, case: Case, actions: Sequence[Action], *, rollout: int = 0) -> Episode:
    """An encounter in text that plays these actions, and wastes the turns that are left."""
    dialogue = dialogue_for(task)(Encounter(task, case))
    for action in actions:
        dialogue.play(action)
    while not dialogue.encounter.over:
        dialogue.play(Invalid("too_long"))
    raw = tuple(m["content"] for m in dialogue.messages if m["role"] == "assistant")
    return dialogue.encounter.episode(policy="scripted", rollout=rollout, raw=raw)


def told(task: Task, case: Case, text: str) -> Episode:
    """One answer in one's own words."""
    dialogue = dialogue_for(task)(Encounter(task, case))
    dialogue.step(text)
    assert dialogue.encounter.over
    return dialogue.encounter.episode(policy="scripted", rollout=0, raw=(text,))


def committed(task: Task, case: Case, decision: str, *, asks: int = 1) -> Episode:
    """The first findings, then a decision by name."""
    actions = [*map(Ask, range(asks)), Commit(task.decision(decision))]
    return spoken(task, case, actions)
