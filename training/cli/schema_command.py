"""`clinical-envs schema`: the formats that cross a border, as JSON Schema."""

from __future__ import annotations

import typer

from training.cli.terminal import print_json

app = typer.Typer(help="Print the JSON Schema of a file format.", no_args_is_help=True)


@app.callback()
def schema() -> None:
    """Print the JSON Schema of a file format."""


@app.command()
def episode() -> None:
    """One line of an episodes file (JSON Lines)."""
    from clinical_envs.episode import episode_schema

    print_json(episode_schema())


@app.command()
def judgments() -> None:
    """One line of a file that `reward-audit` reads (JSON Lines)."""
    from oracles.reward_audit.records import row_schema

    print_json(row_schema())
