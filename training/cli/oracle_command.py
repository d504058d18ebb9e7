"""`clinical-envs oracle`: the exact optimum of a task and its decision tree."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from training.cli.arguments import JsonOption, RhoOption, TaskArgument
from training.cli.terminal import err, make_table, out, print_json, progress, writable

if TYPE_CHECKING:
    from oracles.oracle import Oracle
    from oracles.policy import Policy


def oracle(
    task: TaskArgument,
    as_json: JsonOption = False,
    tree: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the decision tree as .txt, .json or .svg."),
    ] = None,
    credit: Annotated[
        float,
        typer.Option(
            metavar="LAMBDA",
            help="Solve the shaped reward R + LAMBDA x entropy drop (nats) instead.",
        ),
    ] = 0.0,
    rho: RhoOption = 0.0,
) -> None:
    """Solve a task exactly: value, best-constant gap, expected asks, and the decision tree.

    The tree and the expected asks are of play that starts with nothing shown (rho 0).
    """
    from oracles.oracle import solve
    from oracles.policies import make_policy
    from oracles.tree import tree_text, write_tree

    with progress(f"solving {task}"):
        solved = solve(task, credit=credit)
        player = make_policy("oracle", solved)
        values = _values(solved, player, rho)
    if tree is not None:
        write_tree(writable(tree), solved.task, player)
    if as_json:
        print_json(values)
        return
    _print(values)
    if tree is None:
        out.print(tree_text(solved.task, player), soft_wrap=True)
    else:
        err.print(f"decision tree: {tree}", soft_wrap=True)


def _values(solved: Oracle, player: Policy, rho: float) -> dict[str, Any]:
    """What the solved policy is worth in the task's own reward, shaped or not."""
    from oracles.exact import exact_value

    task, exact = solved.task, exact_value(solved.task, player)
    optimal = solved.revealed_value(rho)
    value = exact.value if solved.credit else optimal
    constant, constant_value = solved.best_constant
    asks = exact.asks
    return {
        "id": task.id,
        "name": task.name,
        "rho": rho,
        "credit": solved.credit,
        "oracle_value": value,
        "shaped_value": optimal if solved.credit else None,
        "best_constant": task.decision_ids[constant],
        "best_constant_value": constant_value,
        "best_constant_gap": value - constant_value,
        "expected_asks": exact.mean_asks,
        "expected_asks_by_state": dict(
            zip(task.state_ids, asks.mean(axis=0).tolist(), strict=True)
        ),
        "expected_asks_by_family": {f: exact.over(asks, family=f) for f in task.family_ids},
        "decisions": {name: exact.decision_rate(name) for name in task.decision_ids},
    }


def _print(values: dict[str, Any]) -> None:
    out.print(f"{values['name']} ({values['id']})", style="bold")
    lines = [("oracle value", f"{values['oracle_value']:+.4f}")]
    if values["shaped_value"] is not None:
        shaped = f"{values['shaped_value']:+.4f}"
        lines.append((f"with credit {values['credit']:g} a nat", f"{shaped} (shaped optimum)"))
    constant = f"{values['best_constant_value']:+.4f} ({values['best_constant']})"
    lines.append(("best constant", constant))
    lines.append(("gap", f"{values['best_constant_gap']:+.4f}"))
    if values["rho"]:
        lines[0] = (f"oracle value, rho {values['rho']:g}", lines[0][1])
    table = Table(box=None, show_header=False, pad_edge=False)
    for line in lines:
        table.add_row(*line)
    out.print(table)
    asks = make_table("expected asks", "", numbers=("",))
    asks.add_row("overall", f"{values['expected_asks']:.3f}")
    for part in ("family", "state"):
        for name, number in values[f"expected_asks_by_{part}"].items():
            asks.add_row(f"{part} {name}", f"{number:.3f}")
    out.print(asks)
    rates = (f"{name} {100 * rate:.1f} %" for name, rate in values["decisions"].items())
    out.print(f"decisions: {', '.join(rates)}\n")
