"""Arguments that several commands share, each worded once."""

from __future__ import annotations

from typing import Annotated

import typer

TaskArgument = Annotated[
    str,
    typer.Argument(
        metavar="TASK", help="Name (diagnostics), Gym id (ClinicalDx-v0) or file (my_task.yaml)."
    ),
]
SetOption = Annotated[
    str,
    typer.Option(
        "--set", metavar="SET", help="train, heldout, heldout200, sft, validation or test."
    ),
]
KOption = Annotated[int, typer.Option("-k", help="Sampled rollouts a case.")]
RhoOption = Annotated[
    float, typer.Option(help="Chance that a finding is shown at the start, in [0, 1].")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
