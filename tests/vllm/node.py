"""A rollout node as a user starts it, and a training beside it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
START_S = 900.0  # on a machine that does much else
SECRETS = {
    "VLLM_API_KEY": "key-of-the-server-in-tests",
    "CLINICAL_ENVS_SIDECAR_TOKEN": "token-of-the-sidecar-in-tests",
}


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


@dataclass
class Node:
    """`clinical-envs serve` in the environment that has vLLM; killed and started on its ports.

    folder: for its log and for uploaded adapters.
    """

    python: Path
    checkpoint: Path
    folder: Path
    port: int = field(default_factory=free_port)
    sidecar_port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def sidecar_url(self) -> str:
        return f"http://127.0.0.1:{self.sidecar_port}"

    @property
    def log(self) -> Path:
        return self.folder / "serve.log"

    @property
    def uploads(self) -> Path:
        return self.folder / "uploads"

    def start(self) -> None:
        """Start it and return at once."""
        command = [str(self.python), "-m", "training.cli", "serve", "--model", str(self.checkpoint)]
        command += ["--port", str(self.port), "--sidecar-port", str(self.sidecar_port)]
        command += ["--adapters", str(self.uploads)]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=os.environ | SECRETS, stdout=output, stderr=output
            )

    def wait(self) -> None:
        """Until it is ready."""
        import httpx

        assert self.process is not None
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text()[-4000:]
            with suppress(httpx.TransportError):
                both = (f"{self.url}/health", f"{self.sidecar_url}/health")
                if all(httpx.get(url, timeout=5).status_code == 200 for url in both):
                    return
            time.sleep(0.2)
        raise TimeoutError(self.log.read_text()[-4000:])

    def wait_for_log(self, text: str) -> None:
        """Until the server has said it."""
        deadline = time.monotonic() + START_S
        while text not in self.log.read_text():
            assert time.monotonic() < deadline, self.log.read_text()[-4000:]
            time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL to vLLM's own process; the command notices and stops the rest."""
        assert self.process is not None
        os.kill(self.server_pid(), signal.SIGKILL)
        assert self.process.wait(60) == 1
        self.process = None

    def stop(self) -> None:
        """As Ctrl-C does."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            assert self.process.wait(60) == 0
            self.process = None

    def server_pid(self) -> int:
        """Of the API server, the child of the command that is not the sidecar."""
        assert self.process is not None
        task = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for pid in map(int, task.read_text().split()):
            if b"vllm.entrypoints" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
        raise LookupError("no server among the children of the command")


@dataclass
class Training:
    """`clinical-envs train grpo` in a process of its own, on tiny validation and test sets."""

    folder: Path
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, node: Node, folder: Path, *overrides: str) -> Training:
        command = [sys.executable, "-m", "tests.vllm.train", "train", "grpo"]
        command += ["--config", "diagnostics-outcome-embedded", "--start", str(node.checkpoint)]
        command += ["--out", str(folder)]
        patience = f"vllm.patience_s={START_S}"
        for override in ("engine=vllm", f"vllm.url={node.url}", patience, *overrides):
            command += ["--set", override]
        environment = os.environ | SECRETS | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        with folder.with_suffix(".log").open("wb") as output:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=output, stderr=output
            )
        return cls(folder, process)

    @property
    def told(self) -> str:
        """Everything it has said."""
        return self.folder.with_suffix(".log").read_text()

    @property
    def adapters(self) -> str:
        """What the names of its adapters begin with, once it has chosen it."""
        deadline = time.monotonic() + START_S
        while "adapters" not in self.facts:
            assert time.monotonic() < deadline, self.told
            time.sleep(0.1)
        return f"{self.facts['adapters']}-1"

    @property
    def facts(self) -> dict[str, Any]:
        """What `run.json` holds, once there is one."""
        file = self.folder / "run.json"
        found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        return found

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Whole rows of a JSON Lines file of the run."""
        file = self.folder / f"{name}.jsonl"
        text = file.read_text().rpartition("\n")[0] if file.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def wait_for_step(self, step: int) -> None:
        """Until the rollouts of this step are recorded."""
        deadline = time.monotonic() + START_S
        while not any(row["step"] >= step for row in self.rows("rollouts")):
            assert self.process.poll() is None, self.told
            assert time.monotonic() < deadline, self.told
            time.sleep(0.05)

    def end(self) -> None:
        """Kill it, unless it is over."""
        self.process.kill()
        self.process.wait()

    def finish(self) -> dict[str, Any]:
        """Wait for its end; what `run.json` holds."""
        assert self.process.wait(2 * START_S) == 0, self.told
        return self.facts
