"""The sidecar as a process of its own: its token, its log, and a disk that fills up."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clinical_envs.errors import InvalidArgument
from tests.rollout_node.conftest import NEEDS, ROOT, TOKEN
from training.sidecar import TOKEN_VARIABLE, read_token

httpx = pytest.importorskip("httpx", reason=NEEDS)
pytest.importorskip("uvicorn", reason=NEEDS)
adapter = pytest.importorskip("tests.rollout_node.adapters", reason=NEEDS).adapter


def environment(**variables: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    return inherited | {"PYTHONPATH": str(ROOT)} | variables


@contextmanager
def running(store: Path, port: int, *, shell: str = "") -> Iterator[tuple[httpx.Client, Path]]:
    """A client of the process, and the file with everything it says."""
    log = store.parent / "log"
    words = ["exec", sys.executable, "-m", "training.sidecar", "--adapters", str(store)]
    words += ["--port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-c", shell + " ".join(words)],
            env=environment(**{TOKEN_VARIABLE: TOKEN}),
            stdout=output,
            stderr=output,
        )
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers) as client:
        for _ in range(200):
            time.sleep(0.05)
            try:
                client.get("/health")
                break
            except httpx.ConnectError:
                assert process.poll() is None, log.read_text()
        try:
            yield client, log
        finally:
            process.terminate()
            process.wait(10)


def test_neither_log_nor_answer_ever_holds_a_token(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    with running(tmp_path / "store", free_port()) as (client, log):
        replies = [
            client.put("/adapters/a", content=adapter()),
            client.put("/adapters/a", content=adapter()),
            client.put("/adapters/..", content=adapter()),
            client.put("/adapters/b", content=b"broken"),
            client.put("/adapters/b", content=b"", headers={"Authorization": "Bearer other-token"}),
            client.delete("/adapters/none"),
            client.get("/nowhere"),
        ]
        (tmp_path / "store").chmod(0o500)
        replies.append(client.put("/adapters/c", content=adapter()))
        (tmp_path / "store").chmod(0o700)
    told = log.read_text() + "".join(reply.text for reply in replies)
    assert replies[0].status_code == 201
    assert TOKEN not in told
    assert "other-token" not in told
    assert "Traceback" not in told


def test_a_disk_that_fills_up_during_an_upload_is_told(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    # the kernel refuses to write beyond 64 KiB of any file
    with running(tmp_path / "store", free_port(), shell="ulimit -f 64; ") as (client, _):
        reply = client.put("/adapters/a", content=b"x" * 1_000_000)
        assert reply.status_code == 507
        assert "cannot be written" in reply.json()["error"]
        assert list((tmp_path / "store").iterdir()) == []
        assert client.put("/adapters/a", content=adapter()).status_code == 201


def test_a_token_comes_from_a_private_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    assert read_token(file, {}) == TOKEN
    assert read_token(file, {TOKEN_VARIABLE: "another-token-entirely"}) == TOKEN
    assert read_token(None, {TOKEN_VARIABLE: TOKEN}) == TOKEN
    assert read_token(None, {}) is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_token_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(mode)
    with pytest.raises(InvalidArgument, match="chmod 600") as caught:
        read_token(file, {})
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(
    "weak", ["", "short", "x" * 15, "sixteen spaces in", "tokén-with-an-accent"]
)
def test_a_weak_token_is_refused_without_being_told(tmp_path: Path, weak: str) -> None:
    file = tmp_path / "token"
    file.write_text(weak, encoding="utf-8")
    file.chmod(0o600)
    for given, environ in ((file, {}), (None, {TOKEN_VARIABLE: weak})):
        with pytest.raises(InvalidArgument) as caught:
            read_token(given, environ)
        assert not weak or weak not in str(caught.value)


def test_a_missing_token_file_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot read the token file"):
        read_token(tmp_path / "none", {})


@pytest.mark.parametrize("options", [[], ["--token-file", "none"]])
def test_without_a_token_nothing_is_served(tmp_path: Path, options: list[str]) -> None:
    command = [sys.executable, "-m", "training.sidecar", "--adapters", str(tmp_path / "store")]
    done = subprocess.run(
        command + options, env=environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "store").exists()
