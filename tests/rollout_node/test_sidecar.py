"""The sidecar over HTTP: who may do what, and what an upload becomes."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.rollout_node.conftest import LIMITS, NEEDS, TOKEN
from training.adapter_archive import CONFIG, WEIGHTS
from training.sidecar import build_app

httpx = pytest.importorskip("httpx", reason=NEEDS)
pytest.importorskip("uvicorn", reason=NEEDS)
adapters = pytest.importorskip("tests.rollout_node.adapters", reason=NEEDS)
adapter = adapters.adapter
CONFIG_BYTES, WEIGHT_BYTES = adapters.CONFIG_BYTES, adapters.WEIGHT_BYTES


def listing(store: Path) -> list[str]:
    return sorted(path.name for path in store.iterdir())


def wait_until(true: Any) -> None:
    deadline = time.monotonic() + 5
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert true()


def test_an_uploaded_adapter_lies_where_the_answer_says(sidecar: httpx.Client, store: Path) -> None:
    reply = sidecar.put("/adapters/run-1.v3", content=adapter())
    assert reply.status_code == 201
    path = Path(reply.json()["path"])
    assert path.is_absolute()
    assert path == store.resolve() / "run-1.v3"
    assert (path / CONFIG).read_bytes() == CONFIG_BYTES
    assert (path / WEIGHTS).read_bytes() == WEIGHT_BYTES
    assert sorted(file.name for file in path.iterdir()) == [CONFIG, WEIGHTS]
    assert listing(store) == ["run-1.v3"]


def test_an_uploaded_adapter_is_readable_for_a_server_of_another_user(
    sidecar: httpx.Client, store: Path
) -> None:
    before = os.umask(0o022)
    try:
        sidecar.put("/adapters/a", content=adapter())
    finally:
        os.umask(before)
    assert (store / "a").stat().st_mode & 0o777 == 0o755
    assert (store / "a" / WEIGHTS).stat().st_mode & 0o777 == 0o644


def test_a_name_is_taken_until_it_is_deleted(sidecar: httpx.Client, store: Path) -> None:
    assert sidecar.put("/adapters/a", content=adapter()).status_code == 201
    taken = sidecar.put("/adapters/a", content=adapter())
    assert (taken.status_code, taken.json()["path"]) == (409, str(store / "a"))
    assert sidecar.delete("/adapters/a").status_code == 204
    assert listing(store) == []
    assert sidecar.delete("/adapters/a").status_code == 404
    assert sidecar.put("/adapters/a", content=adapter()).status_code == 201


def test_of_two_uploads_of_one_name_one_wins_and_is_whole(
    sidecar: httpx.Client, store: Path
) -> None:
    bodies = [adapter(config=b'{"r": %d}' % i) for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda body: sidecar.put("/adapters/a", content=body), bodies))
    codes = sorted(reply.status_code for reply in replies)
    assert codes == [201] + [409] * 7
    winner = [reply.status_code for reply in replies].index(201)
    assert (store / "a" / CONFIG).read_bytes() == b'{"r": %d}' % winner
    assert listing(store) == ["a"]


def test_health_needs_no_token(sidecar: httpx.Client) -> None:
    reply = sidecar.get("/health", headers={"Authorization": ""})
    assert (reply.status_code, reply.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize(
    "given", ["", TOKEN, f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x", "Bearer \xe4"]
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", "/adapters/b"), ("DELETE", "/adapters/a"), ("GET", "/"), ("GET", "/healthy")],
)
def test_nothing_else_is_done_without_the_token(
    sidecar: httpx.Client, store: Path, given: str, method: str, path: str
) -> None:
    sidecar.put("/adapters/a", content=adapter())
    content = adapter() if method == "PUT" else None
    headers = {"Authorization": given.encode("latin-1")}
    reply = sidecar.request(method, path, headers=headers, content=content)
    assert reply.status_code == 401
    assert TOKEN not in reply.text
    assert listing(store) == ["a"]


def test_two_tokens_in_one_request_are_none(sidecar: httpx.Client) -> None:
    headers = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", f"Bearer {TOKEN}")]
    with httpx.Client(base_url=sidecar.base_url, headers=headers) as client:
        assert client.put("/adapters/a", content=adapter()).status_code == 401


def test_the_body_of_a_stranger_is_not_waited_for(sidecar: httpx.Client) -> None:
    with socket.create_connection((sidecar.base_url.host, sidecar.base_url.port), 5) as raw:
        raw.sendall(b"PUT /adapters/a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize(
    "name",
    [
        ".",
        "..",
        ".hidden",
        "%2e%2e",
        "..%2Foutside",
        "a%2Fb",
        "a%00",
        "a%20b",
        "a%0A",
        "ä",
        "x" * 129,
    ],
)
def test_a_name_that_could_be_a_path_is_refused(
    sidecar: httpx.Client, store: Path, name: str
) -> None:
    with socket.create_connection((sidecar.base_url.host, sidecar.base_url.port), 5) as raw:
        # httpx would tidy the path
        body = adapter()
        head = f"PUT /adapters/{name} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        raw.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        status = int(raw.recv(100).split()[1])
    assert status in (400, 404, 422)
    assert listing(store) == []
    assert listing(store.parent) == ["store"]


def test_deleting_takes_no_path_either(sidecar: httpx.Client, store: Path) -> None:
    victim = store.parent / "victim"
    victim.mkdir()
    assert sidecar.delete("/adapters/..%2Fvictim").status_code in (404, 422)
    assert victim.is_dir()


def test_an_upload_over_the_limit_stops_there(sidecar: httpx.Client, store: Path) -> None:
    sent = 0

    def endless() -> Any:
        nonlocal sent
        while sent < 50 * LIMITS.archive:
            sent += 10_000
            yield b"x" * 10_000

    reply = sidecar.put("/adapters/a", content=endless())
    assert reply.status_code == 413
    assert str(LIMITS.archive) in reply.json()["error"]
    assert listing(store) == []


def test_a_file_over_its_limit_is_too_large_wherever_it_is(
    sidecar: httpx.Client, store: Path
) -> None:
    for body in (adapter(config=b" " * 2_001), adapter(weights=b" " * 100_001)):
        reply = sidecar.put("/adapters/a", content=body)
        assert reply.status_code == 413
        assert "larger than" in reply.json()["error"]
    assert listing(store) == []


def test_bad_content_is_refused_in_one_line(sidecar: httpx.Client, store: Path) -> None:
    reply = sidecar.put("/adapters/a", content=b"no archive")
    assert reply.status_code == 422
    assert "\n" not in reply.json()["error"]
    assert listing(store) == []


def test_an_upload_that_breaks_off_leaves_nothing(sidecar: httpx.Client, store: Path) -> None:
    body = adapter()
    with socket.create_connection((sidecar.base_url.host, sidecar.base_url.port), 5) as raw:
        head = f"PUT /adapters/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        raw.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body[:-20])
        wait_until(lambda: any(name.endswith(".tmp") for name in listing(store)))
    wait_until(lambda: listing(store) == [])


def test_what_a_killed_sidecar_left_is_removed_at_the_next_start(store: Path) -> None:
    (store / ".half.tmp" / "adapter").mkdir(parents=True)
    (store / "whole").mkdir()
    build_app(store, TOKEN)
    assert listing(store) == ["whole"]


@pytest.mark.parametrize(
    ("number", "status"), [(errno.ENOSPC, 507), (errno.EDQUOT, 507), (errno.EACCES, 500)]
)
def test_a_full_disk_has_its_own_code(
    sidecar: httpx.Client,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    status: int,
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number), "some/secret/place")

    monkeypatch.setattr("training.sidecar.unpack", fail)
    reply = sidecar.put("/adapters/a", content=adapter())
    assert reply.status_code == status
    assert os.strerror(number) in reply.json()["error"]
    assert "secret" not in reply.text
    assert listing(store) == []


def test_uploads_do_not_wait_for_each_other(
    sidecar: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr("training.sidecar.unpack", lambda *_: go_on.wait(5))
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(sidecar.put, "/adapters/slow", content=adapter())
        assert sidecar.get("/health").status_code == 200
        assert not slow.done()
        go_on.set()
        assert slow.result().status_code == 201
