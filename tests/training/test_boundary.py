"""What training pays never reaches evaluation."""

from __future__ import annotations

import ast
import json
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import clinical_envs
import oracles
from clinical_envs.episode import Episode
from oracles.evaluation import evaluate
from tests.training.test_rollouts import SIZE, Reciting, ask_and_commit, prompts
from tests.training.toy import TEACHER, toy_config, toy_world
from training.rollouts import Rollouts
from training.teacher import NoisyTeacher

REWARDS: list[dict[str, Any]] = [
    {},
    {"variant": "credit", "entropy": 0.2},
    {"variant": "credit", "entropy": 5.0, "clip_entropy": True},
    {"variant": "credit", "outcome": 0.0, "regret": 1.0, "per_turn": True, "scale": "batch"},
    {"variant": "credit", "decision_change": 3.0, "sufficiency": 2.0},
]


def trained_on(reward: dict[str, Any]) -> tuple[list[float], list[Episode]]:
    """Rewards and episodes of one batch of rollouts."""
    config = toy_config(reward=reward, optim={"groups": 3, "rollouts": SIZE, "micro_batch": SIZE})
    play = Rollouts(toy_world(), config, Reciting(ask_and_commit))
    columns = play(prompts(5, 2, 7), SimpleNamespace(state=SimpleNamespace(global_step=0)))
    return columns["reward"], [scored.episode for scored in play.last if scored.episode]


def test_the_record_and_the_assessment_are_the_same_whatever_was_paid() -> None:
    paid, records, judged = [], [], []
    for reward in REWARDS:
        rewards, episodes = trained_on(reward)
        assert len(episodes) == 3 * SIZE
        paid.append(tuple(rewards))
        records.append([episode.model_dump_json() for episode in episodes])
        judged.append([toy_world().assess(episode) for episode in episodes])
    assert len(set(paid)) == len(REWARDS)
    assert all(record == records[0] for record in records)
    assert all(rows == judged[0] for rows in judged)


def test_a_record_holds_nothing_of_what_was_paid() -> None:
    _, episodes = trained_on({"variant": "credit", "entropy": 5.0})
    keys = set(json.loads(episodes[0].model_dump_json()))
    assert keys <= set(Episode.model_fields)
    assert not episodes[0].meta


def test_evaluation_and_audit_never_call_a_training_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    world = toy_world()
    policy = NoisyTeacher(world.task, TEACHER)
    cases = world.cases("heldout")

    def judged() -> list[Any]:
        return [world.assess(e) for e in evaluate(world, policy, cases, k=2)]

    before = judged()
    for module in ("training.rewards", "training.rollouts", "training.advantages"):
        for name, value in vars(import_module(module)).items():
            if callable(value) and getattr(value, "__module__", "").startswith("training."):
                monkeypatch.setattr(f"{module}.{name}", None)
    assert judged() == before


@pytest.mark.parametrize("package", [clinical_envs, oracles], ids=lambda package: package.__name__)
def test_nothing_that_evaluates_imports_training(package: Any) -> None:
    files = list(Path(package.__path__[0]).rglob("*.py"))
    assert len(files) > 10
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not any(name.split(".")[0] == "training" for name in names), file
