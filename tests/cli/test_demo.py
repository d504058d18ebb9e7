from __future__ import annotations

import json
import sys

import pytest

import clinical_envs.catalog
import oracles.policies
from clinical_envs import read_episodes
from training.cli import demo_command


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(clinical_envs.catalog, "task_ids", lambda: ("ClinicalTitration-v0",))
    monkeypatch.setattr(oracles.policies, "REFERENCES", ("oracle", "random", "1_ask", "checklist"))
    monkeypatch.setattr(demo_command, "K", 2)


@pytest.mark.usefixtures("small")
def test_the_demo_writes_report_episodes_and_summary_and_says_where(run, tmp_path):
    folder = tmp_path / "demo"
    folder.mkdir()
    (folder / "episodes.jsonl").write_text("left by an earlier run\n" * 1000)
    printed = run("demo", "--out", folder).stdout
    for name in ("report.html", "episodes.jsonl", "summary.json"):
        assert str(folder / name) in printed
    assert "gate 1: adaptive headroom: pass" in printed
    assert (folder / "report.html").read_text().lower().startswith("<!doctype html>")
    played = read_episodes(folder / "episodes.jsonl")
    assert played.damaged == []
    # heldout twice by four policies; test once by three and twice by the one that draws
    assert len(played.episodes) == 60 * 2 * 4 + 240 * (3 + 2)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["demo_seconds"] > 0.0
    assert set(summary["versions"]) >= {"python", "clinical-envs", "numpy"}
    (task,) = summary["tasks"]
    assert round(task["oracle_value"], 4) == 0.0434
    assert task["gate_1"]["passed"] is True
    assert task["exact_policies"]["oracle"]["value"] == pytest.approx(task["oracle_value"])
    assert "random" not in task["exact_policies"]
    found = {(policy["policy"], policy["split"]): policy for policy in task["policies"]}
    assert len(found) == 8
    assert found["1_ask", "test"]["metrics"]["k"] == 1
    assert found["random", "test"]["metrics"]["k"] == 2
    assert found["checklist", "test"]["gain"]["value"] == 0.0
    assert all(len(policy["flags"]) == 7 for policy in found.values())


def test_training_without_its_extra_is_one_line_before_anything_is_made(
    error, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "trl", None)
    says = error("demo", "--train", "--out", tmp_path / "demo")
    assert says == "trl is not installed; run: pip install 'clinical-envs[train]'"
    assert not (tmp_path / "demo").exists()


@pytest.mark.usefixtures("small")
def test_the_tour_trains_nothing_and_needs_no_model(run, tmp_path, monkeypatch):
    for module in ("torch", "transformers", "trl"):
        monkeypatch.setitem(sys.modules, module, None)
    run("demo", "--out", tmp_path / "demo")
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {
        *("report.html", "episodes.jsonl", "summary.json")
    }
