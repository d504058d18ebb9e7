"""`clinical-envs train`: the friendly front of `training/sft.py` and `training/grpo.py`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from training.cli.arguments import JsonOption
from training.cli.terminal import err, make_table, out, print_json

if TYPE_CHECKING:
    from rich.table import Table

    from training.config import Config

app = typer.Typer(
    no_args_is_help=True,
    help="Train a policy: a supervised warmup, then GRPO. A killed run is continued by the same "
    "command.",
)

ConfigOption = Annotated[
    str,
    typer.Option("--config", metavar="NAME", help="A shipped configuration or a TOML file."),
]
OverrideOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.FIELD=VALUE", help="Override a field; repeatable."),
]
OutOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the run.")]


@app.command()
def sft(
    config: ConfigOption,
    folder: OutOption,
    overrides: OverrideOption = None,
    as_json: JsonOption = False,
) -> None:
    """Warm a policy up on a teacher's episodes; the folder is a checkpoint to start GRPO from."""
    from training.config import load_config
    from training.runs import read_run
    from training.sft import warm_up

    chosen = load_config(config, overrides or ())
    try:
        warm_up(chosen, folder)
    except KeyboardInterrupt:
        raise _stopped(folder) from None
    if as_json:
        print_json(read_run(folder))
        return
    out.print(f"checkpoint: {folder}", soft_wrap=True)
    play = f"clinical-envs gates {chosen.task} --policy hf:{folder}"
    out.print(f"is it a start? {play}", soft_wrap=True)


@app.command()
def grpo(
    config: ConfigOption,
    folder: OutOption,
    overrides: OverrideOption = None,
    start: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Checkpoint to start from; by default model.source."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Build everything from a random model of the same architecture with few layers, "
            "run one step on the CPU, and stop.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Train with GRPO: gates first, validation on the way, test and the guarded report at the end.

    A failed gate does not stop the run, but run and report say NOT ELIGIBLE and claim nothing.
    """
    from training.config import load_config

    chosen = load_config(config, overrides or ())
    if dry_run:
        from training.medgemma import dry_run as rehearse

        rehearse(_from(chosen, start), folder)
        return
    from training.grpo import start_of, train

    try:
        data = train(chosen, start_of(chosen, start), folder)
    except KeyboardInterrupt:
        raise _stopped(folder) from None
    if as_json:
        print_json(data)
        return
    out.print(_results(data))
    if not data["eligible"]:
        out.print("NOT ELIGIBLE: a gate did not pass; nothing is claimed", style="bold red")
    for name in ("report.html", "README.md"):
        out.print(f"  {folder / name}", soft_wrap=True)


def _results(data: dict[str, Any]) -> Table:
    """Each policy of a finished run on the test set."""
    from oracles.sample import Estimate

    columns = ("value", "asks", "one-ask rate", "parse failures")
    names = ("value", "mean_asks", "one_ask_rate", "parse_failure_rate")
    table = make_table("policy", *columns, "flags up", title="test", numbers=columns)
    for policy, found in data["test"].items():
        up = [name for name, verdict in found["flags"].items() if verdict == "FLAG"]
        numbers = [Estimate(**found[name]).value for name in names]
        cells = ["-" if number is None else f"{number:.3f}" for number in numbers]
        table.add_row(policy, *cells, ", ".join(up).replace("_", " "))
    return table


def _from(config: Config, start: Path | None) -> Config:
    """The configuration with another source, whose shape a dry run takes."""
    if start is None:
        return config
    return replace(config, model=replace(config.model, source=str(start)))


def _stopped(folder: Path) -> typer.Exit:
    err.print(f"stopped: run the same command to go on in {folder}", soft_wrap=True)
    return typer.Exit(130)
