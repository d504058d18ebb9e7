"""One measured figure, and how a figure is measured."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Figure:
    """A row of build/bench.json. bar: what it must reach, as text; empty for none."""

    name: str
    value: float
    unit: str
    detail: str
    bar: str = ""
    met: bool | None = None


def at_most(name: str, value: float, unit: str, limit: float, detail: str) -> Figure:
    return Figure(name, value, unit, detail, f"<= {limit:g}", value <= limit)


def at_least(name: str, value: float, unit: str, limit: float, detail: str) -> Figure:
    return Figure(name, value, unit, detail, f">= {limit:g}", value >= limit)


def seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def alternating(a: Callable[[], float], b: Callable[[], float], rounds: int = 5) -> list[float]:
    """a / b, round by round, so that a drifting machine cancels."""
    a(), b()
    return [a() / b() for _ in range(rounds)]


def middle(ratios: list[float]) -> tuple[float, str]:
    return median(ratios), f"median of {len(ratios)}, {min(ratios):.2f} to {max(ratios):.2f}"


def in_fresh_process(program: str) -> Any:
    """Run a program that prints one JSON value, in its own interpreter."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)
