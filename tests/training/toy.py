"""A task small enough to know its optimum, a policy small enough to train in seconds, scripts.

The task speaks with words of the shipped tasks, so that the embedded tokenizer keeps it short:
one finding tells the two states apart (.9 against .1), one is weak and one says nothing.

    V* = .9 · .5 - .1 · .5 - .03 = .37     ask prior_vte, then commit; the best constant earns 0
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import numpy as np

from clinical_envs.case import Case
from clinical_envs.catalog import load_task
from clinical_envs.episode import Episode
from clinical_envs.protocol import action_text
from clinical_envs.simulator import Action, Ask, Commit, Encounter
from clinical_envs.task import Task
from oracles.clinical import ClinicalWorld
from oracles.evaluation import evaluate
from training.chat import ChatTokens
from training.config import Config, config_from, load_config
from training.embedded import EmbeddedSize, build_model, build_tokenizer
from training.supervised import Example, examples
from training.teacher import NoisyTeacher, TeacherShape

NEEDS = "pip install 'clinical-envs[train]'"
OPTIMUM = 0.37
STRONG, WEAK, FLAT = 0, 1, 2
NO, FULL = 0, 1
LOW, HIGH = 0, 1
SIZE = EmbeddedSize(hidden=32, layers=2, heads=2, kv_heads=1, head_dim=16, feed_forward=64)
TEACHER = TeacherShape(
    hazard=(0.15, 0.4, 0.6), sharpness=1.0, inverse_temperature=4.0, bias=(0.0, 0.0)
)


def toy_data() -> dict[str, Any]:
    """The content of the task file."""
    return {
        "id": "Toy-v0",
        "name": "toy",
        "version": "1.0.0",
        "title": "Two states, one telling finding",
        "setting": load_task("titration").setting,
        "families": [family.model_dump() for family in load_task("titration").families],
        "states": [
            {"id": "low", "risk_group": "other", "prior": 0.5, "text": "low clot risk"},
            {"id": "high", "risk_group": "high_clot", "prior": 0.5, "text": "high clot risk"},
        ],
        "risk_groups": ["other", "high_clot"],
        "high_risk_group": "high_clot",
        "decisions": [
            {"id": "no_therapy", "text": "no anticoagulant"},
            {"id": "full_intensity", "text": "full-intensity anticoagulation"},
        ],
        "utility": {"low": [0.5, -0.5], "high": [-0.5, 0.5]},
        "no_decision": "worst",
        "question_cost": 0.03,
        "turn_cap": 10,
        "findings": [
            {"id": "prior_vte", "text": "strong", "p": {"anticoagulation": [0.1, 0.9]}},
            {"id": "recent_gi_bleed", "text": "weak", "p": {"anticoagulation": [0.4, 0.6]}},
            {"id": "antiplatelet_or_nsaid", "text": "flat", "p": {"anticoagulation": [0.3, 0.3]}},
        ],
        "high_acuity": {
            "full_intensity": {"anticoagulation": [{"at_least": 1, "present": ["prior_vte"]}]}
        },
        "history": [{"version": "1.0.0", "date": "2026-01-01", "change": "First."}],
    }


def toy_task(**fields: Any) -> Task:
    """The task, with other fields where given."""
    return Task.model_validate(toy_data() | fields)


@lru_cache(maxsize=1)
def toy_world() -> ClinicalWorld:
    """The world of the task."""
    return ClinicalWorld(toy_task())


def toy_config(**sections: Any) -> Config:
    """A configuration on the toy, with other sections where given."""
    optim = {"steps": 2, "groups": 4, "rollouts": 4, "micro_batch": 16, "learning_rate": 1e-3}
    data: dict[str, Any] = {
        "task": "titration",
        "warmup": {"kind": "full"},
        "optim": optim | sections.pop("optim", {}),
        "limits": {"turn_tokens": 16, "context_tokens": 256} | sections.pop("limits", {}),
    }
    return config_from(data | sections)


def patient(task: Task, answers: Sequence[bool], state: int = LOW, index: int = 0) -> Case:
    """A patient whose state and answers are given."""
    return Case(
        task=task.key,
        split="train",
        seed=0,
        index=index,
        family=0,
        state=state,
        answers=tuple(answers),
    )


def played(
    task: Task, actions: Iterable[Action], answers: Sequence[bool], state: int = LOW
) -> Episode:
    """The record of one patient of the toy, whose answers are given."""
    encounter = Encounter(task, patient(task, answers, state))
    for action in actions:
        encounter.step(action)
    return encounter.episode(policy="scripted")


@lru_cache(maxsize=1)
def tokenizer() -> Any:
    """The embedded tokenizer."""
    return build_tokenizer()


@lru_cache(maxsize=1)
def chat() -> ChatTokens:
    """Its chat tokens."""
    return ChatTokens(tokenizer())


def fresh_model(seed: int = 0, size: EmbeddedSize = SIZE) -> Any:
    """An untrained tiny policy."""
    return build_model(tokenizer(), seed, size)


def warm_model(steps: int = 150) -> Any:
    """A tiny policy after some supervised steps on the imperfect teacher of the toy.

    After 150 it nearly plays like its teacher, value .26; after 50 it babbles now and then.
    """
    return copy.deepcopy(_warm_model(steps))


@lru_cache(maxsize=2)
def _warm_model(steps: int) -> Any:
    world = toy_world()
    episodes = evaluate(world, NoisyTeacher(world.task, TEACHER), world.cases("sft")[:200], k=1)
    return imitate(fresh_model(), examples(world.task, episodes, chat()), steps, batch=16)


def imitate(model: Any, data: Sequence[Example], steps: int, *, batch: int) -> Any:
    """The model after some supervised steps on random examples."""
    import torch

    rng = np.random.default_rng(0)
    layers = [w for name, w in model.named_parameters() if w.ndim == 2 and "embed" not in name]
    others = [w for name, w in model.named_parameters() if w.ndim == 1 or "embed" in name]
    optimizers = [
        torch.optim.Muon(layers, lr=0.02, weight_decay=0.0),
        torch.optim.AdamW(others, lr=0.01, weight_decay=0.0),
    ]
    model.train()
    for step in range(steps):
        model.zero_grad()
        supervised_loss(
            model, [data[int(i)] for i in rng.integers(len(data), size=batch)]
        ).backward()
        for optimizer, rate in zip(optimizers, (0.02, 0.01), strict=True):
            optimizer.param_groups[0]["lr"] = rate * min(1.0, (step + 1) / 10) * (1 - step / steps)
            optimizer.step()
    return model.eval()


def supervised_loss(model: Any, batch: Sequence[Example]) -> Any:
    """Mean negative log-likelihood of the policy's tokens."""
    import torch

    width = max(len(example.input_ids) for example in batch)
    ids = torch.full((len(batch), width), chat().pad)
    labels = torch.full((len(batch), width), -100)
    for i, example in enumerate(batch):
        row, mask = torch.tensor(example.input_ids), torch.tensor(example.policy_mask)
        ids[i, : len(row)] = row
        labels[i, : len(row)] = torch.where(mask == 1, row, -100)
    attention = (ids != chat().pad).long()
    return model(input_ids=ids, attention_mask=attention, labels=labels).loss


def shipped_teacher(task: str) -> TeacherShape:
    """The imperfect teacher that the shipped configurations of a task name."""
    return TeacherShape(**asdict(load_config(f"{task}-outcome-embedded").teacher))


def ask_text(task: Task, finding: int) -> str:
    """The turn that asks for a finding."""
    return action_text(task, Ask(finding))


def commit_text(task: Task, decision: int) -> str:
    """The turn that commits."""
    return action_text(task, Commit(decision))
