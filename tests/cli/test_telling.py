from __future__ import annotations

import io
import resource
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from training.cli import telling
from training.story import Part
from training.study.plan import Job


def part(name, looks, total=20):
    """A part that is a little further whenever it is looked at, and stays at the last."""
    left = list(looks)
    job = Job(name=name, module="none", arguments=())
    return Part(
        job=job,
        total=total,
        unit="updates",
        look=lambda: left.pop(0) if len(left) > 1 else left[0],
    )


def shown(monkeypatch, *parts, terminal):
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=100, highlight=False)
    monkeypatch.setattr(telling, "err", console)
    monkeypatch.setattr(telling, "_PAUSE_S", 0.001)
    with telling.watching(parts):
        time.sleep(0.5)
    return file.getvalue()


def test_without_a_terminal_each_tenth_is_a_line(monkeypatch):
    looks = [(0, ""), (0, "loading"), (1, "asks 2"), (2, "asks 2"), (3, "asks 1"), (20, "done")]
    lines = shown(monkeypatch, part("credit", looks), part("outcome", [(0, "")]), terminal=False)
    assert lines == "credit: 2/20 updates asks 2\ncredit: 20/20 updates done\n"


def test_what_ends_between_two_looks_is_told_too(monkeypatch):
    file, at = io.StringIO(), [0]
    warmup = replace(part("warmup", []), look=lambda: (at[0], ""))
    monkeypatch.setattr(telling, "err", Console(file=file, width=100))
    monkeypatch.setattr(telling, "_PAUSE_S", 600.0)
    with telling.watching([warmup]):
        at[0] = 20
    assert file.getvalue() == "warmup: 20/20 updates\n"


def test_at_a_terminal_each_part_has_a_bar_that_ends_where_the_part_ended(monkeypatch):
    looks = [(0, ""), (7, "asks 2"), (20, "asks 1")]
    screen = shown(monkeypatch, part("credit", looks), part("outcome", looks), terminal=True)
    last = screen[screen.rindex("credit") :]
    assert last.count("20/20") == 2
    assert last.count("updates asks 1") == 2
    assert "outcome" in last


def test_the_display_ends_with_the_block_whatever_happens_in_it(monkeypatch):
    monkeypatch.setattr(telling, "err", Console(file=io.StringIO()))
    with pytest.raises(KeyboardInterrupt), telling.watching([part("credit", [(0, "")])]):
        raise KeyboardInterrupt


@pytest.mark.parametrize(("platform", "unit"), [("linux", 1024), ("darwin", 1)])
def test_the_peak_is_ours_and_that_of_two_children_in_the_units_of_the_system(
    monkeypatch, platform, unit
):
    counted = {resource.RUSAGE_SELF: 1_000_000_000, resource.RUSAGE_CHILDREN: 500_000_000}
    usage = {who: SimpleNamespace(ru_maxrss=size // unit) for who, size in counted.items()}
    monkeypatch.setattr(resource, "getrusage", usage.__getitem__)
    monkeypatch.setattr(telling.sys, "platform", platform)
    assert telling.peak_gb() == pytest.approx(2.0, rel=1e-6)
