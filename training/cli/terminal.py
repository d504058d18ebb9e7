"""What the commands share: two consoles, JSON, progress, and how an error is told."""

from __future__ import annotations

import errno
import json
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

WIDTH = shutil.get_terminal_size(fallback=(100, 24)).columns
out = Console(width=WIDTH, markup=False, highlight=False)
err = Console(width=WIDTH, markup=False, highlight=False, stderr=True)

Tell = Callable[[int, int], None]
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class Commands(TyperGroup):
    """A group whose commands end with one line and code 2 on any error of the suite."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            say_error(f"{error}; make room and run the same command again")
        except Exception as error:
            # An error of the suite can only come from a suite that is loaded; --help loads none.
            errors = sys.modules.get("clinical_envs.errors")
            if errors is None or not isinstance(error, errors.ClinicalEnvsError):
                raise
            say_error(error)
        raise typer.Exit(2)


def say_error(error: Exception | str) -> None:
    """One line on stderr."""
    line = " ".join(str(error).split())
    err.print(Text.assemble(("error: ", "bold red"), line), soft_wrap=True)


def print_json(data: Any) -> None:
    """Nothing but JSON on stdout."""
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))


def make_table(*columns: str, title: str | None = None, numbers: Collection[str] = ()) -> Table:
    """An empty table: the first column and numbers are never broken, headings of numbers are."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, title=title)
    table.title_justify, table.title_style = "left", "bold"
    for position, name in enumerate(columns):
        if name in numbers:
            heading = name.replace(" ", "\n").replace("_", "_\n")
            table.add_column(heading, justify="right", no_wrap=True)
        else:
            table.add_column(name, no_wrap=position == 0, overflow="fold")
    return table


@contextmanager
def progress(what: str) -> Iterator[Tell]:
    """A bar on stderr while the block runs; call what is yielded with (done, in all)."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        row = bar.add_task(what, total=None)

        def tell(done: int, total: int) -> None:
            bar.update(row, completed=done, total=total)

        yield tell


def writable(path: Path, *inputs: Path) -> Path:
    """The path, its folder made, once it is known that it can be written.

    Raises:
        InvalidArgument: it cannot, or it is one of the inputs.
    """
    from clinical_envs.errors import InvalidArgument

    if path.resolve() in {given.resolve() for given in inputs}:
        raise InvalidArgument(f"{path} is read and would be written over; give another file")
    new = not path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a").close()
    except OSError as error:
        raise InvalidArgument(f"cannot write {path}: {error.strerror}; give another file") from None
    if new:
        path.unlink()  # a command that fails later leaves no empty file
    return path
