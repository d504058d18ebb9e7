from __future__ import annotations

import json

import pytest

from clinical_envs import case_set, load_task
from clinical_envs.case import SET_NAMES
from oracles import make_world
from training.cli.arguments import SetOption

PUBLIC = {"task", "split", "seed", "index", "family", "initial", "prompt"}
PRIVILEGED = {"state", "answers", "hash", "oracle_path", "oracle_reward"}


def _rows(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("name", SET_NAMES)
def test_public_rows_are_the_set_and_hold_nothing_hidden(run, tmp_path, name):
    file = tmp_path / "cases.jsonl"
    run("cases", "titration", "--set", name, "--out", file)
    rows, cases = _rows(file), case_set(load_task("titration"), name).cases
    assert [(row["split"], row["seed"], row["index"]) for row in rows] == [
        (case.split, case.seed, case.index) for case in cases
    ]
    assert all(set(row) == PUBLIC for row in rows)
    assert len({row["prompt"] for row in rows}) == 1  # one family, nothing revealed


def test_privileged_rows_add_the_answers_and_the_oracles_path(run, tmp_path):
    file = tmp_path / "cases.jsonl"
    run("cases", "titration", "--set", "heldout", "--privileged", "--out", file)
    world = make_world("titration")
    for row, case in zip(_rows(file), world.cases("heldout"), strict=True):
        assert set(row) == PUBLIC | PRIVILEGED
        assert row["hash"] == case.hash
        assert tuple(row["answers"].values()) == case.answers
        asks = [turn for turn in row["oracle_path"] if "ask" in turn]
        assert all(row["answers"][turn["ask"]] == turn["answer"] for turn in asks)
        decision = world.task.decision(row["oracle_path"][-1]["commit"])
        utility = world.task.utility_matrix[case.state, decision]
        assert row["oracle_reward"] == pytest.approx(utility - 0.03 * len(asks))


def test_revealed_findings_are_initial_and_true(run, tmp_path):
    file = tmp_path / "cases.jsonl"
    run("cases", "titration", "--set", "heldout", "--rho", 0.5, "--privileged", "--out", file)
    rows = _rows(file)
    assert 0 < sum(len(row["initial"]) for row in rows) < 6 * len(rows)
    assert all(row["initial"].items() <= row["answers"].items() for row in rows)


def test_an_existing_file_is_replaced(run, tmp_path):
    file = tmp_path / "cases.jsonl"
    file.write_text("old\n" * 500)
    run("cases", "titration", "--set", "heldout", "--out", file)
    assert len(_rows(file)) == 60


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--set", "helout"), "did you mean 'heldout'?"),
        (("--set", "heldout", "--rho", 1.5), "lies in [0, 1]"),
    ],
)
def test_nonsense_is_refused_and_leaves_no_file(error, tmp_path, arguments, says):
    file = tmp_path / "cases.jsonl"
    assert says in error("cases", "titration", *arguments, "--out", file)
    assert not file.exists()


def test_a_file_that_cannot_be_written_is_refused(error, tmp_path):
    assert "cannot write" in error("cases", "titration", "--set", "heldout", "--out", tmp_path)


def test_the_help_names_every_set():
    (option,) = SetOption.__metadata__
    assert all(name in option.help for name in SET_NAMES)
