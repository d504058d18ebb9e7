"""Of several processes each plays its share of a set, and nobody plays what is there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clinical_envs.episode import read_episodes
from oracles.policy import FunctionPolicy

validation = pytest.importorskip("training.validation", reason="pip install 'clinical-envs[train]'")
toy = pytest.importorskip("tests.training.toy", reason="pip install 'clinical-envs[train]'")


@pytest.mark.parametrize("size", [1, 2])
def test_a_finished_set_is_not_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """The first of two processes; what it gathers from the other is left out."""
    world, played = toy.toy_world(), []

    def guess(view: Any, rng: Any) -> Any:
        played.append(view)
        return view.commit(view.task.decision_ids[0])

    run = SimpleNamespace(episodes=lambda name: tmp_path / f"{name}.jsonl", writes=True)
    monkeypatch.setattr(validation, "process", lambda: (0, size))
    monkeypatch.setattr(validation, "gather_object", list)
    monkeypatch.setattr(validation, "everywhere", lambda work: work())
    policy = FunctionPolicy("guess", guess)
    first = validation.play(run, world, policy, "validation", "v", k=2)
    assert len(played) == len(first) == 2 * len(world.cases("validation")) // size
    again = validation.play(run, world, policy, "validation", "v", k=2)
    assert len(played) == len(first)
    assert [e.to_json() for e in again] == [e.to_json() for e in first]
    assert len(read_episodes(tmp_path / "v.jsonl").episodes) == len(first)
    assert [path.name for path in tmp_path.iterdir()] == ["v.jsonl"]
