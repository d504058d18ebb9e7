"""`python -m training.study`: play the small study, answer its questions, write `study.json`."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from clinical_envs.errors import ClinicalEnvsError, InvalidArgument
from training.cli.terminal import make_table, out
from training.study.answers import answers
from training.study.plan import compared, small_study
from training.study.plot import draw_study
from training.study.reading import Study
from training.study.rows import Row
from training.study.runner import finished, run_jobs

app = typer.Typer(add_completion=False, help=__doc__)


@app.command()
def main(
    folder: Annotated[Path, typer.Option("--out", help="Where everything goes.")] = Path("build"),
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0 to N - 1.")] = 3,
    workers: Annotated[int, typer.Option(min=1, help="Processes at once.")] = 2,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Answer from what is there; run nothing.")
    ] = False,
) -> None:
    """Run what is not done yet, then answer from every job that is."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that jobs are stopped too
    runs = folder / "study"
    jobs = small_study(range(seeds), str(runs))
    failed: dict[str, str] = {}
    try:
        if not read_only:
            failed = run_jobs(jobs, runs, workers=workers, say=_say)
        done = finished(jobs, runs)
        if not done:
            raise InvalidArgument(f"no job of the study is done in {runs}; run it first")
        rows = list(answers(Study(runs, compared(range(seeds)), done)))
        write(rows, folder)
    except ClinicalEnvsError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    _show(rows, folder)
    if failed:
        typer.echo(f"error: {len(failed)} jobs failed: {', '.join(failed)}", err=True)
        raise typer.Exit(1)


def write(rows: Sequence[Row], folder: Path) -> None:
    """`study.json` and `study.svg`."""
    text = json.dumps([asdict(row) for row in rows], indent=1, allow_nan=False)
    (folder / "study.json").write_text(text + "\n", encoding="utf-8")
    (folder / "study.svg").write_text(draw_study(rows), encoding="utf-8")


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _show(rows: Sequence[Row], folder: Path) -> None:
    numbers = ("value", "95\u00a0% over seeds", "seeds", "n")
    table = make_table("question", "task", "arm", "metric", *numbers, "verdict", numbers=numbers)
    for row in rows:
        value = "-" if row.value is None else f"{row.value:.3f}"
        interval = "" if row.low is None else f"{row.low:.3f} … {row.high:.3f}"
        cells = (row.question, row.task, row.arm, row.metric, value, interval)
        table.add_row(*cells, str(row.seeds), str(row.n), row.verdict)
    out.print(table)
    for name in ("study.json", "study.svg"):
        out.print(f"  {folder / name}", soft_wrap=True)


if __name__ == "__main__":
    app()
