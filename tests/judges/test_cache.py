"""The cache of replies under threads, processes, and files that are no cache."""

from __future__ import annotations

import multiprocessing
import threading
from pathlib import Path

import pytest

from clinical_envs.errors import InvalidArgument
from tests.judges.scripted import Scripted
from training.judges.asking import Judge
from training.judges.cache import ReplyCache, reply_key

WRITERS, REPLIES = 4, 25


def write(path: Path, writer: int) -> None:
    cache = ReplyCache(path)
    for number in range(REPLIES):
        cache.put(f"{writer}-{number}", f"reply {writer}-{number}")
        assert cache.get(f"{writer}-{number}") == f"reply {writer}-{number}"


def assert_everything_was_kept(path: Path) -> None:
    cache = ReplyCache(path)
    keys = [f"{writer}-{number}" for writer in range(WRITERS) for number in range(REPLIES)]
    assert [cache.get(key) for key in keys] == [f"reply {key}" for key in keys]


def test_threads_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    threads = [threading.Thread(target=write, args=(path, one)) for one in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_everything_was_kept(path)


def test_processes_share_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])  # where a fresh process finds `tests`
    path = tmp_path / "replies.sqlite"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=write, args=(path, one)) for one in range(WRITERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * WRITERS
    assert_everything_was_kept(path)


def test_a_later_reply_takes_the_place_of_an_earlier_one_and_any_text_is_kept(
    tmp_path: Path,
) -> None:
    cache = ReplyCache(tmp_path / "replies.sqlite")
    for reply in ("", "Zoë said: '是'; \x00 \n"):
        cache.put("k", reply)
        assert cache.get("k") == reply
    assert cache.get("other") is None


@pytest.mark.parametrize("name", ["notes.txt", ".", "no/such/folder/file"])
def test_a_file_that_is_no_cache_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("these are notes, and more than a header of them" * 9)
    with pytest.raises(InvalidArgument, match="give another file"):
        ReplyCache(tmp_path / name)
    assert (tmp_path / "notes.txt").read_text().startswith("these are notes")


def test_the_key_depends_on_everything_and_on_no_order_of_parameters() -> None:
    key = reply_key("m", "q", a=1, b=2)
    assert key == reply_key("m", "q", b=2, a=1)
    others = {
        reply_key("n", "q", a=1, b=2),
        reply_key("m", "r", a=1, b=2),
        reply_key("m", "q", a=1),
    }
    assert len(others - {key}) == 3
    assert reply_key("m", "\ud800") != reply_key("m", "?")


def test_the_key_of_an_endpoint_is_not_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    path = tmp_path / "replies.sqlite"
    Judge(Scripted(["yes"]), "m", ReplyCache(path)).ask("what?", lambda text: (text, ""))
    content = path.read_bytes()
    assert b"yes" in content
    assert b"secret" not in content
    assert b"what?" not in content  # questions hold patients' words; their hash is enough
