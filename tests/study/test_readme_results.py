"""The table of the training README is what the recorded study says, row by row.

`small_study.json` is the `build/study.json` of the study that the README speaks of. Playing it
again takes hours; what is tested here is that nothing was copied wrongly and no verdict bent.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import training
from training.study.rows import MEASURED, MET, NOT_MET, SKIPPED, UNCLEAR, Row

RECORD = Path(__file__).with_name("small_study.json")
README = Path(training.__file__).parent / "README.md"
ROWS = [Row(**row) for row in json.loads(RECORD.read_text(encoding="utf-8"))]
EFFECTS = ("value_difference", "mean_asks_difference", "high_risk_value_difference")
PHASES = tuple(
    f"{phase}_parse_failure_rate{when}"
    for phase in ("explore", "exploit")
    for when in ("", "_at_the_end")
)
SHOWN = (
    ("outcome from light", EFFECTS),
    ("credit from light", EFFECTS),
    ("decoupled from light", ("value", "mean_asks", *PHASES, "benign_asks_difference")),
    ("lambda dial", ("mean_asks_difference",)),
    ("coverage bias", ("gate_2_passes", "high_risk_value")),
    ("recommended", ("flags_up", "high_risk_value_below_oracle")),
)


def line(row: Row) -> str:
    """A row of the table."""
    interval = "" if row.low is None else f" [{row.low:.3f}, {row.high:.3f}]"
    where = row.arm if row.task == "diagnostics" else f"{row.task}, {row.arm}"
    metric = row.metric.replace("_", " ")
    return f"| {where} | {metric} | {row.value:.3f}{interval} | {row.seeds} | {row.verdict} |"


def table() -> list[str]:
    """The rows that the README shows, in its order."""
    return [
        line(row)
        for question, metrics in SHOWN
        for row in ROWS
        if row.question == question and row.metric in metrics
    ]


def test_the_readme_shows_the_record() -> None:
    assert "\n".join(table()) in README.read_text(encoding="utf-8")


def test_the_record_is_whole() -> None:
    assert len(ROWS) > 80
    assert not [row for row in ROWS if row.verdict == SKIPPED]
    assert {row.seeds for row in ROWS} <= {0, 3, 5}


@pytest.mark.parametrize("row", [r for r in ROWS if r.metric.endswith("_difference")], ids=str)
def test_a_verdict_on_a_difference_follows_from_its_interval(row: Row) -> None:
    assert row.low is not None
    assert row.high is not None
    if row.verdict == UNCLEAR:
        assert row.low <= 0.0 <= row.high
    elif row.verdict == NOT_MET:
        assert not row.low <= 0.0 <= row.high
    else:
        assert row.verdict in (MET, MEASURED)
