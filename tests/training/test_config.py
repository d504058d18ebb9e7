"""Configurations: nonsense is refused in one line, overrides arrive, the hash is stable."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

from clinical_envs.catalog import load_task
from clinical_envs.errors import InvalidArgument
from training.config import Config, config_from, config_names, load_config

TOML = """\
task = "diagnostics"
seed = 3

[reward]
variant = "credit"
entropy = 0.2

[optim]
learning_rate = 6e-4

[warmup]
kind = "full"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(TOML, encoding="utf-8")
    return path


def refusal(data: dict[str, Any]) -> str:
    with pytest.raises(InvalidArgument) as caught:
        config_from({"task": "diagnostics"} | data)
    message = str(caught.value)
    assert message.splitlines() == [message]
    assert message.startswith("configuration: ")
    return message


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"optim": {"steps": 0}}, "optim.steps"),
        ({"optim": {"rollouts": 1}}, "optim.rollouts"),
        ({"optim": {"learning_rate": -1e-5}}, "optim.learning_rate"),
        ({"optim": {"learning_rate": float("nan")}}, "optim.learning_rate"),
        ({"optim": {"micro_batch": 7}}, "must divide groups x rollouts = 64"),
        ({"optim": {"stepz": 3}}, "stepz"),
        ({"optimizer": {}}, "optimizer"),
        ({"reward": {"variant": "credits"}}, "reward.variant"),
        ({"reward": {"variant": "credit"}}, "every credit weighs 0"),
        ({"reward": {"entropy": 0.2}}, "say credit"),
        ({"reward": {"variant": "decoupled", "regret": 1.0}}, "say credit"),
        ({"reward": {"variant": "decoupled", "per_turn": True}}, "no meaning in the decoupled"),
        ({"reward": {"scale": "sum"}}, "reward.scale"),
        ({"reward": {"high_risk_share": 1.5}}, "reward.high_risk_share"),
        ({"reward": {"outcome": float("inf")}}, "reward.outcome"),
        ({"warmup": {"kind": "light"}, "teacher": {"hazard": [1.2]}}, "teacher.hazard"),
        ({"warmup": {"kind": "light"}}, "teacher.hazard is empty"),
        ({"warmup": {"kind": "full", "keep_high_risk": -0.1}}, "warmup.keep_high_risk"),
        ({"limits": {"turn_tokens": 0}}, "limits.turn_tokens"),
        ({"model": {"dtype": "float16"}}, "model.dtype"),
        ({"lora": {"rank": 0}}, "lora.rank"),
        ({"seed": "seven"}, "seed"),
        ({"task": None}, "task"),
    ],
    ids=str,
)
def test_nonsense_is_refused_in_one_line(data: dict[str, Any], words: str) -> None:
    full = {"warmup": {"kind": "full"}}
    assert words in refusal(full | data)


def test_a_file_is_read_and_overridden_field_by_field(file: Path) -> None:
    config = load_config(
        file, ["reward.entropy=0.3", "task=refill", 'reward.scale="batch"', "teacher.hazard=[0.5]"]
    )
    assert config.task == "refill"
    assert config.seed == 3
    assert config.reward.entropy == 0.3
    assert config.reward.scale == "batch"
    assert config.teacher.hazard == (0.5,)
    assert config.optim.learning_rate == 6e-4


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("reward.entropy", "write section.field=value"),
        ("reward.entropie=1", "entropie"),
        ("reward.entropy=much", "reward.entropy"),
        ("rewards.entropy=1", "rewards"),
        ("seed.x=1", "seed"),
    ],
)
def test_an_override_that_makes_no_sense_is_refused_in_one_line(
    file: Path, override: str, words: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        load_config(file, [override])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_missing_or_no_toml_is_refused_in_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("task = ", encoding="utf-8")
    for path in (broken, tmp_path / "none.toml"):
        with pytest.raises(InvalidArgument, match="configuration") as caught:
            load_config(path)
        assert "\n" not in str(caught.value)


def test_an_unknown_name_is_refused_in_one_line() -> None:
    with pytest.raises(InvalidArgument, match="no configuration 'diagnostic-outcom'") as caught:
        load_config("diagnostic-outcom")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", config_names())
def test_every_shipped_configuration_is_sound(name: str) -> None:
    assert load_task(load_config(name).task).turn_cap > 1


def test_a_configuration_cannot_be_changed(file: Path) -> None:
    with pytest.raises(FrozenInstanceError):
        load_config(file).seed = 4  # type: ignore[misc]


def sample(**data: Any) -> Config:
    return config_from({"task": "diagnostics", "warmup": {"kind": "full"}} | data)


def test_the_hash_is_the_same_for_the_same_content_however_it_is_written() -> None:
    one = sample(seed=1, reward={"outcome": 1, "scale": "batch"})
    other = sample(reward={"scale": "batch", "outcome": 1.0}, seed=1)
    assert one == other
    assert one.hash == other.hash
    assert sample(optim={"steps": 60}).hash == sample().hash  # a default that is written out


@pytest.mark.parametrize(
    "data",
    [{"seed": 1}, {"task": "refill"}, {"lora": {"rank": 8}}, {"optim": {"learning_rate": 1.1e-5}}],
    ids=str,
)
def test_the_hash_changes_with_any_field(data: dict[str, Any]) -> None:
    assert sample(**data).hash != sample().hash


def test_the_hash_does_not_depend_on_the_process() -> None:
    program = "from tests.training.test_config import sample; print(sample(seed=5).hash)"
    environment = os.environ | {"PYTHONHASHSEED": "11", "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.stdout.split() == [sample(seed=5).hash], done.stderr
