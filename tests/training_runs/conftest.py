"""One short task, one light warmup on it, and one GRPO run, shared by the tests of this folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from clinical_envs.catalog import load_task
from oracles.clinical import ClinicalWorld
from tests.core.small_task import as_yaml
from tests.training_runs.few_cases import use_few_cases
from training.config import Config, config_from


@dataclass(frozen=True)
class Made:
    """A folder that training made, its configuration, and the start it came from."""

    folder: Path
    config: Config
    start: Path

    @property
    def data(self) -> dict[str, Any]:
        return json.loads((self.folder / "run.json").read_text())


@pytest.fixture(scope="session")
def task_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Titration with three turns: its words are tokens of the embedded tokenizer."""
    data = load_task("titration").model_dump(mode="json")
    data |= {"id": "ShortTitration-v0", "name": "short_titration", "turn_cap": 3}
    data["checklist"] = {}
    file = tmp_path_factory.mktemp("task") / "short_titration.yaml"
    file.write_text(as_yaml(data), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def world(task_file: Path) -> ClinicalWorld:
    return ClinicalWorld(load_task(task_file))


@pytest.fixture(scope="session")
def config(task_file: Path) -> Config:
    """Four updates with credit, evaluated and saved every second."""
    return config_from(
        {
            "task": str(task_file),
            "seed": 3,
            "teacher": {
                "hazard": [0.03, 0.25, 0.6],
                "sharpness": 2.0,
                "inverse_temperature": 9.0,
                "bias": [0.0, -0.1, 0.0],
            },
            "limits": {"turn_tokens": 12, "context_tokens": 512},
            "warmup": {"steps": 25, "warmup_steps": 5, "learning_rate": 4e-3},
            "optim": {
                "steps": 4,
                "groups": 4,
                "rollouts": 8,
                "micro_batch": 32,
                "learning_rate": 6e-4,
                "warmup_steps": 1,
                "checkpoint_every": 2,
            },
            "validation": {"every": 2, "k": 1},
            "reward": {"variant": "credit", "entropy": 0.1},
        }
    )


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small validation and test sets."""
    use_few_cases(monkeypatch)


@pytest.fixture(scope="session")
def warmup(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Made:
    from training.sft import warm_up

    folder = warm_up(config, tmp_path_factory.mktemp("warmup") / "start")
    return Made(folder, config, folder)


@pytest.fixture(scope="session")
def unbroken(config: Config, warmup: Made, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A run from its first step to its report in one go, on small validation and test sets."""
    from training.grpo import train

    folder = tmp_path_factory.mktemp("runs") / "unbroken"
    with pytest.MonkeyPatch.context() as patch:
        use_few_cases(patch)
        train(config, warmup.folder, folder)
    return Made(folder, config, warmup.folder)
