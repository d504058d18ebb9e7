"""Run the benchmarks, print them as a table, write build/bench.json.

`python -m tests.benchmarks [NAME ...]` runs some of the modules only, and writes
build/bench-NAME.json. The module `vllm` needs an environment of its own and runs by name only.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.benchmarks.record import Figure

MODULES = ("imports", "oracle", "pyagrum_peer", "environments", "auditing", "factcheck", "training")


def main(names: list[str]) -> int:
    console, figures = Console(), list[Figure]()
    for name in names or MODULES:
        with console.status(f"measuring {name} ..."):
            figures += import_module(f"tests.benchmarks.{name}").figures()
    out = Path("build") / f"{'-'.join(['bench', *names])}.json"
    out.parent.mkdir(exist_ok=True)
    rows = [asdict(figure) for figure in figures]
    out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    table = Table("name", "value", "unit", "bar", "", "detail")
    for figure in figures:
        mark = {True: "met", False: "MISSED", None: ""}[figure.met]
        table.add_row(
            figure.name, f"{figure.value:.3f}", figure.unit, figure.bar, mark, figure.detail
        )
    console.print(table)
    console.print(f"written to {out}")
    return 1 if any(figure.met is False for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
