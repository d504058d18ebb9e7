"""Servers as real processes, started in milliseconds from one that has imported everything."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.training.toy import tokenizer, warm_model
from training.adapter_sync import AdapterSync, SharedFolder
from training.patience import Patience
from training.vllm_server import VllmServer

ROOT = Path(__file__).parents[2]
collect_ignore = ["fake_vllm.py"]
Connect = Callable[..., AdapterSync]


def lora(rank: int = 4, *, seed: int = 0) -> Any:
    """An adapter on the toy's policy that changes it."""
    import peft
    import torch

    config = peft.LoraConfig(r=rank, target_modules="all-linear", init_lora_weights=False)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return peft.get_peft_model(warm_model(), config).eval()


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


@dataclass
class Nursery:
    """Starts processes from one that has the training stack in memory."""

    process: subprocess.Popen[str]
    started: list[int] = field(default_factory=list)

    def start(self, wanted: dict[str, Any]) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(wanted) + "\n")
        self.process.stdin.flush()
        self.started.append(int(self.process.stdout.readline()))
        return self.started[-1]


@dataclass
class Fake:
    """A server that can be killed and started again on its port."""

    nursery: Nursery
    settings: dict[str, Any]
    pid: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.settings['port']}"

    def start(self, **settings: Any) -> None:
        self.settings |= settings
        self.pid = self.nursery.start(self.settings)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        while is_alive(self.pid):
            time.sleep(0.005)

    def stop(self) -> None:
        """Hang it: it takes connections and answers nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def wait(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                self._call("/health")
            except OSError:
                time.sleep(0.02)
            else:
                return
        pytest.fail("the fake server does not come up")

    def control(self, **faults: Any) -> None:
        self._call("/control", faults)

    def reset(self) -> None:
        self._call("/reset", {})

    @property
    def seen(self) -> dict[str, list[Any]]:
        return dict(self._call("/seen"))

    @property
    def adapters(self) -> list[str]:
        return [card["id"] for card in self._call("/v1/models")["data"] if card["parent"]]

    def _call(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f"{self.url}{path}", data, timeout=5) as reply:
            return json.load(reply)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.served.fake_vllm"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    made = Nursery(process)
    yield made
    process.stdin.close()
    process.stdout.close()
    process.kill()
    process.wait()


@pytest.fixture(scope="session")
def toy_start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warmed-up policy of the toy as a checkpoint."""
    folder = tmp_path_factory.mktemp("toy") / "start"
    warm_model().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def start_fake(nursery: Nursery, toy_start: Path) -> Iterator[Callable[..., Fake]]:
    """Starts servers, by default of the toy's policy, that do not outlive the test."""
    made: list[Fake] = []

    def start(*, wait: bool = True, **settings: Any) -> Fake:
        wanted = {"port": free_port(), "model": str(toy_start)} | settings
        fake = Fake(nursery, wanted)
        fake.start()
        made.append(fake)
        if wait:
            fake.wait()
        return fake

    yield start
    for fake in made:
        if is_alive(fake.pid):
            fake.kill()


@pytest.fixture(scope="session")
def _lasting(nursery: Nursery, toy_start: Path) -> Iterator[Fake]:
    fake = Fake(nursery, {"port": free_port(), "model": str(toy_start)})
    yield fake
    if is_alive(fake.pid):
        fake.kill()


@pytest.fixture
def fake(_lasting: Fake) -> Fake:
    """A server of the toy's policy, as new, whatever the test before did to it."""
    if not _lasting.pid or not is_alive(_lasting.pid):
        _lasting.start()
    _lasting.go_on()
    _lasting.wait()
    _lasting.reset()
    return _lasting


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    """Joins a server with a folder; settings are timeout_s, patience_s, said, carrier."""
    made: list[VllmServer] = []

    def connect(fake: Fake, **settings: Any) -> AdapterSync:
        wanted: dict[str, Any] = {"timeout_s": 20.0, "patience_s": 20.0, "said": []} | settings
        made.append(VllmServer(fake.url, timeout_s=wanted["timeout_s"]))
        return AdapterSync(
            made[-1],
            wanted.get("carrier") or SharedFolder(),
            tmp_path / "adapters",
            name="run-1",
            patience=Patience(seconds=wanted["patience_s"], say=wanted["said"].append),
        )

    yield connect
    for server in made:
        server.close()
