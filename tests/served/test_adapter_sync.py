"""Adapters on their way: whole or not at all, a new name each, and what stands in the way."""

from __future__ import annotations

import errno
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.served.conftest import Connect, Fake, Nursery, free_port, lora
from tests.training.toy import NEEDS
from training.adapter_archive import CONFIG, WEIGHTS
from training.adapter_sync import AdapterSync, SharedFolder, Upload
from training.patience import ServedError

pytest.importorskip("trl", reason=NEEDS)
httpx = pytest.importorskip("httpx", reason=NEEDS)
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # PEFT uses an old name
TOKEN = "CLINICAL_ENVS_SIDECAR_TOKEN"


def save(folder: Path) -> None:
    lora().save_pretrained(folder)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_published_adapter_is_whole_and_played_and_the_base_is_not_changed(
    fake: Fake, connect: Connect
) -> None:
    sync = connect(fake)
    prompt = [[2, 4, 50, 60]]

    def first(model: str) -> float:
        (reply,) = sync.server.complete(prompt, model=model, max_tokens=1, stop=5, temperature=0.0)
        return reply.logprobs[0]

    before = first("base")
    sync.publish("v1", save, version=1)
    assert sync.current.name == "run-1-v1"
    assert sync.current.version == 1
    assert names(sync.folder) == {"run-1-v1"}
    assert {CONFIG, WEIGHTS} <= names(sync.folder / "run-1-v1")
    assert abs(first("run-1-v1") - before) > 1e-3
    assert first("base") == pytest.approx(before)
    assert sync.last_ms > 0.0


def test_a_new_one_is_loaded_before_the_old_one_goes_and_its_folder_stays_one_sync_longer(
    fake: Fake, connect: Connect
) -> None:
    sync = connect(fake)
    kept = []
    for version in (1, 2, 3):
        sync.publish(f"v{version}", save, version=version)
        assert fake.adapters == [f"run-1-v{version}"]
        kept.append(names(sync.folder))
    assert kept == [
        {"run-1-v1"},
        {"run-1-v1", "run-1-v2"},
        {"run-1-v2", "run-1-v3"},
    ]
    sync.serve_base()
    assert fake.adapters == []


def test_the_same_version_is_not_sent_twice(fake: Fake, connect: Connect) -> None:
    sync, written = connect(fake), []
    for _ in range(2):
        sync.publish("v1", lambda folder: (written.append(1), save(folder)), version=1)
    assert written == [1]


@pytest.mark.parametrize("safetensors", [False, True], ids=["a file", "safetensors"])
def test_a_full_disk_is_waited_for_and_leaves_no_half_of_an_adapter(
    fake: Fake, connect: Connect, safetensors: bool
) -> None:
    said: list[str] = []
    sync = connect(fake, said=said)
    save_into_full, tries = full_disk(safetensors), []

    def save_later(folder: Path) -> None:
        tries.append(1)
        assert names(sync.folder) == {"run-1-v1.tmp"}
        if len(tries) < 3:
            save_into_full(folder)
        save(folder)

    sync.publish("v1", save_later, version=1)
    assert len(tries) == 3
    assert names(sync.folder) == {"run-1-v1"}
    assert any("No space left on device" in line and "trying again" in line for line in said)


def test_a_disk_that_stays_full_stops_in_one_line(fake: Fake, connect: Connect) -> None:
    sync = connect(fake, patience_s=0.5)
    with pytest.raises(ServedError, match="No space left on device; given up") as caught:
        sync.publish("v1", full_disk(safetensors=False), version=1)
    assert "\n" not in str(caught.value)
    assert names(sync.folder) == set()
    assert sync.current.name == "base"


def full_disk(safetensors: bool) -> Callable[[Path], None]:
    def fail(folder: Path) -> None:
        from safetensors import SafetensorError

        (folder / CONFIG).write_text("{}")
        if safetensors:
            raise SafetensorError("I/O error: No space left on device (os error 28)")
        raise OSError(errno.ENOSPC, "No space left on device")

    return fail


def refused(sync: AdapterSync, save: Callable[[Path], object]) -> str:
    with pytest.raises(ServedError) as caught:
        sync.publish("v1", save, version=1)
    message = str(caught.value)
    assert "given up" not in message
    assert "\n" not in message
    return message


def test_too_large_a_rank_is_refused_at_once_with_what_to_do(fake: Fake, connect: Connect) -> None:
    message = refused(connect(fake), lora(32).save_pretrained)
    assert "LoRA rank 32 is greater than max_lora_rank 16" in message
    assert "start the server with a --max-lora-rank of lora.rank or more" in message


def test_a_folder_that_the_server_does_not_see_is_refused_at_once_with_what_to_do(
    fake: Fake, connect: Connect
) -> None:
    class Elsewhere(SharedFolder):
        def bring(self, folder: Path) -> str:
            return f"/nowhere/{folder.name}"

    message = refused(connect(fake, carrier=Elsewhere()), save)
    assert "vllm.shared_folder that both nodes see" in message
    assert "vllm.sync=upload" in message


def test_a_load_whose_answer_came_too_late_has_worked(fake: Fake, connect: Connect) -> None:
    said: list[str] = []
    sync = connect(fake, timeout_s=1.0, said=said)
    fake.control(load_hang_s=2.5)
    sync.publish("v1", save, version=1)
    assert any("does not answer within" in line for line in said)
    assert fake.adapters == ["run-1-v1"]


def test_a_server_that_came_back_empty_gets_the_adapter_again_once_it_is_checked(
    fake: Fake, connect: Connect
) -> None:
    sync, checks = connect(fake), []
    sync.publish("v1", save, version=1)
    fake.kill()
    fake.start()
    fake.wait()
    sync.check = lambda: checks.append(fake.adapters)
    sync.restore()
    assert checks == [[]]
    assert fake.adapters == ["run-1-v1"]


def test_what_a_killed_session_left_is_swept_and_other_runs_adapters_are_not(
    fake: Fake, connect: Connect
) -> None:
    first = connect(fake)
    first.name = "run-1"
    first.publish("v1", save, version=1)
    first.name = "another-1"
    first.current = first.current.__class__(name="base")
    first.publish("v1", save, version=1)
    (first.folder / "run-1-v2.tmp").mkdir()
    assert set(fake.adapters) == {"run-1-v1", "another-1-v1"}
    second = connect(fake)
    second.sweep("run")
    assert fake.adapters == ["another-1-v1"]
    assert names(second.folder) == {"another-1-v1"}


@pytest.fixture
def sidecar(
    nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Path]]:
    """The real one, in a process of its own, over a folder that only the server sees."""
    folder, token = tmp_path / "node", secrets.token_urlsafe(32)
    wanted = {"folder": str(folder), "port": free_port(), "token": token}
    monkeypatch.setenv(TOKEN, token)
    fake = Fake(nursery, wanted)
    fake.start()
    fake.wait()
    yield fake.url, folder
    fake.kill()


def test_an_adapter_travels_by_upload_and_is_removed_there_too(
    fake: Fake, connect: Connect, sidecar: tuple[str, Path]
) -> None:
    url, node = sidecar
    carrier = Upload(url, timeout_s=20.0)
    sync = connect(fake, carrier=carrier)
    for version in (1, 2, 3):
        sync.publish(f"v{version}", save, version=version)
    assert names(node) == {"run-1-v2", "run-1-v3"}
    for file in (CONFIG, WEIGHTS):
        there, here = ((at / "run-1-v3" / file).read_bytes() for at in (node, sync.folder))
        assert there == here
    assert names(node / "run-1-v3") == {CONFIG, WEIGHTS}
    assert fake.adapters == ["run-1-v3"]
    # once more, as after an answer that was lost, and by two processes after an outage
    with ThreadPoolExecutor(2) as pool:
        paths = list(pool.map(carrier.bring, [sync.folder / "run-1-v3"] * 8))
    assert set(paths) == {str(node / "run-1-v3")}
    assert names(node / "run-1-v3") == {CONFIG, WEIGHTS}
    carrier.close()


def test_a_wrong_token_is_refused_at_once_and_never_shown(
    fake: Fake, connect: Connect, sidecar: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for token in ("", "another-token-of-enough-length"):
        monkeypatch.setenv(TOKEN, token)
        carrier = Upload(sidecar[0], timeout_s=20.0)
        with pytest.raises(ServedError, match=f"set {TOKEN} to the one it was") as caught:
            connect(fake, carrier=carrier)
        carrier.close()
        assert not token or token not in str(caught.value)


def test_a_full_disk_on_the_rollout_node_is_trouble_and_a_refused_upload_is_not(
    fake: Fake, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    carrier = Upload("http://node", timeout_s=5.0)
    nothing = httpx.Response(404, json={"error": "no adapter of this name"})
    answers = [
        nothing,
        httpx.Response(507, json={"error": "the adapter cannot be written: No space left"}),
        nothing,
        httpx.Response(413, json={"error": "the upload is larger than 10 bytes"}),
    ]
    client: Any = carrier._client
    monkeypatch.setattr(client._client, "request", lambda *_, **__: answers.pop(0))
    message = refused(connect(fake, carrier=carrier, said=said), save)
    assert "takes no adapter: the upload is larger than 10 bytes (413)" in message
    assert any("No space left (507); trying again" in line for line in said)
    carrier.close()
