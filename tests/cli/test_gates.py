from __future__ import annotations

from pathlib import Path

import pytest

from clinical_envs.catalog import example_task_path


def test_gate_1_alone_is_exact_and_passes(run_json):
    found = run_json("gates", "titration")
    (gate,) = found["gates"]
    assert found["passed"] is gate["passed"] is True
    assert round(gate["checks"][0]["value"], 4) == 0.0749


def test_gate_2_passes_for_a_policy_that_finds_everything(run):
    printed = run("gates", "titration", "--policy", "random", "-k", 6).stdout
    assert printed.count(": pass") == 2
    assert "FAIL" not in printed


def test_gate_2_fails_with_code_1_for_a_policy_that_never_escalates(run_json, run):
    found = run_json("gates", "titration", "--policy", "never_escalate", "-k", 1, code=1)
    failed = [check["name"] for check in found["gates"][1]["checks"] if check["passed"] is False]
    assert "decision full_intensity is sampled" in failed
    assert found["passed"] is False
    printed = run("gates", "titration", "--policy", "never_escalate", "-k", 1, code=1).stdout
    assert "FAIL" in printed


def test_a_sample_too_small_to_judge_does_not_pass(run_json):
    found = run_json(
        "gates", "titration", "--policy", "oracle", "--set", "heldout", "-k", 1, code=1
    )
    assert found["gates"][1]["passed"] is None
    small = [check for check in found["gates"][1]["checks"] if check["passed"] is None]
    assert any("30 needed" in check["detail"] for check in small)


def test_gate_1_fails_where_asking_is_worth_nothing(run, tmp_path):
    text = Path(example_task_path()).read_text()
    assert "question_cost: 0.03" in text
    file = tmp_path / "dear.yaml"
    file.write_text(text.replace("question_cost: 0.03", "question_cost: 3.0"))
    assert "FAIL" in run("gates", file, code=1).stdout


@pytest.mark.parametrize("wrong", [("--policy", "orcle"), ("--policy", "oracle", "--set", "tst")])
def test_an_unknown_policy_or_set_is_refused(error, wrong):
    assert "did you mean" in error("gates", "titration", *wrong)
