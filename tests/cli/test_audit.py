from __future__ import annotations

import json

import pytest

from clinical_envs import load_task, write_episodes
from clinical_envs.catalog import example_task_path
from oracles import ClinicalWorld, evaluate, make_world
from oracles.flags import FLAG_NAMES


def _play(world, policy, n=60, k=1):
    return evaluate(world, world.policy(policy), world.cases("test")[:n], k=k)


@pytest.fixture
def world():
    return make_world("titration")


@pytest.fixture
def collapsed(world, tmp_path):
    """Episodes of a policy that asks one question."""
    file = tmp_path / "one_ask.jsonl"
    write_episodes(file, _play(world, "1_ask", n=240))
    return file


def test_an_audit_as_json_has_metrics_and_every_flag_of_each_policy(run_json, collapsed):
    found = run_json("audit", collapsed)
    assert (found["episodes"], found["unscored"], found["damaged"], found["refused"]) == (
        240,
        0,
        [],
        [],
    )
    (policy,) = found["policies"]
    assert tuple(flag["flag"] for flag in policy["flags"]) == FLAG_NAMES
    verdicts = {flag["flag"]: flag["verdict"] for flag in policy["flags"]}
    assert verdicts["one_question_collapse"] == "FLAG"
    assert verdicts["high_risk_regression"] == "NOT APPLICABLE"
    assert policy["metrics"]["n_cases"] == 240


def test_an_audit_as_tables_says_what_is_up_and_what_to_do(run, collapsed):
    printed = run("audit", collapsed).stdout
    assert "FLAGGED" in printed
    assert "one question collapse" in printed
    assert "Add information credit" in " ".join(printed.split())
    assert "240 episodes read, 0 damaged lines, 0 refused, 0 unscored" in printed


def test_a_baseline_makes_a_rise_with_a_flag_an_exploit(run_json, run, world, tmp_path, collapsed):
    baseline = tmp_path / "baseline.jsonl"
    write_episodes(baseline, _play(world, "ask_all", n=240))
    found = run_json("audit", collapsed, "--baseline", baseline)
    assert found["policies"][0]["status"] == "EXPLOITING"
    assert "1_ask †" in run("audit", collapsed, "--baseline", baseline).stdout


def test_what_is_read_is_not_written_over(error, collapsed):
    before = collapsed.read_bytes()
    assert "would be written over" in error("audit", collapsed, "--html", collapsed)
    assert collapsed.read_bytes() == before


def test_episodes_of_the_baseline_that_were_not_used_are_counted(run, collapsed, tmp_path):
    baseline = tmp_path / "baseline.jsonl"
    baseline.write_text(collapsed.read_text() + '{"half')
    printed = run("audit", collapsed, "--baseline", baseline).stdout
    assert "of the baseline, 1 could not be used" in printed


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["one_question_collapse"], 1),
        (["one-question-collapse"], 1),
        (["hedging"], 0),
        (["hedging,one_question_collapse"], 1),
        (["hedging", "--fail-on", "one_question_collapse"], 1),
        (["any"], 1),
    ],
)
def test_fail_on_sets_the_exit_code(run, collapsed, flags, code):
    result = run("audit", collapsed, "--fail-on", *flags, code=code)
    assert ("failed on: one_question_collapse" in result.stderr) == bool(code)


def test_an_unknown_flag_is_refused_with_the_nearest_name(error, collapsed):
    assert "did you mean 'hedging'?" in error("audit", collapsed, "--fail-on", "hedgin")


def test_damaged_lines_and_refused_episodes_are_named_and_counted(run_json, run, world, tmp_path):
    good = [episode.to_json() for episode in _play(world, "oracle", n=3)]
    record = json.loads(good[0])
    no_finding = record | {"turns": [{"ask": "fever", "answer": True}, {"commit": "no_therapy"}]}
    after_end = record | {
        "turns": [{"commit": "no_therapy"}, {"commit": "no_therapy"}],
        "case": None,
    }
    other_version = record | {"task": "ClinicalTitration-v0@0.9.0"}
    lines = [
        good[0],
        '{"schema": 1}',
        good[0],
        json.dumps(no_finding),
        "not json",
        json.dumps(after_end),
        json.dumps(other_version),
        good[1],
        good[2][:-20],
    ]
    file = tmp_path / "mixed.jsonl"
    file.write_text("\n".join(lines))
    found = run_json("audit", file)
    assert [bad["line"] for bad in found["damaged"]] == [2, 5, 9]
    reasons = [bad["reason"] for bad in found["refused"]]
    for reason, says in zip(
        reasons, ("twice", "unknown finding 'fever'", "after the end", "@0.9.0"), strict=True
    ):
        assert says in reason
    assert found["policies"][0]["metrics"]["n_cases"] == 2
    printed = run("audit", file).stdout
    assert "damaged: line 9: " in printed
    assert "6 episodes read, 3 damaged lines, 4 refused, 0 unscored" in printed


@pytest.mark.parametrize(
    ("content", "says"),
    [("", "holds no episodes"), ("\n\n", "holds no episodes"), ("{}\n", "1 damaged lines")],
)
def test_a_file_without_an_episode_is_one_line_and_code_1(run, tmp_path, content, says):
    file = tmp_path / "empty.jsonl"
    file.write_text(content)
    result = run("audit", file, code=1)
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
    assert run("audit", file, "--json", "--fail-on", "any", code=1).stdout.startswith("{")


def test_one_episode_is_audited_and_claims_nothing(run_json, world, tmp_path):
    file = tmp_path / "one.jsonl"
    write_episodes(file, _play(world, "best_constant", n=1))
    (policy,) = run_json("audit", file)["policies"]
    assert {flag["verdict"] for flag in policy["flags"]} == {"SKIPPED", "NOT APPLICABLE"}
    assert policy["metrics"]["intervals"]["value"]["low"] is None


def test_foreign_records_are_read_through_a_mapping(run_json, tmp_path):
    record = {
        "info": {"kind": "anticoagulation"},
        "steps": [{"question": "prior_vte", "reply": True}, {"final": "no_therapy"}],
        "loss": 0.3,
    }
    file, mapping = tmp_path / "foreign.jsonl", tmp_path / "mapping.yaml"
    file.write_text(json.dumps(record) + "\n")
    mapping.write_text(
        "rename: {family: info.kind, turns: steps}\n"
        "constants: {schema: 1, task: ClinicalTitration-v0@1.0.0}\n"
        "turns: {ask: question, answer: reply, commit: final}\n"
    )
    found = run_json("audit", file, "--from", mapping)
    assert found["damaged"] == found["refused"] == []
    assert found["policies"][0]["metrics"]["mean_asks"] == 1.0
    assert found["policies"][0]["metrics"]["expected_value"] is True


def test_episodes_of_a_users_task_need_its_file(run, run_json, tmp_path):
    file = tmp_path / "episodes.jsonl"
    text = example_task_path().read_text()
    mine = tmp_path / "mine.yaml"
    mine.write_text(text.replace("SoreThroat-v0", "MyThroat-v0").replace("sore_throat", "mine"))
    write_episodes(file, _play(ClinicalWorld(load_task(mine)), "oracle", n=5))
    assert "5 refused" in run("audit", file, code=1).stderr
    assert run_json("audit", file, "--task", mine)["policies"][0]["name"] == "mine"


def test_the_report_is_written(run, collapsed, tmp_path):
    page = tmp_path / "new" / "report.html"
    assert str(page) in run("audit", collapsed, "--html", page).stdout
    assert page.read_text().lower().startswith("<!doctype html>")


@pytest.mark.parametrize("option", [(), ("--baseline",), ("--from",), ("--task",)])
def test_a_file_that_is_not_there_is_refused(error, collapsed, tmp_path, option):
    none = tmp_path / "none.yaml"
    arguments = (collapsed, *option, none) if option else (none,)
    assert "none.yaml" in error("audit", *arguments)
