from __future__ import annotations

from pathlib import Path

import pytest

from clinical_envs import load_task, task_ids
from clinical_envs.catalog import evidence_ids, example_task_path

KEYS = {
    "id",
    "name",
    "findings",
    "decisions",
    "turn_cap",
    "oracle_value",
    "best_constant_value",
    "best_constant_gap",
    "expected_asks",
    "high_risk_share",
}


def test_tasks_as_json_have_exactly_the_published_keys_and_values(run_json):
    rows = {row["name"]: row for row in run_json("tasks")}
    assert [row["id"] for row in rows.values()] == [*task_ids(), *evidence_ids()]
    assert all(set(row) == KEYS for row in rows.values())
    # published statistics: gap and asks, to three decimals
    published = {
        "diagnostics": (0.161, 3.917, 0.06),
        "refill": (0.171, 3.273, 0.12),
        "titration": (0.075, 2.763, 0.10),
    }
    for name, (gap, asks, high) in published.items():
        assert round(rows[name]["best_constant_gap"], 3) == gap
        assert round(rows[name]["expected_asks"], 3) == asks
        assert round(rows[name]["high_risk_share"], 3) == high
        assert rows[name]["findings"] == len(load_task(name).findings)


def test_tasks_as_a_table_cut_no_id_at_a_hundred_columns(run):
    printed = run("tasks").stdout
    assert all(task_id in printed for task_id in task_ids())
    assert "+0.1611" in printed


@pytest.mark.parametrize("task", ["titration", "ClinicalDx-v0", example_task_path()])
def test_a_task_is_shown_in_full(run, task):
    printed = run("tasks", "show", task).stdout
    shown = load_task(task)
    names = (*shown.state_ids, *shown.finding_ids, *shown.hedges, *shown.high_acuity)
    assert [name for name in names if name not in printed] == []


def test_an_unknown_task_is_refused_with_the_nearest_name(error):
    assert error("tasks", "show", "diagnostic").endswith("did you mean 'diagnostics'?")


def test_a_good_task_file_is_ok_with_its_exact_values(run):
    printed = run("tasks", "check", example_task_path()).stdout
    assert printed.startswith("OK: ")
    assert "sore_throat" in printed
    assert "+0.5685" in printed  # V* of the example


def _changed(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    text = example_task_path().read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    return file


def test_every_problem_of_a_task_file_is_one_line(run, tmp_path):
    file = _changed(tmp_path, ("question_cost: ", "question_cost: -"), ("title:", "titel:"))
    result = run("tasks", "check", file, code=1)
    lines = result.stderr.splitlines()
    assert len(lines) == 3
    assert any("titel: unknown field; did you mean 'title'?" in line for line in lines)
    assert any("title: missing" in line for line in lines)
    assert any("question_cost" in line and "-0.0" in line for line in lines)
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"&a [*a]", "anchors and aliases are not allowed"),
        (b"!!python/object:os.system {}", "is not allowed"),
        (b"question_cost: 1\nquestion_cost: 2\n", "stands twice"),
        (b"[" * 1000, "nested deeper"),
        (b"\xff\xfe\x00", "cannot be read as UTF-8"),
        (b"x: " + b"y" * 1_000_001, "larger than"),
        (b"", "a task file is a mapping"),
    ],
)
def test_a_file_that_is_no_task_is_refused_in_one_line(run, tmp_path, content, says):
    file = tmp_path / "bad.yaml"
    file.write_bytes(content)
    lines = run("tasks", "check", file, code=1).stderr.splitlines()
    assert len(lines) == 1
    assert says in lines[0]


def test_a_task_file_that_is_not_there_is_bad_input(error, tmp_path):
    assert "no task file" in error("tasks", "check", tmp_path / "none.yaml")


def test_a_valid_task_that_is_too_large_to_solve_is_ok_and_says_so(run, tmp_path):
    finding = "  - {{id: extra_{n}, text: extra, p: {{{families}}}}}\n"
    task = load_task(example_task_path())
    chances = [round(0.2 + 0.6 * s / len(task.states), 3) for s in range(len(task.states))]
    families = ", ".join(f"{family}: {chances}" for family in task.family_ids)
    text = example_task_path().read_text()
    extra = "".join(finding.format(n=n, families=families) for n in range(20))
    file = tmp_path / "large.yaml"
    text = text.replace("findings:\n", f"findings:\n{extra}", 1)
    cap = f"turn_cap: {task.turn_cap}"
    assert cap in text
    file.write_text(text.replace(cap, "turn_cap: 26"))
    printed = run("tasks", "check", file).stdout
    assert printed.startswith("OK: ")
    assert "no exact values: " in printed
    assert "GiB are allowed" in printed
