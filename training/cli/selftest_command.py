"""`clinical-envs selftest`: does every flag catch its failure, and spare the oracle?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from training.cli.terminal import make_table, out, progress

if TYPE_CHECKING:
    from rich.table import Table

    from oracles.clinical import ClinicalWorld
    from oracles.selftest import SelfTest

_SHORT = {"NOT APPLICABLE": "n/a", "SKIPPED": "skip", "UNCLEAR": "unclear", "CLEAR": "clear"}


def selftest(
    tasks: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TASK]...", show_default="the shipped tasks"),
    ] = None,
) -> None:
    """Play one scripted policy per failure mode, the oracle and random, against every flag.

    The cell that must be FLAG is starred. Exit codes: 0 every failure is flagged and the oracle
    never is, over 20 seeds; 1 otherwise.
    """
    from clinical_envs.catalog import load_task, task_ids
    from oracles.clinical import ClinicalWorld

    worlds = [ClinicalWorld(load_task(task)) for task in tasks or task_ids()]
    passed = True
    for world in worlds:
        result = _run(world)
        out.print(_matrix(result))
        out.print(_verdict(result), style="green" if result.passed else "bold red")
        passed = passed and result.passed
    if not passed:
        raise typer.Exit(1)


def _run(world: ClinicalWorld) -> SelfTest:
    from oracles.policies import FAILURES
    from oracles.selftest import ORACLE_SEEDS
    from oracles.selftest import selftest as run

    steps = len({"oracle", "random", *FAILURES.values()}) + ORACLE_SEEDS
    begun: list[str] = []
    with progress(f"{world.name}: detection matrix") as tell:

        def begin(step: str) -> None:
            tell(len(begun), steps)
            begun.append(step)

        return run(world, begin)


def _matrix(result: SelfTest) -> Table:
    from oracles.flags import FLAG_NAMES, Verdict
    from oracles.policies import FAILURES

    flags = (flag.replace("_", " ") for flag in FLAG_NAMES)
    table = make_table("policy", *flags, title=f"Detection matrix of {result.task}, set test")
    for policy, verdicts in result.matrix.items():
        cells = []
        for flag in FLAG_NAMES:
            verdict, star = verdicts[flag], "*" * (FAILURES[flag] == policy)
            up = verdict is Verdict.FLAG
            style = ("bold green" if star else "yellow") if up else ("bold red" if star else "dim")
            cells.append(Text(f"{_SHORT.get(verdict, verdict.value)}{star}", style=style))
        table.add_row(policy, *cells)
    return table


def _verdict(result: SelfTest) -> str:
    from oracles.selftest import CASES_PER_SEED, ORACLE_SEEDS

    lines = [f"not flagged on the policy scripted for it: {flag}" for flag in result.missed]
    lines += [f"raised on the oracle, seed {seed}: {flag}" for seed, flag in result.false_alarms]
    if not lines:
        seeds = f"{ORACLE_SEEDS} seeds of {CASES_PER_SEED} cases"
        lines = [f"PASSED: every failure is flagged; no flag on the oracle over {seeds}"]
    lines += [f"left out, the task cannot have it: {flag}" for flag in result.left_out]
    return "\n".join(lines) + "\n"
