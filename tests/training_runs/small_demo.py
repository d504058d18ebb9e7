"""The demo with one task, four reference policies, few cases and few steps.

As a script it is `clinical-envs` made so, for tests that need another process.
"""

from __future__ import annotations

import pytest

import clinical_envs.catalog
import oracles.policies
from tests.training_runs import few_cases
from training import story
from training.cli import demo_command

TASK = "titration"
SETTINGS = {
    "warmup.steps": 80,
    "optim.steps": 4,
    "optim.groups": 4,
    "optim.micro_batch": 32,
    "optim.checkpoint_every": 2,
    "validation.every": 2,
    "validation.k": 1,
}


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the patch is undone."""
    references = ("oracle", "random", "1_ask", "checklist")
    settings = tuple(f"{name}={value}" for name, value in SETTINGS.items())
    few_cases.use_few_cases(monkeypatch)
    monkeypatch.setattr(clinical_envs.catalog, "task_ids", lambda: ("ClinicalTitration-v0",))
    monkeypatch.setattr(oracles.policies, "REFERENCES", references)
    monkeypatch.setattr(demo_command, "K", 2)
    monkeypatch.setattr(story, "TASK", TASK)
    monkeypatch.setattr(story, "SETTINGS", settings)
    monkeypatch.setattr(story, "PROGRAM", few_cases.__name__)


if __name__ == "__main__":
    from training.cli import main

    make_small(pytest.MonkeyPatch())
    main()
