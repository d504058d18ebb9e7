"""One rollout node for the session; whoever kills it starts it again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.vllm.node import Node, Training

VARIABLE = "CLINICAL_ENVS_VLLM_PYTHON"
REMEDY = f"needs a vLLM environment, whose Python {VARIABLE} names; run: make test-vllm"


@pytest.fixture(scope="session")
def vllm_python() -> Path:
    python = os.environ.get(VARIABLE)
    if not python:
        pytest.skip(REMEDY)
    return Path(python).absolute()


@pytest.fixture(scope="session")
def checkpoint(vllm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded policy after a short warmup on the light teacher of diagnostics."""
    from training.config import load_config
    from training.sft import warm_up

    config = load_config("diagnostics-light-embedded", ["warmup.steps=40"])
    return warm_up(config, tmp_path_factory.mktemp("warmup") / "start")


@pytest.fixture(scope="session")
def shared_node(
    vllm_python: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Node]:
    node = Node(vllm_python, checkpoint, tmp_path_factory.mktemp("node"))
    node.start()
    try:
        yield node
    finally:
        node.stop()


@pytest.fixture
def node(shared_node: Node) -> Node:
    """The node, up and ready."""
    if shared_node.process is None:
        shared_node.start()
    shared_node.wait()
    return shared_node


@pytest.fixture
def train(node: Node, tmp_path: Path) -> Iterator[Callable[..., Training]]:
    """Starts a training on the node."""
    started: list[Training] = []

    def start(*overrides: str) -> Training:
        started.append(Training.start(node, tmp_path / "run", *overrides))
        return started[-1]

    yield start
    for training in started:
        training.end()
