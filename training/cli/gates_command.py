"""`clinical-envs gates`: whether reinforcement learning has something to learn, and can find it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from training.cli.arguments import JsonOption, KOption, SetOption, TaskArgument
from training.cli.rollouts import (
    JsonSchemaOption,
    MaxTokensOption,
    judge,
    open_policy,
    play_set,
)
from training.cli.terminal import make_table, out, print_json

if TYPE_CHECKING:
    from rich.table import Table

    from oracles.gates import Check, Gate

_MARKS = {True: "pass", False: "FAIL", None: "not judged"}
_STYLES = {True: "green", False: "bold red", None: "yellow"}


def gates(
    task: TaskArgument,
    policy: Annotated[
        str | None,
        typer.Option(
            help="The initial policy, by name, module:function, hf:FOLDER[#ADAPTER_FOLDER] or "
            "openai:URL#MODEL; opens gate 2."
        ),
    ] = None,
    set_name: SetOption = "validation",
    k: KOption = 12,
    json_schema: JsonSchemaOption = False,
    max_tokens: MaxTokensOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check gate 1 (adaptive headroom, exact) and, with a policy, gate 2 (latent support).

    Exit codes: 0 every gate passes; 1 one fails or its sample is too small to judge it.
    """
    from oracles.clinical import make_world
    from oracles.gates import gate_1, gate_2

    world = make_world(task)
    found, name = [gate_1(world)], policy
    if policy is not None:
        with open_policy(world, policy, json_schema=json_schema, max_tokens=max_tokens) as player:
            episodes = play_set(world, player, set_name, k=k)
            name = player.name
        found.append(gate_2(judge(world, episodes), world))
    passed = all(gate.passed is True for gate in found)
    if as_json:
        print_json({"task": world.key, "policy": name, "passed": passed, "gates": to_dict(found)})
    else:
        for gate in found:
            out.print(gate_table(gate))
    if not passed:
        raise typer.Exit(1)


def to_dict(gates: list[Gate]) -> list[dict[str, Any]]:
    """Gates as plain data."""
    from dataclasses import asdict

    return [asdict(gate) | {"passed": gate.passed} for gate in gates]


def gate_table(gate: Gate) -> Table:
    """One line a check, the verdict of the gate in the title."""
    numbers = ("value", "threshold", "cases")
    table = make_table("check", *numbers, "verdict", "", numbers=numbers)
    table.title = f"{gate.name}: {_MARKS[gate.passed]}\n{gate.question}"
    table.columns[0].no_wrap, table.columns[0].max_width = False, 32
    for check in gate.checks:
        table.add_row(*_cells(check), style=None if check.passed else _STYLES[check.passed])
    return table


def _cells(check: Check) -> tuple[str, ...]:
    value = "-" if check.value is None else f"{check.value:.3f}"
    cases = str(check.n_cases) if check.n_cases else ""
    return check.name, value, f"{check.threshold:g}", cases, _MARKS[check.passed], check.detail
