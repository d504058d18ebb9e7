"""Both services live and die together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.rollout_node.conftest import NEEDS, ROOT, TOKEN, command
from training.rollout_node import KEY_VARIABLE
from training.sidecar import TOKEN_VARIABLE

httpx = pytest.importorskip("httpx", reason=NEEDS)
pytest.importorskip("uvicorn", reason=NEEDS)
adapter = pytest.importorskip("tests.rollout_node.adapters", reason=NEEDS).adapter


class Served:
    """A running `clinical-envs serve`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, notes: Path) -> None:
        self.process, self.log, self.notes = process, log, notes

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 30
        while text not in self.log.read_text():
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)

    @property
    def started(self) -> dict[str, Any]:
        """What the stand-in noted of its start."""
        while not self.notes.exists():
            time.sleep(0.05)
        found: dict[str, Any] = json.loads(self.notes.read_text())
        return found


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # an orphan whose parent is not told stays as a zombie where no init collects it
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while lives(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not lives(pid)


@contextmanager
def serving(tmp_path: Path, environment: dict[str, str], *arguments: object) -> Iterator[Served]:
    log, notes = tmp_path / "log", tmp_path / "notes.json"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command("--adapters", tmp_path / "store", *arguments),
            env=environment | {"STAND_IN_NOTES": str(notes)},
            stdout=output,
            stderr=output,
        )
    try:
        yield Served(process, log, notes)
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        process.kill()
        process.wait()


@pytest.fixture
def ports(free_port: Callable[[], int]) -> tuple[int, int]:
    return free_port(), free_port()


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_both_are_ready_and_the_user_stops_both(
    tmp_path: Path,
    fake_vllm: dict[str, str],
    checkpoint: Path,
    ports: tuple[int, int],
    sign: signal.Signals,
) -> None:
    environment = fake_vllm | {TOKEN_VARIABLE: TOKEN, KEY_VARIABLE: "the-key"}
    options = ["--model", checkpoint, "--port", ports[0], "--sidecar-port", ports[1]]
    with serving(tmp_path, environment, *options) as served:
        served.wait_for("ready: ")
        url = f"http://127.0.0.1:{ports[1]}/adapters/a"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert httpx.put(url, content=adapter(), headers=headers).status_code == 201
        assert httpx.get(f"http://127.0.0.1:{ports[0]}/health").status_code == 200
        environment_of_server = served.started["environment"]
        assert environment_of_server[KEY_VARIABLE] == "the-key"
        assert TOKEN_VARIABLE not in environment_of_server
        served.process.send_signal(sign)
        assert served.process.wait(30) == 0
        assert gone(served.started["pid"])
        assert gone(served.started["worker"])
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"http://127.0.0.1:{ports[1]}/health")
        told = served.log.read_text()
    assert f"ready: http://127.0.0.1:{ports[0]}, model base; uploads at http" in told
    assert "stopping" in told
    assert TOKEN not in told
    assert "the-key" not in told
    assert "Traceback" not in told


def test_without_a_token_nothing_takes_uploads(
    tmp_path: Path, fake_vllm: dict[str, str], checkpoint: Path, ports: tuple[int, int]
) -> None:
    options = ["--model", checkpoint, "--port", ports[0], "--sidecar-port", ports[1]]
    with serving(tmp_path, fake_vllm, *options) as served:
        served.wait_for("no uploads without a token")
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"http://127.0.0.1:{ports[1]}/health")


def test_a_server_that_dies_takes_the_sidecar_with_it(
    tmp_path: Path, fake_vllm: dict[str, str], checkpoint: Path, ports: tuple[int, int]
) -> None:
    environment = fake_vllm | {TOKEN_VARIABLE: TOKEN, "STAND_IN_LIFE_S": "3"}
    options = ["--model", checkpoint, "--port", ports[0], "--sidecar-port", ports[1]]
    with serving(tmp_path, environment, *options) as served:
        assert served.process.wait(30) == 1
        told = served.log.read_text()
        assert "the inference server ended with code 7; stopping the sidecar" in told
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"http://127.0.0.1:{ports[1]}/health")


def test_a_server_that_was_killed_leaves_no_worker_behind(
    tmp_path: Path, fake_vllm: dict[str, str], checkpoint: Path, ports: tuple[int, int]
) -> None:
    with serving(tmp_path, fake_vllm, "--model", checkpoint, "--port", ports[0]) as served:
        served.wait_for("ready: ")
        os.kill(served.started["pid"], signal.SIGKILL)
        assert served.process.wait(30) == 1
        assert gone(served.started["worker"])
        assert "ended with code -9" in served.log.read_text()


def test_a_sidecar_that_dies_takes_the_server_with_it(
    tmp_path: Path, fake_vllm: dict[str, str], checkpoint: Path, ports: tuple[int, int]
) -> None:
    (tmp_path / "store").write_text("a file where the folder would be")
    environment = fake_vllm | {TOKEN_VARIABLE: TOKEN, "STAND_IN_LOADING_S": "60"}
    options = ["--model", checkpoint, "--port", ports[0], "--sidecar-port", ports[1]]
    with serving(tmp_path, environment, *options) as served:
        assert served.process.wait(30) == 1
        told = served.log.read_text()
        assert "cannot write adapters" in told
        assert "the sidecar ended with code 2; stopping the inference server" in told
        assert gone(served.started["pid"])


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_second_signal_while_it_stops_leaves_nothing_behind(
    tmp_path: Path, sign: signal.Signals
) -> None:
    slow = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(2), sys.exit(0)))\n"
        "open(sys.argv[1], 'w').write(str(os.getpid()))\n"
        "time.sleep(60)"
    )
    program = (
        "import sys, training.supervise as s\n"
        "services = [s.Service(name=f, command=(sys.executable, '-c', sys.argv[1], f),\n"
        "                      url='http://127.0.0.1:9') for f in sys.argv[2:]]\n"
        "sys.exit(s.run(services, print, 'ready'))\n"
    )
    notes = [tmp_path / name for name in ("server", "sidecar")]
    supervisor = subprocess.Popen(
        [sys.executable, "-c", program, slow, *map(str, notes)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 30
    while not all(note.exists() and note.read_text() for note in notes):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    supervisor.send_signal(sign)
    time.sleep(0.5)
    supervisor.send_signal(sign)
    assert supervisor.wait(30) == 0
    assert not [note for note in notes if lives(int(note.read_text()))]


def test_a_proxy_of_the_environment_is_not_asked_whether_a_service_is_up(
    monkeypatch: pytest.MonkeyPatch, sidecar: httpx.Client
) -> None:
    from training.supervise import _answers

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert _answers(str(sidecar.base_url).rstrip("/"))


def test_what_is_waited_for_is_told(tmp_path: Path) -> None:
    program = (
        "import sys, training.supervise as s\n"
        "s._TELL_S = 0.3\n"
        "idle = (sys.executable, '-c', 'import time; time.sleep(1)')\n"
        "service = s.Service(name='server', command=idle, url='http://127.0.0.1:9')\n"
        "sys.exit(s.run([service], print, 'ready'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith("server not ready yet (")
    assert lines[-1] == "the server ended with code 0"
    assert "ready" not in lines
    assert done.returncode == 1
