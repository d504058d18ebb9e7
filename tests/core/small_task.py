"""A small valid task file in which every part of the format occurs, and ways to break it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from clinical_envs.catalog import load_task
from clinical_envs.errors import InvalidTask
from clinical_envs.task import Task

SMALL_TASK = """\
id: SoreThroat-v0
name: sore_throat_test
version: 1.0.0
title: "Sore throat"
setting: "You see a patient with a sore throat."
families:
  - {id: child, text: "A child."}
  - {id: adult, text: "An adult."}
states:
  - {id: viral, risk_group: low, prior: 0.7, text: "a virus"}
  - {id: strep, risk_group: low, prior: 0.25, text: "streptococci"}
  - {id: abscess, risk_group: urgent, prior: 0.05, text: "an abscess"}
risk_groups: [low, urgent]
high_risk_group: urgent
decisions:
  - {id: reassure, text: "reassure"}
  - {id: antibiotic, text: "give an antibiotic"}
  - {id: refer, text: "refer today"}
hedges: [antibiotic]
utility:
  viral: [0.5, -0.1, -0.6]
  strep: [-0.4, 0.6, -0.3]
  abscess: [-1.0, -0.5, 0.9]
no_decision: {viral: -0.6, strep: -0.5, abscess: -1.0}
question_cost: 0.05
turn_cap: 3
findings:
  - {id: exudate, text: "pus", domain: throat, p: {child: [0.2, 0.7, 0.6], adult: [0.1, 0.6, 0.6]}}
  - {id: trismus, text: "jaw", domain: jaw, p: {child: [0.01, 0.02, 0.7], adult: [0.01, 0.02, 0.8]}}
  - {id: cough, text: "cough", domain: chest, p: {child: [0.3, 0.3, 0.3], adult: [0.7, 0.2, 0.2]}}
high_acuity:
  refer:
    child: [{at_least: 1, present: [trismus]}]
    adult: [{at_least: 1, asked: [exudate]}, {more_present: [trismus], than: [cough]}]
checklist:
  child:
    ask: trismus
    yes: {commit: refer}
    no: {commit: reassure}
  adult:
    ask: trismus
    yes: {commit: refer}
    no:
      ask: exudate
      yes: {commit: antibiotic}
      no: {commit: reassure}
sources: ["made up"]
history: [{version: 1.0.0, date: 2026-01-01, change: "First."}]
"""


def small_task_data() -> dict[str, Any]:
    """The content of the file, fresh on every call."""
    data: dict[str, Any] = yaml.load(SMALL_TASK, Loader=yaml.BaseLoader)  # every scalar is text
    return Task.model_validate(data).model_dump(mode="json")


def small_task() -> Task:
    """The task of the file."""
    return Task.model_validate(small_task_data())


def as_yaml(data: dict[str, Any]) -> str:
    """The text of a task file with this content."""
    unshared = json.loads(json.dumps(data))  # a value used twice would become an alias
    return yaml.safe_dump(unshared, allow_unicode=True, sort_keys=False)


def load_text(folder: Path, text: str) -> Task:
    """The task of a file with this text."""
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return load_task(file)


def refusal(folder: Path, text: str) -> str:
    """The one line with which a file of this text is refused."""
    with pytest.raises(InvalidTask) as caught:
        load_text(folder, text)
    message = str(caught.value)
    assert message.splitlines() == [message]
    assert message.startswith("mine.yaml: ")
    return message
