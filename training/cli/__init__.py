"""The console command `clinical-envs`.

A command loads what it needs when it runs, so that `--help` is quick and the core install is
enough for everything that needs no model.
"""

from __future__ import annotations

import sys
import traceback
from importlib.metadata import version
from typing import Annotated

import typer

from training.cli import judge_command, schema_command, tasks_command, train_command
from training.cli.audit_command import audit
from training.cli.cases_command import cases
from training.cli.compare_command import compare
from training.cli.demo_command import demo
from training.cli.evaluate_command import evaluate
from training.cli.factcheck_command import factcheck
from training.cli.gates_command import gates
from training.cli.oracle_command import oracle
from training.cli.play_command import play
from training.cli.reward_audit_command import reward_audit
from training.cli.selftest_command import selftest
from training.cli.serve_command import serve
from training.cli.terminal import Commands

app = typer.Typer(
    name="clinical-envs",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 done; 1 the answer is no (a task file has problems, a gate fails, a flag "
    "of --fail-on is up, the self-test fails); 2 bad input, told in one line; 3 an error that "
    "nobody expected, in a policy of your own for example, with its traceback.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"clinical-envs {version('clinical-envs')}")
        raise typer.Exit


@app.callback()
def clinical_envs(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """What to ask, when to stop, what to do: make clinical procedure measurable.

    Synthetic tasks with an exact oracle; nothing here is fit for patient care.
    """


_TASKS, _POLICIES, _SUITE = "Tasks and cases", "Policies and episodes", "The suite itself"
_TRAINING = "Training"
app.add_typer(tasks_command.app, name="tasks", rich_help_panel=_TASKS)
app.command(rich_help_panel=_TASKS)(oracle)
app.command(rich_help_panel=_TASKS)(play)
app.command(rich_help_panel=_TASKS)(cases)
app.command(rich_help_panel=_POLICIES)(evaluate)
app.command(rich_help_panel=_POLICIES)(gates)
app.command(rich_help_panel=_POLICIES)(audit)
app.command("reward-audit", rich_help_panel=_POLICIES)(reward_audit)
app.command(rich_help_panel=_POLICIES)(factcheck)
app.add_typer(judge_command.app, name="judge", rich_help_panel=_POLICIES)
app.add_typer(train_command.app, name="train", rich_help_panel=_TRAINING)
app.command(rich_help_panel=_TRAINING)(compare)
app.command(rich_help_panel=_TRAINING)(serve)
app.command(rich_help_panel=_SUITE)(demo)
app.command(rich_help_panel=_SUITE)(selftest)
app.add_typer(schema_command.app, name="schema", rich_help_panel=_SUITE)


def main() -> None:
    """Run the command."""
    try:
        app()
    except Exception:
        traceback.print_exc()
        sys.exit(3)  # not 1, which is an answer
