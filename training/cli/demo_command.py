"""`clinical-envs demo`: the main job, from the exact oracle to the guarded report."""

from __future__ import annotations

import json
import platform
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from training.cli.audit_command import overview
from training.cli.gates_command import gate_table, to_dict
from training.cli.rollouts import play_set
from training.cli.tasks_command import exact_row, exact_table
from training.cli.terminal import out, progress, writable

if TYPE_CHECKING:
    from rich.table import Table

    from clinical_envs.episode import Episode
    from oracles.audits import Audit
    from oracles.clinical import ClinicalWorld
    from oracles.exact import ExactValue
    from oracles.gates import Gate

K = 12
BASELINE = "checklist"
_NOTE = (
    f"Reference policies on the shipped tasks. On heldout each case was played {K} times. On test "
    f"policies that draw their actions played {K} times, the others once, for every rollout would "
    f"be the same. The baseline is the task's {BASELINE}."
)
_LIBRARIES = ("clinical-envs", "gymnasium", "numpy", "scipy", "pydantic")


def demo(
    folder: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Where the three files are written.")
    ] = Path("demo"),
) -> None:
    """Solve, gate, evaluate, audit and report the shipped tasks, in about half a minute.

    Writes report.html, episodes.jsonl and summary.json; earlier ones are replaced. Every
    reference policy plays heldout with k = 12, and test with k = 12 where it draws its actions
    and once where it does not. The baseline of the audit is the task's checklist.
    """
    from clinical_envs.catalog import load_task, task_ids
    from clinical_envs.episode import write_episodes
    from oracles.audits import audit
    from oracles.clinical import ClinicalWorld
    from oracles.gates import gate_1
    from oracles.report import render_report

    begun = time.perf_counter()
    report, episodes_file, summary_file = (
        writable(folder / name) for name in ("report.html", "episodes.jsonl", "summary.json")
    )
    worlds = [ClinicalWorld(load_task(task_id)) for task_id in task_ids()]
    with progress("solving the shipped tasks"):
        rows = [exact_row(world) for world in worlds]
    gates = [gate_1(world) for world in worlds]
    exact = {world.key: _exact_values(world) for world in worlds}
    out.print(exact_table(rows))
    out.print(_one_gate(worlds, gates))
    episodes = [episode for world in worlds for episode in _play_references(world)]
    write_episodes(episodes_file, episodes)
    with progress(f"auditing {len(episodes):,} episodes"):
        audited = audit(episodes, [played for played in episodes if played.policy == BASELINE])
        for world, row, gate in zip(worlds, rows, gates, strict=True):
            row |= _found(audited, gate, exact[world.key], world.name)
    with progress("writing the report"):
        page = render_report(audited, title="The shipped tasks", exact=exact, notes=[_NOTE])
        report.write_text(page, encoding="utf-8")
    for table in overview(policy for policy in audited.policies if policy.split == "test"):
        out.print(table)
    seconds = time.perf_counter() - begun
    summary_file.write_text(json.dumps(_summary(seconds, rows), indent=1, allow_nan=False) + "\n")
    out.print(f"{len(episodes):,} episodes in {seconds:.1f} s. Open the report:")
    for file in (report, episodes_file, summary_file):
        out.print(f"  {file}", soft_wrap=True)


def _found(audited: Audit, gate: Gate, exact: dict[str, ExactValue], name: str) -> dict[str, Any]:
    """What the summary says of one task beside its own exact values."""
    values = {policy: {"value": e.value, "asks": e.mean_asks} for policy, e in exact.items()}
    policies = [policy.to_dict() for policy in audited.policies if policy.world.name == name]
    return {"gate_1": to_dict([gate])[0], "exact_policies": values, "policies": policies}


def _summary(seconds: float, rows: list[dict[str, Any]]) -> dict[str, Any]:
    versions = {"python": platform.python_version()} | {name: version(name) for name in _LIBRARIES}
    return {"demo_seconds": seconds, "versions": versions, "baseline": BASELINE, "tasks": rows}


def _one_gate(worlds: list[ClinicalWorld], gates: list[Gate]) -> Table:
    """The same gate of several tasks as one table."""
    checks = (
        replace(check, name=f"{world.name}: {check.name}")
        for world, gate in zip(worlds, gates, strict=True)
        for check in gate.checks
    )
    return gate_table(replace(gates[0], checks=tuple(checks)))


def _exact_values(world: ClinicalWorld) -> dict[str, ExactValue]:
    """Of the reference policies that do not draw their actions."""
    from oracles.exact import exact_value
    from oracles.policies import REFERENCES

    policies = (world.policy(name) for name in REFERENCES)
    return {p.name: exact_value(world.task, p) for p in policies if p.deterministic}


def _play_references(world: ClinicalWorld) -> list[Episode]:
    from oracles.policies import REFERENCES

    episodes = []
    for name in REFERENCES:
        policy = world.policy(name)
        episodes += play_set(world, policy, "heldout", k=K)
        # every rollout of a deterministic policy is the same, and test is large
        episodes += play_set(world, policy, "test", k=1 if policy.deterministic else K)
    return episodes
