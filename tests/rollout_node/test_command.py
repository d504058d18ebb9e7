"""What `clinical-envs serve` prints, and what it refuses before anything starts."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.errors import InvalidArgument
from tests.rollout_node.conftest import NEEDS, TOKEN, command
from training.config import Limits
from training.rollout_node import (
    KEY_VARIABLE,
    RANKS,
    GuardedPathsOnly,
    Node,
    refuse_exposed,
    server,
    sidecar,
)
from training.sidecar import TOKEN_VARIABLE


def ran(
    environment: dict[str, str], *arguments: object, code: int = 0
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command(*arguments), env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code, done.stderr
    return done


def refused(environment: dict[str, str], *arguments: object) -> str:
    """The one line of a command that does nothing."""
    done = ran(environment, *arguments, code=2)
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def flags(words: list[str]) -> dict[str, str | None]:
    pairs = zip(words, [*words[1:], "--"], strict=True)
    return {
        word: None if following.startswith("--") else following
        for word, following in pairs
        if word.startswith("--")
    }


def test_the_printed_line_samples_honestly_and_serves_what_was_trained(
    fake_vllm: dict[str, str], checkpoint: Path
) -> None:
    printed = ran(fake_vllm, "--model", checkpoint, "--max-lora-rank", 17, "--print").stdout
    words = shlex.split(printed)
    start = words.index("python")
    assert words[start : start + 3] == ["python", "-m", "vllm.entrypoints.openai.api_server"]
    assert flags(words[start + 3 :]) == {
        "--model": str(checkpoint),
        "--served-model-name": "base",
        "--host": "127.0.0.1",
        "--port": "8000",
        "--dtype": "float32",
        "--max-model-len": "512",
        "--generation-config": "vllm",
        "--logprobs-mode": "processed_logprobs",
        "--max-lora-rank": "32",
        "--max-loras": "2",
        "--allowed-origins": "[]",
        "--block-size": "32",
        "--enable-lora": None,
        "--enable-prefix-caching": None,
        "--disable-uvicorn-access-log": None,
        "--enforce-eager": None,
    }
    variables = dict(word.split("=", 1) for word in words[:start])
    assert variables["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "True"
    assert variables["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"
    assert {"HF_HUB_OFFLINE", "VLLM_NO_USAGE_STATS", "DO_NOT_TRACK"} <= set(variables)


def test_the_printed_line_holds_no_secret(fake_vllm: dict[str, str], checkpoint: Path) -> None:
    secret = fake_vllm | {KEY_VARIABLE: "the-key-of-the-server", TOKEN_VARIABLE: TOKEN}
    done = ran(secret, "--model", checkpoint, "--print", "--host", "0.0.0.0")
    assert "the-key-of-the-server" not in done.stdout + done.stderr
    assert TOKEN not in done.stdout + done.stderr


def test_with_a_gpu_nothing_is_said_about_the_cpu(checkpoint: Path, tmp_path: Path) -> None:
    node = Node(model=checkpoint, adapters=tmp_path)
    service = server(node, {}, cpu=False)
    assert not {"--enforce-eager", "--block-size"} & set(service.command)
    assert not [name for name in service.environment if "CPU" in name or "OMP" in name]


def test_the_users_own_environment_wins(checkpoint: Path, tmp_path: Path) -> None:
    node = Node(model=checkpoint, adapters=tmp_path)
    service = server(node, {"VLLM_CPU_KVCACHE_SPACE": "8"}, cpu=True)
    assert service.environment["VLLM_CPU_KVCACHE_SPACE"] == "8"


def test_a_data_type_is_the_checkpoints_unless_given(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / "config.json").write_text(json.dumps({"torch_dtype": "bfloat16"}))
    node = Node(model=checkpoint, adapters=tmp_path)
    assert flags(list(server(node, {}, cpu=True).command))["--dtype"] == "bfloat16"
    node = Node(model=checkpoint, adapters=tmp_path, dtype="float32")
    assert flags(list(server(node, {}, cpu=True).command))["--dtype"] == "float32"


def test_a_checkpoint_that_says_no_limit_gets_that_of_training(
    checkpoint: Path, tmp_path: Path
) -> None:
    (checkpoint / "play.json").unlink()
    command = server(Node(model=checkpoint, adapters=tmp_path), {}, cpu=True).command
    assert flags(list(command))["--max-model-len"] == str(Limits().context_tokens)


@given(st.integers(-3, 600))
def test_a_rank_is_rounded_up_to_one_that_vllm_allocates(rank: int) -> None:
    from training.rollout_node import _allocated

    if not 1 <= rank <= RANKS[-1]:
        with pytest.raises(InvalidArgument, match="1 to 512"):
            _allocated(rank)
        return
    allocated = _allocated(rank)
    assert allocated >= rank
    assert not [other for other in RANKS if rank <= other < allocated]


def test_secrets_reach_only_the_service_they_belong_to(checkpoint: Path, tmp_path: Path) -> None:
    node = Node(model=checkpoint, adapters=tmp_path)
    inference, uploads = server(node, {KEY_VARIABLE: "key"}, cpu=True), sidecar(node, TOKEN)
    assert inference.secrets == {KEY_VARIABLE: "key"}
    assert uploads.secrets == {TOKEN_VARIABLE: TOKEN}
    for service in (inference, uploads):
        for secret in ("key", TOKEN):
            assert secret not in service.command
            assert secret not in service.environment.values()
        assert TOKEN not in repr(service)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_on_loopback_no_secret_is_needed(host: str, tmp_path: Path) -> None:
    refuse_exposed(Node(model=tmp_path, adapters=tmp_path, host=host), {}, None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "rollout-node", "localhost.evil"])
def test_elsewhere_both_secrets_are_needed(host: str, tmp_path: Path) -> None:
    node = Node(model=tmp_path, adapters=tmp_path, host=host)
    key = {KEY_VARIABLE: "key"}
    for environ, token in (({}, None), (key, None), ({}, TOKEN), ({KEY_VARIABLE: ""}, TOKEN)):
        with pytest.raises(InvalidArgument, match="can be reached from other machines"):
            refuse_exposed(node, environ, token)
    refuse_exposed(node, key, TOKEN)


def test_an_exposed_address_without_secrets_is_refused(
    fake_vllm: dict[str, str], checkpoint: Path
) -> None:
    line = refused(fake_vllm, "--model", checkpoint, "--host", "0.0.0.0")
    assert KEY_VARIABLE in line
    assert TOKEN_VARIABLE in line


def test_without_vllm_the_line_says_how_to_install_it(
    fake_vllm: dict[str, str], checkpoint: Path
) -> None:
    line = refused(fake_vllm | {"PYTHONPATH": ""}, "--model", checkpoint)
    assert "pip install -c training/constraints/serve.txt" in line


def test_a_taken_port_is_told_before_a_model_is_loaded(
    fake_vllm: dict[str, str], checkpoint: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        line = refused(fake_vllm, "--model", checkpoint, "--port", port)
        assert "choose another --port" in line
        uploads = fake_vllm | {TOKEN_VARIABLE: TOKEN}
        line = refused(uploads, "--model", checkpoint, "--port", 0, "--sidecar-port", port)
        assert "choose another --sidecar-port" in line


@pytest.mark.parametrize("option", ["--port", "--sidecar-port"])
def test_a_port_that_cannot_be_is_refused(
    fake_vllm: dict[str, str], checkpoint: Path, option: str
) -> None:
    said = ran(fake_vllm, "--model", checkpoint, option, 65536, code=2).stderr
    assert option in said
    assert "65535" in said


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("config.json", "", "is no checkpoint folder"),
        ("config.json", '{"vision_config": {}}', "training.medgemma export"),
        ("adapter_config.json", "{}", "is an adapter"),
        ("play.json", '{"turn_tokens": 12}', "write it again by training"),
        ("play.json", "{", "write it again by training"),
    ],
)
def test_what_cannot_be_served_is_refused(
    checkpoint: Path, tmp_path: Path, name: str, content: str, told: str
) -> None:
    (checkpoint / name).write_text(content)
    with pytest.raises(InvalidArgument, match=told):
        server(Node(model=checkpoint, adapters=tmp_path), {}, cpu=True)


def test_with_a_key_only_paths_that_the_key_guards_are_open(
    checkpoint: Path, tmp_path: Path
) -> None:
    node = Node(model=checkpoint, adapters=tmp_path)
    named = flags(list(server(node, {KEY_VARIABLE: "key"}, cpu=True).command))["--middleware"]
    assert named == f"{GuardedPathsOnly.__module__}.{GuardedPathsOnly.__qualname__}"
    assert "--middleware" not in server(node, {}, cpu=True).command


@pytest.mark.parametrize(
    ("path", "open_"),
    [
        ("/health", True),
        ("/v1/completions", True),
        ("/v1/load_lora_adapter", True),
        ("/adapters", False),
        ("/adapters/a", False),
        ("/invocations", False),
        ("/v1", False),
        ("/v1x", False),
        ("/docs", False),
    ],
)
def test_a_path_is_passed_on_or_unknown(path: str, open_: bool) -> None:
    pytest.importorskip("starlette.testclient", reason=NEEDS)
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route
    from starlette.testclient import TestClient

    async def reached(request: Request) -> PlainTextResponse:
        return PlainTextResponse("reached")

    app = Starlette(routes=[Route("/{path:path}", reached)])
    app.add_middleware(GuardedPathsOnly)
    with TestClient(app) as client:
        assert (client.get(path).text == "reached") is open_
