"""What the real server does with adapters, and to whom it answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tests.training.toy import NEEDS
from tests.vllm.node import SECRETS, Node
from training.adapter_sync import AdapterSync, SharedFolder
from training.chat import ChatTokens
from training.patience import Patience, ServedError, Trouble
from training.runs import quiet
from training.vllm_server import Reply, VllmServer

httpx = pytest.importorskip("httpx", reason=NEEDS)
torch = pytest.importorskip("torch", reason=NEEDS)
pytest.importorskip("trl", reason=NEEDS)

pytestmark = pytest.mark.slow
TOLERANCE = 1e-4
TEXT = "A patient has a fever. What do you ask?"


@pytest.fixture
def server(node: Node, monkeypatch: pytest.MonkeyPatch) -> Iterator[VllmServer]:
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    served = VllmServer(node.url, timeout_s=60.0)
    yield served
    served.close()


@pytest.fixture
def sync(server: VllmServer, tmp_path: Path) -> AdapterSync:
    patience = Patience(seconds=60.0, say=print)
    return AdapterSync(
        server, SharedFolder(), tmp_path / "adapters", name="sync-check", patience=patience
    )


def policy(checkpoint: Path, rank: int = 16) -> tuple[Any, ChatTokens]:
    """The checkpoint with an adapter that does nothing yet."""
    from peft import get_peft_model

    from training.config import load_config
    from training.models import load_policy, lora_config

    quiet()
    model, tokenizer = load_policy(checkpoint)
    config = load_config("diagnostics-outcome-embedded", [f"lora.rank={rank}"])
    return get_peft_model(model, lora_config(config)).eval(), ChatTokens(tokenizer)


def randomise(model: Any, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            weight.data = 0.05 * torch.randn(weight.shape, generator=generator)


def here(model: Any, prompt: tuple[int, ...], reply: Reply) -> np.ndarray[Any, Any]:
    """Log-probabilities of a reply by the model in this process."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*prompt, *reply.ids]])).logits[0]
    told = torch.log_softmax(logits[len(prompt) - 1 : -1].float(), -1)
    return told.gather(1, torch.tensor(reply.ids)[:, None])[:, 0].numpy()


def test_every_port_of_the_node_is_on_loopback(node: Node) -> None:
    """Those between vLLM's own processes too, which ask for no secret."""
    assert node.process is not None
    root = psutil.Process(node.process.pid)
    bound = {
        open_.laddr.ip
        for process in (root, *root.children(recursive=True))
        for open_ in process.net_connections(kind="tcp")
        if open_.status == psutil.CONN_LISTEN
    }
    assert bound == {"127.0.0.1"}


def test_base_and_two_adapters_differ_and_each_equals_the_trainers(
    sync: AdapterSync, server: VllmServer, checkpoint: Path
) -> None:
    model, tokens = policy(checkpoint)
    prompt = tokens.prompt(TEXT)
    adapters = {None: 0, "A": 1, "B": 2}
    spread: dict[str | None, np.ndarray[Any, Any]] = {}
    names = []
    for label, seed in adapters.items():
        if label is not None:
            randomise(model, seed)
            sync.publish(label, model.save_pretrained)
        names.append(sync.current.name)
        asked: dict[str, Any] = {"max_tokens": 12, "stop": tokens.end_of_turn}
        replies = server.complete([prompt] * 16, model=sync.current.name, **asked)
        for reply in replies:
            assert np.abs(here(model, prompt, reply) - reply.logprobs).max() <= TOLERANCE
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([prompt])).logits[0, -1]
        spread[label] = torch.log_softmax(logits.float(), -1).numpy()
    assert names == [sync.offer.base, "sync-check-A", "sync-check-B"]
    pairs = [(None, "A"), (None, "B"), ("A", "B")]
    assert min(float(np.abs(spread[a] - spread[b]).max()) for a, b in pairs) > 100 * TOLERANCE
    # A was unloaded when B came, and the base is there as ever
    with pytest.raises(Trouble, match="sync-check-A"):
        server.complete([prompt], model="sync-check-A", max_tokens=1, stop=tokens.end_of_turn)
    assert server.offer().adapters == {"sync-check-B"}
    sync.serve_base()
    assert server.offer().adapters == frozenset()


def test_the_server_is_recognised_as_the_start_and_another_start_is_not(
    server: VllmServer, checkpoint: Path
) -> None:
    from training.probe import check_start

    model, tokens = policy(checkpoint)
    check_start(server, "base", model, tokens, TOLERANCE)
    model.base_model.model.model.norm.weight.data += 0.1
    with pytest.raises(ServedError, match="another model"):
        check_start(server, "base", model, tokens, TOLERANCE)


def test_an_adapter_of_a_larger_rank_than_the_server_takes_is_explained(
    sync: AdapterSync, checkpoint: Path
) -> None:
    model, _ = policy(checkpoint, rank=32)
    with pytest.raises(ServedError, match="--max-lora-rank"):
        sync.publish("wide", model.save_pretrained)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"),
        ("POST", "/v1/completions"),
        ("POST", "/v1/load_lora_adapter"),
        ("POST", "/adapters"),
        ("DELETE", "/adapters/base"),
        ("POST", "/invocations"),
        ("GET", "/docs"),
    ],
)
def test_without_the_key_the_server_does_nothing(node: Node, method: str, path: str) -> None:
    reply = httpx.request(method, f"{node.url}{path}", json={"model": "base", "prompt": [1]})
    assert reply.status_code in (401, 404)
    origin = {"Origin": "http://elsewhere.example"}
    answer = httpx.get(f"{node.url}/health", headers=origin)
    assert "access-control-allow-origin" not in answer.headers
