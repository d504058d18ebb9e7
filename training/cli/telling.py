"""How the demo tells its story: stages, with bars at a terminal and lines where there is none.

Ctrl-C and SIGTERM stop the processes that train too, and the user is told how to go on.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from training.cli.gates_command import gate_table
from training.cli.terminal import err, out, progress

if TYPE_CHECKING:
    from training.story import Part, Story, Told

_PAUSE_S = 0.5
_LINES = 10


def tell(story: Story) -> Told:
    """Warm up, open gate 2, train the arms; what is done already is not done again.

    Raises:
        JobFailed: a process ended badly.
    """
    with _stoppable():
        _run(story, story.warmup_parts(), "Training a warmup and playing it")
        with progress("judging gate 2"):
            gate = story.gate()
        out.print(gate_table(gate))
        if gate.passed is not True:
            out.print("NOT ELIGIBLE: training goes on, and nothing is claimed of it")
        story.share_start()
        _run(story, story.arm_parts(), "Training both arms with GRPO, then playing test")
        return story.told()


def peak_gb() -> float:
    """Peak memory in 10^9 bytes, an upper bound: our own, and the largest child's for each at once.

    Reads what the system has counted of this process and of the children that have ended.
    """
    import resource

    from training.story import WORKERS

    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    own, child = (resource.getrusage(one).ru_maxrss for one in who)
    unit = 1 if sys.platform == "darwin" else 1024
    return (own + WORKERS * child) * unit / 1e9


@contextmanager
def _stoppable() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        err.print("stopped: run the same command to go on", soft_wrap=True)
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(story: Story, parts: Sequence[Part], stage: str) -> None:
    err.print(stage, style="bold")
    with watching(parts):
        story.run(parts, lambda line: err.print(line, soft_wrap=True))


@contextmanager
def watching(parts: Sequence[Part]) -> Iterator[None]:
    """Show on stderr how far each part is while the block runs."""
    stop = threading.Event()
    show = _bars if err.is_terminal else _lines
    thread = threading.Thread(target=show, args=(parts, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _bars(parts: Sequence[Part], stop: threading.Event) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[word]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err) as bars:
        rows = [bars.add_task(part.job.name, total=part.total, word="") for part in parts]
        running = True
        while running:
            running = not stop.wait(_PAUSE_S)
            for row, part in zip(rows, parts, strict=True):
                done, word = part.look()
                bars.update(row, completed=done, word=f"{part.unit} {word}".rstrip())


def _lines(parts: Sequence[Part], stop: threading.Event) -> None:
    """One for every tenth of a part."""
    told = dict.fromkeys((part.job.name for part in parts), 0)
    running = True
    while running:
        running = not stop.wait(_PAUSE_S)
        for part in parts:
            done, word = part.look()
            tenth = _LINES * done // part.total
            if tenth > told[part.job.name]:
                told[part.job.name] = tenth
                line = f"{part.job.name}: {done}/{part.total} {part.unit} {word}".rstrip()
                err.print(line, soft_wrap=True)
