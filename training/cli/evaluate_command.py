"""`clinical-envs evaluate`: play a policy on a named set and measure it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
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
from training.cli.terminal import err, make_table, out, print_json, writable

if TYPE_CHECKING:
    from rich.table import Table

    from oracles.policy import BatchPolicy, Policy

_NUMBERS = {
    "value": "value",
    "regret": "regret",
    "oracle_gap": "oracle gap",
    "support_at_k": "support@k",
    "chance_floor": "chance floor",
    "pass_pow_k": "pass^k",
    "greedy_value": "greedy value",
    "mean_asks": "mean asks",
    "one_ask_rate": "one-ask rate",
    "parse_failure_rate": "parse failures",
}


def evaluate(
    task: TaskArgument,
    policy: Annotated[
        str,
        typer.Option(
            help="A reference policy by name, your own as module:function, a local checkpoint as "
            "hf:FOLDER or hf:FOLDER#ADAPTER_FOLDER, or a model behind an OpenAI-compatible chat "
            "endpoint as openai:URL#MODEL (its key, if it needs one, in OPENAI_API_KEY). With a "
            "method of `factcheck` before it, as fire:openai:URL#MODEL, on a fact-checking world."
        ),
    ],
    set_name: SetOption = "heldout",
    k: KOption = 12,
    greedy: Annotated[bool, typer.Option(help="Add one greedy rollout a case.")] = False,
    seed: Annotated[int, typer.Option(help="Of the policy's own randomness.")] = 0,
    out_file: Annotated[
        Path | None,
        typer.Option("--out", help="Episodes as JSON Lines; an existing file is continued."),
    ] = None,
    json_schema: JsonSchemaOption = False,
    max_tokens: MaxTokensOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play a policy on a named set, k rollouts a case, and measure it.

    With --out a run that was stopped goes on where it stopped when it is started again.
    A function policy gets a View and a numpy Generator and returns an action or text.
    """
    from oracles.clinical import make_world
    from oracles.metrics import breakdown

    world = make_world(task)
    with open_policy(world, policy, json_schema=json_schema, max_tokens=max_tokens) as player:
        if out_file is not None:
            writable(out_file)
        with _kept(out_file):
            episodes = play_set(
                world, player, set_name, k=k, greedy=greedy, seed=seed, out=out_file
            )
        used = _use_of_endpoint(player)
    measured = breakdown(judge(world, episodes), world)
    if as_json:
        print_json({"task": world.key, "policy": player.name, "set": set_name} | measured | used)
        return
    out.print(f"{player.name} on {world.key}, {set_name}: {measured['n_cases']} cases, ", end="")
    out.print(f"k = {measured['k']}, {measured['n_episodes']} sampled episodes")
    out.print(_table(measured))
    if used:
        out.print(_told(used["endpoint"]))
    if out_file is not None:
        out.print(f"episodes: {out_file}", soft_wrap=True)


@contextmanager
def _kept(out_file: Path | None) -> Iterator[None]:
    """Say what is kept when playing stops before its end."""
    from training.endpoint import EndpointError

    try:
        yield
    except (KeyboardInterrupt, EndpointError) as error:
        if out_file is not None and out_file.exists():
            kept = f"{out_file} keeps what was played; run the same command to go on"
            err.print(f"stopped: {kept}", soft_wrap=True)
        if isinstance(error, KeyboardInterrupt):
            raise typer.Exit(130) from None
        raise


def _use_of_endpoint(player: Policy | BatchPolicy) -> dict[str, Any]:
    """What this run asked of an endpoint, under `endpoint`; nothing for other policies."""
    if not player.name.startswith("openai:"):
        return {}
    from dataclasses import asdict

    from training.endpoint import Endpoint
    from training.endpoint_policy import EndpointPolicy

    if not (isinstance(player, EndpointPolicy) and isinstance(player.model, Endpoint)):
        return {}
    settings = {
        "max_tokens": player.max_tokens,
        "json_schema": player.json_schema,
        "left_out": sorted(player.model.left_out),
    }
    return {"endpoint": asdict(player.model.usage) | settings}


def _told(used: dict[str, Any]) -> str:
    """The use of an endpoint in one line."""
    schema = "turns held to a JSON schema" if used["json_schema"] else "no JSON schema"
    left_out = f"; takes no {', '.join(used['left_out'])}" if used["left_out"] else ""
    return (
        f"endpoint: {used['requests']} requests in this run, {used['retries']} attempts repeated; "
        f"{used['prompt_tokens']} prompt and {used['completion_tokens']} completion tokens, at "
        f"most {used['max_tokens']} a turn; {schema}{left_out}"
    )


def _table(measured: dict[str, Any]) -> Table:
    """Metrics by row; overall, risk groups and families by column."""
    parts = measured["groups"] | measured["families"]
    columns = ("overall", "95\u00a0% interval", *parts)
    table = make_table("", *columns, numbers=columns)
    for key, label in _NUMBERS.items():
        low, high = (measured["intervals"][key][end] for end in ("low", "high"))
        bounds = "" if low is None else f"{low:.3f} … {high:.3f}"
        numbers = (_number(part[key]) for part in parts.values())
        table.add_row(label, _number(measured[key]), bounds, *numbers)
    table.add_section()
    for decision in (name for name, share in measured["decisions"].items() if share > 0.0):
        shares = (_percent(part["decisions"].get(decision)) for part in parts.values())
        table.add_row(decision, _percent(measured["decisions"][decision]), "", *shares)
    table.add_section()
    cases = (str(part["n_cases"]) for part in parts.values())
    table.add_row("cases", str(measured["n_cases"]), "", *cases)
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
