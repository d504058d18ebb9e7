"""Runs side by side; the runs are made from reference policies, so that no model is needed."""

from __future__ import annotations

import json

import pytest

from clinical_envs import write_episodes
from oracles import make_world
from oracles.evaluation import evaluate
from training.config import config_from
from training.runs import as_toml

TASK = "titration"
CONFIG = config_from({"task": TASK, "warmup": {"kind": "full"}})


def row(update, value, verdict="CLEAR"):
    return {"update": update, "value": {"value": value}, "flags": {"high_risk_regression": verdict}}


def make_run(folder, policy, *, rows=None, **facts):
    """A run whose update 20 is the best one and plays as a reference policy; 1_ask was its start.

    Its update 40, where there is one, plays as `never_escalate`.
    """
    world = make_world(TASK)
    (folder / "episodes").mkdir(parents=True)
    for set_name in ("test", "validation"):
        players = {"start": "1_ask", "update-000020": policy, "update-000040": "never_escalate"}
        for name, player in players.items():
            played = evaluate(world, world.policy(player), world.cases(set_name), k=1)
            renamed = [episode.model_copy(update={"policy": name}) for episode in played]
            write_episodes(folder / "episodes" / f"{set_name}-{name}.jsonl", renamed)
    gates = [{"name": "gate 1", "passed": True}, {"name": "gate 2", "passed": True}]
    data = {
        "kind": "grpo",
        "task": world.key,
        "status": "finished",
        "config_hash": CONFIG.hash,
        "eligible": True,
        "gates": gates,
    }
    (folder / "run.json").write_text(json.dumps(data | facts))
    (folder / "config.toml").write_text(as_toml(CONFIG))
    rows = rows or [row(0, 0.0), row(20, 0.2), row(40, 0.1)]
    lines = "".join(json.dumps(one) + "\n" for one in rows)
    (folder / "validation.jsonl").write_text(lines)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    home = tmp_path_factory.mktemp("runs")
    return {name: make_run(home / name, name) for name in ("oracle", "3_ask", "never_escalate")}


def test_differences_are_paired_and_to_the_first_run(run_json, runs):
    found = run_json("compare", runs["oracle"], runs["3_ask"])
    assert (found["task"], found["set"]) == (make_world(TASK).key, "test")
    first, second = found["runs"]
    assert found["baseline"] == first["run"] == "oracle"
    assert {e["value"] for e in first["difference"].values()} == {0.0}
    difference = second["difference"]["value"]
    values = [one["audit"]["metrics"]["value"] for one in found["runs"]]
    assert difference["value"] == pytest.approx(values[1] - values[0])
    assert difference["low"] < difference["value"] < difference["high"]
    assert difference["n_cases"] == 240
    assert set(second["difference"]) == {
        *("value", "mean_asks", "one_ask_rate", "value, high_clot", "value, other")
    }


def test_flags_are_against_the_start_of_the_run_itself(run_json, runs):
    found = run_json("compare", runs["oracle"], runs["never_escalate"])
    verdicts = [
        {flag["flag"]: flag["verdict"] for flag in one["audit"]["flags"]} for one in found["runs"]
    ]
    assert verdicts[0]["high_risk_regression"] != "NOT APPLICABLE"
    assert verdicts[1]["high_risk_regression"] == "FLAG"
    gains = [one["audit"]["gain"]["value"] for one in found["runs"]]
    assert gains[0] > gains[1]


def test_the_table_names_runs_flags_and_gates(run, runs):
    printed = run("compare", runs["oracle"], runs["never_escalate"]).stdout
    assert "oracle: gates pass, pass; flags up: none" in printed
    assert "never_escalate: gates pass, pass; flags up: hedging, high risk regression" in printed
    assert "difference to oracle, paired by case" in printed
    assert "NOT ELIGIBLE" not in printed


def test_a_run_that_is_not_eligible_is_marked(run, run_json, runs, tmp_path):
    failed = [{"name": "gate 1", "passed": True}, {"name": "gate 2", "passed": False}]
    bad = make_run(tmp_path / "biased", "1_ask", eligible=False, gates=failed)
    printed = run("compare", runs["oracle"], bad).stdout
    assert "biased: gates pass, FAIL;" in printed
    assert "NOT ELIGIBLE" in printed
    assert run_json("compare", runs["oracle"], bad)["runs"][1]["eligible"] is False


def test_an_unfinished_run_is_compared_on_validation(run_json, runs, tmp_path):
    going = make_run(tmp_path / "going", "3_ask", status="training")
    found = run_json("compare", runs["oracle"], going)
    assert found["set"] == "validation"
    assert all(one["audit"]["split"] == "validation" for one in found["runs"])


def test_where_every_update_regressed_the_last_one_stands_for_the_run(run_json, runs, tmp_path):
    rows = [row(0, 0.3), row(20, 0.2, "FLAG"), row(40, 0.1, "FLAG")]
    worse = make_run(tmp_path / "worse", "3_ask", rows=rows)
    found = run_json("compare", runs["oracle"], worse)
    assert [one["policy"] for one in found["runs"]] == ["update-000020", "update-000040"]


def test_runs_of_the_same_name_are_told_apart_by_their_paths(run_json, runs, tmp_path):
    twin = make_run(tmp_path / "oracle", "3_ask")
    found = run_json("compare", runs["oracle"], twin)
    assert [one["run"] for one in found["runs"]] == [str(runs["oracle"]), str(twin)]


def test_what_cannot_be_compared_is_refused_in_one_line(error, runs, tmp_path):
    assert "give two or more" in error("compare", runs["oracle"])
    assert "is no run folder" in error("compare", runs["oracle"], tmp_path)
    other = make_run(tmp_path / "other", "oracle", task="ClinicalDx-v0@1.0.0")
    assert "compare runs on one task" in error("compare", runs["oracle"], other)
    warmup = make_run(tmp_path / "warmup", "oracle", kind="sft")
    assert "is a warmup" in error("compare", runs["oracle"], warmup)
    young = make_run(tmp_path / "young", "oracle", rows=[row(0, 0.1)])
    assert "evaluated no update yet" in error("compare", runs["oracle"], young)
