"""`clinical-envs tasks`: the shipped tasks, one task in full, and the check of a task file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from training.cli.arguments import JsonOption, TaskArgument
from training.cli.terminal import err, make_table, out, print_json, progress

if TYPE_CHECKING:
    from rich.table import Table

    from clinical_envs.task import Task
    from clinical_envs.task_parts import Condition
    from oracles.clinical import ClinicalWorld

app = typer.Typer(
    help="List the shipped tasks with their exact values; show or check one.",
    invoke_without_command=True,
)


@app.callback()
def tasks(
    ctx: typer.Context,
    as_json: JsonOption = False,
) -> None:
    """List the shipped tasks with their exact values; show or check one."""
    if ctx.invoked_subcommand is not None:
        return
    from clinical_envs.catalog import evidence_ids, load_task, task_ids
    from oracles.clinical import ClinicalWorld

    rows = []
    ids = (*task_ids(), *evidence_ids())
    with progress("solving the shipped tasks") as tell:
        for done, task_id in enumerate(ids, start=1):
            rows.append(exact_row(ClinicalWorld(load_task(task_id))))
            tell(done, len(ids))
    if as_json:
        print_json(rows)
    else:
        clinical = len(task_ids())
        out.print(exact_table(rows[:clinical]))
        out.print(exact_table(rows[clinical:], title="Evidence worlds, where a proxy can be gamed"))


@app.command()
def show(task: TaskArgument) -> None:
    """Show everything a task file fixes: states, decisions, utilities, findings, evidence."""
    from clinical_envs.catalog import load_task

    _show(load_task(task))


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A task file (YAML).")],
) -> None:
    """Check a task file: every problem with its field, value and mend.

    Exit codes: 0 the file is good; 1 it has problems, one a line; 2 it cannot be read.
    """
    from clinical_envs.catalog import load_task
    from clinical_envs.errors import InvalidTask, TooLarge
    from oracles.clinical import ClinicalWorld

    try:
        task = load_task(file)
    except InvalidTask as error:
        for problem in _problems(file) or [str(error)]:
            err.print(problem, style="red", soft_wrap=True)
        raise typer.Exit(1) from None
    out.print(f"OK: {file} is {task.key}, {task.title}", soft_wrap=True)
    try:
        with progress(f"{task.name}: solving"):
            row = exact_row(ClinicalWorld(task))
    except TooLarge as error:
        out.print(f"no exact values: {error}", soft_wrap=True)
    else:
        out.print(exact_table([row]))


def exact_row(world: ClinicalWorld) -> dict[str, Any]:
    """The exact values of a task, as a program reads them."""
    from oracles.exact import exact_value

    task, oracle = world.task, world.oracle
    high = task.risk_groups.index(task.high_risk_group)
    return {
        "id": task.id,
        "name": task.name,
        "findings": len(task.findings),
        "decisions": len(task.decisions),
        "turn_cap": task.turn_cap,
        "oracle_value": oracle.optimal_value,
        "best_constant_value": oracle.best_constant[1],
        "best_constant_gap": oracle.best_constant_gap,
        "expected_asks": exact_value(task, world.policy("oracle")).mean_asks,
        "high_risk_share": float(task.group_prevalence[high]),
    }


def exact_table(rows: list[dict[str, Any]], title: str = "Exact values, by the oracle") -> Table:
    """Exact values side by side."""
    sizes = ("find- ings", "deci- sions", "turns")
    numbers = (*sizes, "oracle", "best constant", "gap", "asks", "high risk")
    table = make_table("task", "Gym id", *numbers, title=title, numbers=numbers)
    for row in rows:
        table.add_row(
            row["name"],
            row["id"],
            *(str(row[name]) for name in ("findings", "decisions", "turn_cap")),
            *(f"{row[name]:+.4f}" for name in ("oracle_value", "best_constant_value")),
            f"{row['best_constant_gap']:+.4f}",
            f"{row['expected_asks']:.3f}",
            f"{100 * row['high_risk_share']:.1f} %",
        )
    return table


def _problems(file: Path) -> list[str]:
    """Every problem of a readable task file; empty where the file itself is the problem."""
    from clinical_envs.catalog import MAX_FILE_BYTES, check_task_text

    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            return []
        return check_task_text(file.read_text(encoding="utf-8"), file.name)[1]
    except (OSError, UnicodeDecodeError):
        return []


def _show(task: Task) -> None:
    out.print(f"{task.name} ({task.key})", style="bold")
    out.print(task.title)
    out.print(task.setting)
    out.print(f"{task.turn_cap} turns, {task.question_cost:g} a question.\n")
    for family in task.families:
        out.print(f"family {family.id}: {family.text}")
    out.print()
    out.print(_utilities(task))
    out.print()
    out.print(_findings(task))
    out.print()
    for decision in task.decisions:
        marks = [" (hedge)"] * (decision.id in task.hedges)
        marks += [" (high acuity)"] * (decision.id in task.high_acuity)
        out.print(f"decision {decision.id}{''.join(marks)}: {decision.text}")
    for decision_id, families in task.high_acuity.items():
        for family_id, conditions in families.items():
            for condition in conditions:
                out.print(f"evidence for {decision_id} ({family_id}): {_words(condition)}")
    for source in task.sources:
        out.print(f"source: {source}")
    for line in task.history:
        out.print(f"version {line.version}, {line.date}: {line.change}")


def _words(condition: Condition) -> str:
    from clinical_envs.task_parts import AtLeast

    if isinstance(condition, AtLeast):
        kind = "present" if condition.present else "asked"
        return f"at least {condition.at_least} {kind} of {', '.join(condition.findings())}"
    return (
        f"more present of {', '.join(condition.more_present)} than of {', '.join(condition.than)}"
    )


def _utilities(task: Task) -> Table:
    decisions = (*task.decision_ids, "no_decision")
    table = make_table(
        "state",
        "risk group",
        "prior",
        *decisions,
        title="Utility of each decision",
        numbers=("prior", *decisions),
    )
    for s, state in enumerate(task.states):
        utilities = (*task.utility_matrix[s], task.no_decision_utility[s])
        numbers = (f"{utility:+.2f}" for utility in utilities)
        table.add_row(state.id, state.risk_group, f"{state.prior:.3f}", *numbers)
    return table


def _findings(task: Task) -> Table:
    title = "P(present | state), states in the order above"
    table = make_table("finding", "domain", *task.family_ids, title=title)
    for finding in task.findings:
        chances = (" ".join(f"{p:.2f}" for p in finding.p[family]) for family in task.family_ids)
        table.add_row(finding.id, finding.domain, *chances)
    return table
