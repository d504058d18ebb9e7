"""Runs jobs as processes, a few at once, and remembers which are done.

Every command of the project goes on where it stopped, so a killed study loses at most a few steps
of the jobs that were running. A job is done when its command has ended well; the mark holds the
command, the hash of its configuration and the marks of what it needs, so that a changed job is run
again, and so is what was made from it. A training command refuses the folder of another
configuration, so that old results are moved by whoever wants to keep them, not lost here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clinical_envs.errors import InvalidArgument
from training.study.plan import Job

_PAUSE_S = 0.5


@dataclass(slots=True)
class _Running:
    job: Job
    mark: str
    process: subprocess.Popen[bytes]
    begun: float


def run_jobs(
    jobs: Sequence[Job], folder: Path, *, workers: int, say: Callable[[str], None]
) -> dict[str, str]:
    """Run what is not done yet.

    Args:
        jobs: in an order in which each needs only earlier ones.
        folder: for `logs/` and the marks in `done/`.
        workers: processes at once, each on one thread.
        say: is told every begin and end.

    Returns:
        By name, why a job is not done: the last line of its log, or the job that it waited for.
    """
    if workers < 1:
        raise InvalidArgument(f"workers is {workers}; at least one process must run")
    for name in ("logs", "done"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    marks = _marks(jobs)
    done = finished(jobs, folder)
    waiting = [job for job in jobs if job.name not in done]
    say(f"{len(done)} of {len(jobs)} jobs are done, {len(waiting)} to run on {workers} processes")
    failed: dict[str, str] = {}
    running: list[_Running] = []
    try:
        while waiting or running:
            running = [one for one in running if not _ended(one, folder, done, failed, say)]
            hopeless = _without_hope(waiting, failed)
            waiting = [job for job in waiting if job.name not in hopeless]
            failed |= hopeless
            ready = [job for job in waiting if set(job.needs) <= done]
            for job in ready[: workers - len(running)]:
                waiting.remove(job)
                running.append(_begin(job, marks[job.name], folder))
                say(f"{len(done)}/{len(jobs)} {job.name}: begun")
            time.sleep(_PAUSE_S if running else 0.0)
    finally:
        for one in running:
            one.process.terminate()
            one.process.wait()
    return failed


def _without_hope(waiting: list[Job], failed: Mapping[str, str]) -> dict[str, str]:
    needs = ((job.name, need) for job in waiting for need in job.needs)
    return {name: f"{need} failed" for name, need in needs if need in failed}


def _begin(job: Job, mark: str, folder: Path) -> _Running:
    with _log(job, folder).open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", job.module, *job.arguments],
            stdout=log,
            stderr=log,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
    return _Running(job, mark, process, time.monotonic())


def _ended(
    one: _Running, folder: Path, done: set[str], failed: dict[str, str], say: Callable[[str], None]
) -> bool:
    status = one.process.poll()
    if status is None:
        return False
    if status == 0:
        _mark(one.job.name, folder).write_text(one.mark, encoding="utf-8")
        done.add(one.job.name)
        say(f"{one.job.name}: done in {time.monotonic() - one.begun:.0f} s")
    else:
        said = _log(one.job, folder).read_text(encoding="utf-8", errors="replace").split("\n")
        last = next((line for line in reversed(said) if line.strip()), "it said nothing")
        failed[one.job.name] = f"{last} (see {_log(one.job, folder)})"
        say(f"{one.job.name}: FAILED with status {status}, {failed[one.job.name]}")
    return True


def finished(jobs: Sequence[Job], folder: Path) -> set[str]:
    """The names of the jobs that have ended well, as they are now and from what they need now."""
    files = {name: (_mark(name, folder), mark) for name, mark in _marks(jobs).items()}
    return {
        name
        for name, (file, mark) in files.items()
        if file.exists() and file.read_text(encoding="utf-8") == mark
    }


def _marks(jobs: Sequence[Job]) -> Mapping[str, str]:
    marks: dict[str, str] = {}
    for job in jobs:
        command = " ".join((job.module, *job.arguments))
        own = f"{command}\n{job.config_hash}\n" if job.config_hash else f"{command}\n"
        marks[job.name] = own + "".join(marks[name] for name in job.needs)
    return marks


def _mark(name: str, folder: Path) -> Path:
    return folder / "done" / name


def _log(job: Job, folder: Path) -> Path:
    return folder / "logs" / f"{job.name}.log"
