"""The jobs of the study, and how they are run, resumed and given up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import training
from clinical_envs.errors import InvalidArgument
from training.config import load_config
from training.study.__main__ import app
from training.study.plan import Job, small_study
from training.study.runner import finished, run_jobs

JOBS = small_study((0, 1, 2), "runs")


def job(name: str, code: str, *needs: str) -> Job:
    """A job that runs a line of Python through the standard library's own `timeit`."""
    return Job(name=name, module="timeit", arguments=("-n1", "-r1", code), needs=needs)


def append(file: Path, text: str) -> str:
    return f"open({str(file)!r}, 'a').write({text!r})"


def test_every_job_stands_once_and_after_what_it_needs() -> None:
    names = [one.name for one in JOBS]
    assert len(set(names)) == len(names)
    for position, one in enumerate(JOBS):
        assert set(one.needs) <= set(names[:position])


def test_every_job_names_a_shipped_configuration_of_its_own_seed() -> None:
    trained = [one for one in JOBS if "--config" in one.arguments]
    for one in trained:
        overrides = [
            v for k, v in zip(one.arguments, one.arguments[1:], strict=False) if k == "--set"
        ]
        config = load_config(one.arguments[1], overrides)
        assert one.name.endswith(f"-{config.seed}")
        assert one.name.startswith(config.task)


def test_the_readme_counts_the_jobs() -> None:
    readme = (Path(training.__file__).parent / "README.md").read_text(encoding="utf-8")
    assert f"({len(JOBS)} jobs" in readme


def test_the_comparison_has_more_seeds_and_nothing_else_has() -> None:
    more = {one.name for one in JOBS if one.name.endswith(("-3", "-4"))}
    assert more == {
        f"diagnostics-{arm}-{seed}"
        for arm in ("light-warmup", "outcome", "credit")
        for seed in (3, 4)
    }


def test_arms_of_one_seed_share_their_warmup() -> None:
    starts = {
        one.name: one.arguments[one.arguments.index("--start") + 1]
        for one in JOBS
        if one.module == "training.grpo"
    }
    assert starts["diagnostics-outcome-1"] == starts["diagnostics-credit-1"]
    assert starts["diagnostics-outcome-1"] != starts["diagnostics-outcome-2"]
    assert starts["titration-lambda-0-2"] == starts["titration-lambda-0.3-2"]


def test_jobs_run_once_in_the_order_of_their_needs(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    jobs = [job("a", append(seen, "a")), job("b", append(seen, "b"), "a")]
    assert run_jobs(jobs, tmp_path, workers=2, say=lambda _: None) == {}
    assert run_jobs(jobs, tmp_path, workers=2, say=lambda _: None) == {}
    assert seen.read_text() == "ab"


def test_a_job_whose_command_has_changed_is_run_again(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    run_jobs([job("a", append(seen, "1"))], tmp_path, workers=1, say=lambda _: None)
    run_jobs([job("a", append(seen, "2"))], tmp_path, workers=1, say=lambda _: None)
    assert seen.read_text() == "12"


def test_a_job_whose_configuration_has_changed_is_run_again_and_what_was_made_from_it(
    tmp_path: Path,
) -> None:
    seen = tmp_path / "seen"
    start, child = job("a", append(seen, "a")), job("b", append(seen, "b"), "a")
    other = job("c", append(seen, "c"))
    for config_hash in ("old", "old", "new"):
        jobs = [replace(start, config_hash=config_hash), child, other]
        run_jobs(jobs, tmp_path, workers=1, say=lambda _: None)
        assert finished(jobs, tmp_path) == {"a", "b", "c"}
    assert seen.read_text() == "abcab"
    assert finished([start, child, other], tmp_path) == {"c"}


def test_reading_a_folder_without_a_study_is_one_clear_line(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["--out", str(tmp_path), "--read-only"])
    assert found.exit_code == 2
    assert f"error: no job of the study is done in {tmp_path / 'study'}" in found.output
    assert not list(tmp_path.iterdir())


def test_a_failed_job_takes_along_what_needs_it_and_nothing_else(tmp_path: Path) -> None:
    seen, said = tmp_path / "seen", list[str]()
    jobs = [
        job("bad", "1 / 0"),
        job("child", append(seen, "child"), "bad"),
        job("grandchild", append(seen, "grandchild"), "child"),
        job("other", append(seen, "other")),
    ]
    failed = run_jobs(jobs, tmp_path, workers=1, say=said.append)
    log = tmp_path / "logs" / "bad.log"
    why = f"ZeroDivisionError: division by zero (see {log})"
    assert failed == {"bad": why, "child": "bad failed", "grandchild": "child failed"}
    assert seen.read_text() == "other"
    assert "ZeroDivisionError" in log.read_text()
    (told,) = (line for line in said if "FAILED" in line)
    assert told == f"bad: FAILED with status 1, {why}"


def test_no_process_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="workers is 0"):
        run_jobs(JOBS, tmp_path, workers=0, say=lambda _: None)


def test_a_study_that_is_told_to_stop_leaves_no_job_behind(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    sleeper = (
        f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    )
    script = (
        "import signal, sys; from pathlib import Path\n"
        "from tests.study.test_plan_and_runner import job\n"
        "from training.study.runner import run_jobs\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
        f"run_jobs([job('a', {sleeper!r})], Path({str(tmp_path)!r}), workers=1, say=lambda _: None)"
    )
    study = subprocess.Popen([sys.executable, "-c", script])
    deadline = time.monotonic() + 60.0
    while not (pid_file.exists() and pid_file.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    study.send_signal(signal.SIGTERM)
    assert study.wait(timeout=30) == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
