"""The two-node part of training/README.md: its commands are understood, its numbers the code's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from training.config import load_config
from training.on_policy import TOLERANCE

SECTION = (
    (Path(__file__).parents[2] / "training" / "README.md")
    .read_text(encoding="utf-8")
    .split("## Two nodes")[1]
    .split("\n## ")[0]
)
COMMANDS = [
    line.split("#")[0].strip()
    for block in re.findall(r"```\n(.*?)```", SECTION, re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
]


def test_every_training_command_is_a_sound_configuration() -> None:
    trainings = [command for command in COMMANDS if "training/grpo.py" in command]
    assert len(trainings) == 3
    for command in trainings:
        words = shlex.split(command.split("training/grpo.py")[1])
        options = list(zip(words[::2], words[1::2], strict=True))
        chosen = [value for name, value in options if name == "--set"]
        config = load_config(dict(options)["--config"], chosen)
        assert config.engine == "vllm"
        assert {name for name, _ in options} == {"--config", "--start", "--out", "--set"}


def test_every_serve_command_names_options_that_exist() -> None:
    from training.cli import app

    served = {command for command in COMMANDS if "clinical-envs serve" in command}
    assert len(served) == 2
    known = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).output
    for command in served:
        for option in re.findall(r"--[a-z-]+", command):
            assert option in known
    for option in ("--print", "--max-lora-rank"):
        assert option in SECTION
        assert option in known


def test_every_number_quoted_is_the_codes() -> None:
    vllm = load_config("diagnostics-outcome-embedded").vllm
    assert f"`vllm.patience_s` ({vllm.patience_s:g} s)" in SECTION
    words = " ".join(SECTION.split())
    assert f"`vllm.timeout_s` ({vllm.timeout_s:g} s)" in words
    exact, coarse = (f"{TOLERANCE[dtype]:.4f}".strip("0") for dtype in ("float32", "bfloat16"))
    assert f"({exact}, in bfloat16 {coarse}," in words


@pytest.mark.parametrize("name", re.findall(r"`rollout/(\w+)`", SECTION))
def test_every_metric_named_is_logged(name: str) -> None:
    source = Path(__file__).parents[2] / "training" / "served_trainer.py"
    assert f'"rollout/{name}"' in source.read_text(encoding="utf-8")
