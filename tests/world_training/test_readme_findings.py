"""The table of the training README is what the recorded reward study says.

`reward_study.json` is the `build/reward_study.json` of the study that the README speaks of.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import training
from training.reward_findings import QUESTIONS

RECORD = Path(__file__).with_name("reward_study.json")
README = Path(training.__file__).parent / "README.md"
ROWS: list[dict[str, Any]] = json.loads(RECORD.read_text(encoding="utf-8"))
JUDGED = [row for row in ROWS if row["verdict"] != "measured"]


def table() -> list[str]:
    """The rows that the README shows."""
    return [
        f"| {row['question']} | {row['arm']} | {row['metric']} | {row['value']:+.3f} "
        f"[{row['low']:+.3f}, {row['high']:+.3f}] | {row['verdict']} |"
        for row in JUDGED
    ]


def test_the_readme_shows_the_record() -> None:
    assert "\n".join(table()) in README.read_text(encoding="utf-8")


def test_the_record_answers_every_question_over_three_seeds() -> None:
    assert [row["question"] for row in ROWS] == [one.question for one in QUESTIONS]
    assert {row["seeds"] for row in ROWS} == {3}


@pytest.mark.parametrize("row", JUDGED, ids=lambda row: row["question"])
def test_a_verdict_follows_from_its_interval(row: dict[str, Any]) -> None:
    holds_zero = row["low"] <= 0.0 <= row["high"]
    assert (row["verdict"] == "did not appear") is holds_zero
