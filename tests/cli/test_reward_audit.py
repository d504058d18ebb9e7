"""`clinical-envs reward-audit` and the schema of what it reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oracles.reward_audit.scripted import Failure, scripted_run
from training.cli import app

runner = CliRunner()


def _write(path: Path, failure: Failure | None) -> Path:
    log = scripted_run(failure, seed=0)
    rows = [*log.judgments, *log.checks, *log.rewards]
    path.write_text("".join(row.model_dump_json() + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_failing_run_is_flagged_and_a_prescription_is_printed(tmp_path: Path) -> None:
    file = _write(tmp_path / "run.jsonl", Failure.COLLAPSE)
    done = runner.invoke(app, ["reward-audit", str(file), "--json"])
    assert done.exit_code == 0
    findings = json.loads(done.stdout)["findings"]
    flagged = [finding for finding in findings if finding["verdict"] == "FLAG"]
    assert Failure.COLLAPSE.value in {finding["rule"] for finding in flagged}
    assert all(finding["prescription"] for finding in flagged)
    assert runner.invoke(app, ["reward-audit", str(file), "--fail-on-flag"]).exit_code == 1


def test_a_healthy_run_has_no_flag(tmp_path: Path) -> None:
    file = _write(tmp_path / "run.jsonl", None)
    done = runner.invoke(app, ["reward-audit", str(file), "--fail-on-flag"])
    assert done.exit_code == 0
    assert "FLAG" not in done.stdout


def test_a_damaged_line_is_named_and_the_rest_is_audited(tmp_path: Path) -> None:
    file = _write(tmp_path / "run.jsonl", None)
    lines = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join([*lines[:3], '{"kind": "reward"', *lines[3:]]), encoding="utf-8")
    done = runner.invoke(app, ["reward-audit", str(file), "--json"])
    assert done.exit_code == 0
    assert [bad["line"] for bad in json.loads(done.stdout)["damaged"]] == [4]


@pytest.mark.parametrize("content", ["", "\n\n", "not json\n"])
def test_a_file_without_a_usable_row_ends_with_one_line_and_code_1(
    tmp_path: Path, content: str
) -> None:
    file = tmp_path / "empty.jsonl"
    file.write_text(content, encoding="utf-8")
    done = runner.invoke(app, ["reward-audit", str(file)])
    assert done.exit_code == 1
    assert "no row could be used" in done.stderr


def test_a_missing_file_and_no_file_are_bad_input(tmp_path: Path) -> None:
    missing = runner.invoke(app, ["reward-audit", str(tmp_path / "none.jsonl")])
    assert missing.exit_code == 2
    assert "cannot be read" in missing.stderr
    assert runner.invoke(app, ["reward-audit"]).exit_code == 2


def test_the_schema_names_the_three_kinds() -> None:
    done = runner.invoke(app, ["schema", "judgments"])
    assert done.exit_code == 0
    assert set(json.loads(done.stdout)["discriminator"]["mapping"]) == {
        "judgment",
        "check",
        "reward",
    }


@pytest.mark.slow
def test_the_selftest_passes() -> None:
    done = runner.invoke(app, ["reward-audit", "--selftest", "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["passed"]
