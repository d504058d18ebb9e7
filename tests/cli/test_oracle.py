from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from clinical_envs import load_task
from oracles import exact_value, make_policy, solve


def test_the_oracle_as_json_has_the_value_the_gap_and_the_asks_by_state_and_family(run_json):
    found = run_json("oracle", "titration")
    task = load_task("titration")
    assert round(found["oracle_value"], 4) == 0.0434
    gap = found["oracle_value"] - found["best_constant_value"]
    assert found["best_constant_gap"] == pytest.approx(gap)
    assert found["best_constant"] == "reduced_intensity"
    assert tuple(found["expected_asks_by_state"]) == task.state_ids
    by_state = list(found["expected_asks_by_state"].values())
    assert found["expected_asks"] == pytest.approx(task.prior @ by_state)
    assert found["expected_asks_by_family"] == {"anticoagulation": found["expected_asks"]}
    assert sum(found["decisions"].values()) == pytest.approx(1.0)


def test_credit_gives_the_shaped_optimum_and_its_worth_in_plain_reward(run_json):
    found = run_json("oracle", "titration", "--credit", 0.2)
    solved = solve("titration", credit=0.2)
    exact = exact_value(solved.task, make_policy("oracle", solved))
    assert found["shaped_value"] == pytest.approx(solved.optimal_value)
    assert found["oracle_value"] == pytest.approx(exact.value)
    assert round(found["expected_asks"], 2) == 3.81  # published


def test_showing_findings_at_the_start_raises_the_value(run_json):
    values = [run_json("oracle", "titration", "--rho", rho)["oracle_value"] for rho in (0, 0.5, 1)]
    assert values == sorted(values)
    assert values[0] < values[2]


def test_without_a_file_the_tree_is_printed(run):
    printed = run("oracle", "titration").stdout
    assert "ask high_cha2ds2vasc" in printed
    assert printed.count("commit ") == 9  # leaves of the published tree: 17 nodes


@pytest.mark.parametrize("ending", ["txt", "json", "svg"])
def test_the_tree_is_written_in_the_format_of_the_files_ending(run, tmp_path, ending):
    file = tmp_path / "new" / f"tree.{ending}"
    assert "ask high_cha2ds2vasc" not in run("oracle", "titration", "--tree", file).stdout
    text = file.read_text()
    match ending:
        case "txt":
            assert "ask high_cha2ds2vasc" in text
        case "json":
            assert json.loads(text)["task"].startswith("ClinicalTitration-v0@")
        case "svg":
            assert ET.fromstring(text).tag.endswith("svg")


def test_a_tree_in_an_unknown_format_is_refused(run, tmp_path):
    result = run("oracle", "titration", "--tree", tmp_path / "tree.png", code=2)
    assert result.stderr.startswith("error: no tree as '.png'")


def test_credit_with_revealed_findings_is_refused(error):
    assert "rho 0 only" in error("oracle", "titration", "--credit", 0.1, "--rho", 0.5)
