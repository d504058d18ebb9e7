"""Import time of the package over Gymnasium's, whole processes in turn."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from tests.benchmarks.record import Figure, alternating, at_most, middle, seconds


def figures() -> Iterator[Figure]:
    ratios = alternating(lambda: _import("clinical_envs"), lambda: _import("gymnasium"), rounds=9)
    ratio, detail = middle(ratios)
    yield at_most("import_vs_gymnasium", ratio, "ratio", 1.6, f"whole processes, {detail}")


def _import(module: str) -> float:
    return seconds(lambda: subprocess.run([sys.executable, "-c", f"import {module}"], check=True))
