from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clinical_envs import read_episodes
from clinical_envs.errors import InvalidArgument
from tests.training_runs import few_cases
from training.config import load_config
from training.runs import as_toml, read_rows

pytest.importorskip("trl", reason="pip install 'clinical-envs[train]'")
# notices of the training stack about its own next versions
pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore:.*pin_memory.*:UserWarning"
)
ROOT = Path(__file__).parents[2]
TIMES = ("step_time",)


def test_everything_about_a_run_lies_in_its_folder(unbroken):
    made = {path.name for path in unbroken.folder.iterdir()}
    assert made == {
        *("run.json", "config.toml", "metrics.jsonl", "validation.jsonl", "episodes", "policies"),
        *("checkpoints", "tensorboard", "best", "last", "report.html", "README.md", ".lock"),
    }
    assert load_config(unbroken.folder / "config.toml") == unbroken.config
    data = unbroken.data
    assert data["status"] == "finished"
    assert data["config_hash"] == unbroken.config.hash
    assert data["versions"]["trl"] == "1.16.0"
    assert data["wall_s"] > 0.0


def test_every_step_is_logged_with_what_predicts_collapse(unbroken):
    rows = read_rows(unbroken.folder / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    for name in ("same_utility_groups", "kl_per_turn", "entropy_estimate", "parse_failure_rate"):
        assert all(f"rollout/{name}" in row for row in rows)
    assert "validation/value" in rows[1]
    assert "validation/high_clot/mean_asks" in rows[1]
    assert "validation/value" not in rows[2]


def test_gates_come_first_and_are_of_the_start(unbroken):
    gate_1, gate_2 = unbroken.data["gates"]
    assert gate_1["passed"] is True
    assert gate_2["checks"][0]["n_cases"] == 2 * few_cases.PER_GROUP
    started = read_episodes(unbroken.folder / "episodes" / "validation-start.jsonl").episodes
    assert {episode.rollout for episode in started} == set(range(12))
    assert gate_2["passed"] is unbroken.data["eligible"] is True


def test_training_looks_at_validation_and_the_test_set_is_played_at_the_end_only(unbroken):
    rows = read_rows(unbroken.folder / "validation.jsonl")
    assert [row["update"] for row in rows] == [0, 2, 4]
    assert set(rows[0]["groups"]) == {"high_clot", "other"}
    assert rows[0]["gain"]["value"] == 0.0
    for part in (rows[0], *rows[0]["groups"].values()):
        assert part["entropy"]["low"] < part["entropy"]["value"] < part["entropy"]["high"]
        assert part["entropy"]["missing"] == 0
    played = {file.stem: file for file in (unbroken.folder / "episodes").iterdir()}
    chosen = {unbroken.data[role]["policy"] for role in ("best", "last")}
    names = {f"validation-{name}" for name in ("start", "update-000002", "update-000004")}
    assert set(played) == names | {"test-start"} | {f"test-{name}" for name in chosen}
    for name, file in played.items():
        assert {e.case.split for e in read_episodes(file).episodes} == {name.partition("-")[0]}


def test_no_training_reward_reaches_what_is_reported(unbroken, world):
    """Credit is paid in training; a reported value is the mean of verified rewards."""
    last = unbroken.data["last"]["policy"]
    episodes = read_episodes(unbroken.folder / "episodes" / f"test-{last}.jsonl").episodes
    rows = [world.assess(episode) for episode in episodes if not episode.greedy]
    for group in world.prevalence:
        mean = np.mean([row.reward for row in rows if row.group == group])
        reported = unbroken.data["test"][last]["groups"][group]["value"]["value"]
        assert reported == pytest.approx(mean)


def test_the_best_adapter_plays_as_it_did_during_training(unbroken, world, few):
    """Saved and loaded again, on a fresh model."""
    from oracles.evaluation import evaluate
    from training.checkpoint_policy import load_checkpoint_policy

    name = unbroken.data["best"]["policy"]
    spec = f"hf:{unbroken.start}#{unbroken.folder / 'best'}"
    policy = load_checkpoint_policy(world.task, spec, name=name)
    again = evaluate(world, policy, world.cases("validation"), k=1)
    there = read_episodes(unbroken.folder / "episodes" / f"validation-{name}.jsonl").episodes
    assert [episode.turns for episode in again] == [episode.turns for episode in there]


def test_the_card_and_the_report_say_what_was_trained_and_that_it_is_not_for_care(unbroken):
    card = (unbroken.folder / "README.md").read_text()
    for text in ("not fit for patient care", "entropy 0.1", "its optimum has value", "| start |"):
        assert text in card
    assert (unbroken.folder / "best" / "README.md").read_text() == card
    report = (unbroken.folder / "report.html").read_text()
    for text in ("One seed makes no claim", "Training curves", "break-even lambda"):
        assert text in report


def test_a_run_whose_gate_failed_says_not_eligible(unbroken, world, few, tmp_path):
    from training.final import conclude
    from training.grpo import play_settings
    from training.runs import open_run

    folder = tmp_path / "refused"
    shutil.copytree(unbroken.folder, folder)
    data = unbroken.data | {"eligible": False}
    data["gates"][1]["passed"] = False
    (folder / "run.json").write_text(json.dumps(data))
    start = str(unbroken.start)
    run = open_run(folder, unbroken.config, kind="grpo", task=world.key, start=start)
    conclude(run, world, start, play_settings(unbroken.config))
    for file in ("report.html", "README.md"):
        assert "NOT ELIGIBLE" in (folder / file).read_text()
        assert "NOT ELIGIBLE" not in (unbroken.folder / file).read_text()


def test_a_killed_run_resumes_and_ends_as_an_unbroken_one(unbroken, few, tmp_path):
    from training.grpo import train

    folder, file = tmp_path / "killed", tmp_path / "config.toml"
    file.write_text(as_toml(unbroken.config))
    command = [sys.executable, few_cases.__file__, "train", "grpo", "--config", str(file)]
    process = subprocess.Popen(
        [*command, "--start", str(unbroken.start), "--out", str(folder)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 300
    try:
        # past the checkpoint of update 2, so that what came after it must be dropped and made again
        while len(read_rows(folder / "metrics.jsonl")) < 3:
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.005)
    finally:
        process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert json.loads((folder / "run.json").read_text())["status"] == "training"
    assert (folder / "checkpoints" / "checkpoint-2").is_dir()

    data = train(unbroken.config, unbroken.start, folder)
    assert len(data["sessions_s"]) == 2
    for name in ("metrics", "validation"):
        ours, theirs = (read_rows(at / f"{name}.jsonl") for at in (folder, unbroken.folder))
        assert_close(ours, theirs)
    for name in ("gates", "eligible", "best", "last", "test", "reward"):
        assert_close(data[name], unbroken.data[name])


def assert_close(ours: object, theirs: object, where: str = "") -> None:
    """Equal, numbers within float noise, times aside."""
    if isinstance(theirs, dict):
        assert set(ours) == set(theirs), where
        for key in set(theirs) - set(TIMES):
            assert_close(ours[key], theirs[key], f"{where}.{key}")
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs), where
        for i, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_close(one, other, f"{where}[{i}]")
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-5), where
    else:
        assert ours == theirs, where


def test_a_folder_is_not_taken_up_by_another_run(unbroken):
    from training.grpo import train

    other = replace(unbroken.config, seed=unbroken.config.seed + 1)
    with pytest.raises(InvalidArgument, match="config_hash"):
        train(other, unbroken.start, unbroken.folder)
    with pytest.raises(InvalidArgument, match="start"):
        train(unbroken.config, unbroken.start.parent, unbroken.folder)
