"""The front of training: what it hands on, what it refuses; training itself is tested beside it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="pip install 'clinical-envs[train]'")

from training import grpo, medgemma, sft
from training.config import load_config

NAME = "titration-credit-embedded"
ESTIMATE = {"value": 0.25, "low": 0.2, "high": 0.3, "n": 10, "n_cases": 10, "missing": 0}
FOUND = {
    **dict.fromkeys(("value", "mean_asks", "one_ask_rate", "parse_failure_rate"), ESTIMATE),
    "flags": {"blind_commitment": "FLAG", "hedging": "CLEAR"},
}


@pytest.fixture
def handed_on(monkeypatch):
    """What the command gave to the functions of the scripts."""
    calls = []
    finished = {"eligible": False, "test": {"start": FOUND, "update-000020": FOUND}}

    def train(config, start, out):
        calls.append((config, start, out))
        return finished

    def warm_up(config, out):
        calls.append((config, out))
        Path(out).mkdir()
        (Path(out) / "run.json").write_text('{"status": "finished"}')
        return out

    monkeypatch.setattr(grpo, "train", train)
    monkeypatch.setattr(sft, "warm_up", warm_up)
    monkeypatch.setattr(medgemma, "dry_run", lambda config, out: calls.append((config, out)))
    return calls


def test_grpo_is_the_script_with_the_same_arguments(run, handed_on, tmp_path):
    overrides = ("--set", "optim.steps=7", "--set", "reward.entropy=0.3")
    printed = run(
        *("train", "grpo", "--config", NAME, *overrides),
        *("--start", tmp_path, "--out", tmp_path / "run"),
    ).stdout
    expected = load_config(NAME, ["optim.steps=7", "reward.entropy=0.3"])
    assert handed_on == [(expected, tmp_path, tmp_path / "run")]
    for text in ("NOT ELIGIBLE", "update-000020", "0.250", "blind commitment", "report.html"):
        assert text in printed
    assert "hedging" not in printed


def test_grpo_prints_the_run_as_json(run_json, handed_on, tmp_path):
    found = run_json("train", "grpo", "--config", NAME, "--start", tmp_path, "--out", tmp_path)
    assert found["test"]["start"]["value"]["value"] == 0.25


def test_sft_says_how_to_go_on(run, run_json, handed_on, tmp_path):
    folder = tmp_path / "warmup"
    printed = run("train", "sft", "--config", NAME, "--out", folder).stdout
    assert f"clinical-envs gates titration --policy hf:{folder}" in printed
    assert handed_on == [(load_config(NAME), folder)]
    other = tmp_path / "other"
    assert run_json("train", "sft", "--config", NAME, "--out", other) == {"status": "finished"}


def test_a_model_of_the_hub_is_its_own_start_and_the_embedded_policy_is_none(
    run, error, handed_on, tmp_path
):
    assert "--start" in error("train", "grpo", "--config", NAME, "--out", tmp_path)
    assert handed_on == []
    run("train", "grpo", "--config", "titration-credit-medgemma-4b", "--out", tmp_path)
    assert handed_on[0][1] == Path("google/medgemma-4b-it")


def test_a_dry_run_takes_the_shape_of_the_start(run, handed_on, tmp_path):
    dry = ("train", "grpo", "--config", NAME, "--out", tmp_path, "--dry-run")
    run(*dry)
    run(*dry, "--start", tmp_path / "checkpoint")
    sources = [config.model.source for config, _ in handed_on]
    assert sources == ["embedded", str(tmp_path / "checkpoint")]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--config", "titration-credit-embeded"), "did you mean 'titration-credit-embedded'?"),
        (("--config", NAME, "--set", "optim.stepz=3"), "optim.stepz"),
        (("--config", NAME, "--set", "optim.steps=-3"), "optim.steps"),
        (("--config", NAME, "--set", "optim.steps"), "write section.field=value"),
    ],
)
@pytest.mark.parametrize("command", ["sft", "grpo"])
def test_nonsense_is_refused_before_anything_is_made(error, tmp_path, command, arguments, says):
    folder = tmp_path / "run"
    assert says in error("train", command, *arguments, "--out", folder)
    assert not folder.exists()


@pytest.mark.parametrize("command", ["sft", "grpo"])
def test_without_the_training_stack_one_line_says_what_to_install(
    error, tmp_path, monkeypatch, command
):
    monkeypatch.setitem(sys.modules, "trl", None)
    start = ("--start", tmp_path) if command == "grpo" else ()
    says = error("train", command, "--config", NAME, *start, "--out", tmp_path / "run")
    assert says == "trl is not installed; run: pip install 'clinical-envs[train]'"


@pytest.mark.parametrize("command", ["evaluate", "gates"])
def test_a_checkpoint_needs_the_training_stack_too(error, monkeypatch, command):
    monkeypatch.setitem(sys.modules, "transformers", None)
    says = error(command, "titration", "--policy", "hf:somewhere")
    assert says == "transformers is not installed; run: pip install 'clinical-envs[train]'"


@pytest.mark.parametrize("command", ["evaluate", "gates"])
def test_a_folder_that_is_no_checkpoint_is_refused(error, tmp_path, command):
    says = error(command, "titration", "--policy", f"hf:{tmp_path}")
    assert "is no checkpoint folder" in says


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_an_untrained_checkpoint_is_evaluated_as_parse_failures_and_resumed(run_json, tmp_path):
    from training.checkpoint_policy import PlaySettings
    from training.embedded import EmbeddedSize, save_embedded

    folder = save_embedded(tmp_path / "fresh", 0, EmbeddedSize(hidden=32, layers=1))
    PlaySettings(turn_tokens=2).write(folder)
    file = tmp_path / "episodes.jsonl"
    command = ("evaluate", "titration", "--policy", f"hf:{folder}", "-k", 1, "--out", file)
    found = run_json(*command)
    assert found["policy"] == f"hf:{folder}"
    assert found["parse_failure_rate"] > 0.99
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:25]) + lines[25][:40])
    again = run_json(*command)
    assert again == found
    assert [json.loads(line)["turns"] for line in file.read_text().splitlines()] == [
        json.loads(line)["turns"] for line in lines
    ]
