"""Settings of the rollout server: refused before anything is loaded, and no part of the hash."""

from __future__ import annotations

import re
from typing import Any

import pytest

from clinical_envs.errors import InvalidArgument
from tests.training.test_config import refusal, sample
from training.config import load_config
from training.runs import as_toml

URL = "http://rollout-node:8000"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"engine": "trl"}, "engine"),
        ({"engine": "vllm"}, "vllm.url must be http://HOST:PORT"),
        ({"vllm": {"url": URL}}, "set engine=vllm"),
        ({"engine": "vllm", "vllm": {"url": "rollout-node:8000"}}, "vllm.url must be"),
        ({"engine": "vllm", "vllm": {"url": f"{URL}/v1"}}, "vllm.url must be"),
        ({"engine": "vllm", "vllm": {"url": URL, "sync": "upload"}}, "give vllm.sidecar_url"),
        ({"engine": "vllm", "vllm": {"url": URL, "sync": "nccl"}}, "vllm.sync"),
        (
            {"engine": "vllm", "vllm": {"url": URL, "sidecar_url": "http://rollout-node:8001"}},
            "set vllm.sync=upload",
        ),
        (
            {"engine": "vllm", "vllm": {"url": URL, "sync": "upload", "sidecar_url": "node"}},
            "vllm.sidecar_url must be",
        ),
        ({"engine": "vllm", "vllm": {"url": URL, "patience_s": 0}}, "vllm.patience_s"),
        ({"engine": "vllm", "vllm": {"url": URL, "timeout_s": float("inf")}}, "vllm.timeout_s"),
        ({"engine": "vllm", "vllm": {"url": URL, "logprob_tolerance": -1}}, "logprob_tolerance"),
        ({"engine": "vllm", "vllm": {"url": URL, "token": "x"}}, "vllm.token"),
        (
            {"engine": "vllm", "vllm": {"url": URL}, "lora": {"targets": ["q_proj", "lm_head"]}},
            "lora.targets has lm_head",
        ),
        (
            {"engine": "vllm", "vllm": {"url": URL}, "lora": {"dropout": 0.05}},
            "engine is vllm, which samples without; set lora.dropout=0",
        ),
        ({"engine": "vllm", "vllm": {"url": "http://node:99999"}}, "vllm.url has port 99999"),
    ],
    ids=str,
)
def test_nonsense_is_refused_in_one_line(data: dict[str, Any], words: str) -> None:
    assert words in refusal({"warmup": {"kind": "full"}} | data)


def test_a_secret_in_a_url_is_refused_and_not_repeated() -> None:
    message = refusal(
        {"warmup": {"kind": "full"}, "engine": "vllm", "vllm": {"url": "http://me:hush@node:8000"}}
    )
    assert "secrets come from the environment" in message
    assert "hush" not in message


def test_the_command_line_names_engine_and_server() -> None:
    config = load_config(
        "diagnostics-outcome-embedded", ["engine=vllm", f"vllm.url={URL}", "vllm.patience_s=600"]
    )
    assert config.engine == "vllm"
    assert config.vllm.url == URL
    assert config.vllm.patience_s == 600.0
    assert config.vllm.logprob_tolerance is None
    with pytest.raises(InvalidArgument, match=re.escape("vllm.uri")):
        load_config("diagnostics-outcome-embedded", ["engine=vllm", f"vllm.uri={URL}"])


def test_where_rollouts_are_sampled_does_not_change_what_a_run_is_called() -> None:
    """So that a run may go on with another server, or without one."""
    elsewhere = sample(engine="vllm", vllm={"url": URL, "logprob_tolerance": 0.01})
    assert elsewhere.hash == sample().hash
    assert elsewhere != sample()


def test_it_is_written_into_the_run_and_read_again(tmp_path: Any) -> None:
    config = sample(engine="vllm", vllm={"url": URL, "sync": "shared", "shared_folder": "/shared"})
    file = tmp_path / "config.toml"
    file.write_text(as_toml(config), encoding="utf-8")
    assert load_config(file) == config
