"""The command run in process, on the fastest task; slow rules are tested where they live."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from training.cli import app

ROOT = Path(__file__).parents[2]
Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    """Run `clinical-envs` with arguments and check its exit code."""

    def invoke(*arguments: object, code: int = 0, stdin: str = "") -> Result:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return invoke


@pytest.fixture
def run_json(run: Run) -> Callable[..., Any]:
    """The JSON that a command prints, and nothing else."""
    return lambda *arguments, code=0: json.loads(run(*arguments, "--json", code=code).stdout)


@pytest.fixture
def error(run: Run) -> Callable[..., str]:
    """The one line that a refused command leaves on stderr."""

    def refuse(*arguments: object, code: int = 2) -> str:
        result = run(*arguments, code=code)
        assert result.stdout == ""
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
        return result.stderr.removeprefix("error: ").strip()

    return refuse


@pytest.fixture
def command() -> list[str]:
    """The command as another process runs it."""
    return [sys.executable, "-c", "from training.cli import main; main()"]


@pytest.fixture
def environment() -> dict[str, str]:
    """Of another process: the packages of this checkout, a terminal of 100 columns."""
    return os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
