"""`clinical-envs demo`: the main job, from the exact oracle to the guarded report."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    from oracles.report import Figure

K = 12
BASELINE = "checklist"
_NOTE = (
    f"Reference policies on the shipped tasks. On heldout each case was played {K} times. On test "
    f"policies that draw their actions played {K} times, the others once, for every rollout would "
    "be the same. "
)
_LIBRARIES = ("clinical-envs", "gymnasium", "numpy", "scipy", "pydantic")
_FILES = ("report.html", "episodes.jsonl", "summary.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tour:
    """The shipped tasks, solved and played by the reference policies; by position and by key."""

    worlds: tuple[ClinicalWorld, ...]
    rows: tuple[dict[str, Any], ...]
    gates: tuple[Gate, ...]
    exact: dict[str, dict[str, ExactValue]]
    episodes: list[Episode]

    def checklists(self, besides: ClinicalWorld | None = None) -> list[Episode]:
        """The episodes of the baseline, those on one task left out."""
        left_out = None if besides is None else besides.key
        return [e for e in self.episodes if e.policy == BASELINE and e.task != left_out]


def demo(
    folder: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Where everything is written.")
    ] = Path("demo"),
    train: Annotated[
        bool,
        typer.Option(
            "--train",
            help="Then train: a warmup and GRPO with two rewards on diagnostics, into "
            "FOLDER/training. Minutes on two cores; a stopped one is continued.",
        ),
    ] = False,
) -> None:
    """Solve, gate, evaluate, audit and report the shipped tasks, in about half a minute.

    Writes report.html, episodes.jsonl and summary.json; earlier ones are replaced. Every
    reference policy plays heldout with k = 12, and test with k = 12 where it draws its actions
    and once where it does not. The baseline of the audit is the task's checklist.

    With --train the same page also holds the trained policies, against their warmup.
    """
    from clinical_envs.errors import require

    if train:
        require("trl", "train")
    begun = time.perf_counter()
    for name in _FILES:
        writable(folder / name)
    tour = _play_tour()
    seconds = _tell_tour(folder, tour, begun)
    if train:
        _tell_story(folder, tour, begun, seconds)


def _play_tour() -> _Tour:
    from clinical_envs.catalog import load_task, task_ids
    from oracles.clinical import ClinicalWorld
    from oracles.gates import gate_1

    worlds = tuple(ClinicalWorld(load_task(task_id)) for task_id in task_ids())
    with progress("solving the shipped tasks"):
        rows = tuple(exact_row(world) for world in worlds)
    gates = tuple(gate_1(world) for world in worlds)
    exact = {world.key: _exact_values(world) for world in worlds}
    out.print(exact_table(list(rows)))
    out.print(_one_gate(worlds, gates))
    episodes = [episode for world in worlds for episode in _play_references(world)]
    return _Tour(worlds=worlds, rows=rows, gates=gates, exact=exact, episodes=episodes)


def _tell_tour(folder: Path, tour: _Tour, begun: float) -> float:
    """Audit the reference policies and publish; returns the seconds it took since it was begun."""
    found = _audit(tour, tour.episodes, tour.checklists())
    note = f"{_NOTE}The baseline is the task's {BASELINE}."
    _publish(folder, tour, found, title="The shipped tasks", notes=[note])
    for table in overview(policy for policy in found.policies if policy.split == "test"):
        out.print(table)
    seconds = time.perf_counter() - begun
    _summarise(folder, tour, found, {"demo_seconds": seconds})
    _say_where(folder, f"{len(tour.episodes):,} episodes in {seconds:.1f} s.")
    return seconds


def _tell_story(folder: Path, tour: _Tour, begun: float, seconds: float) -> None:
    """Train, audit against the warmup, and publish one page about everything."""
    from training.cli.telling import peak_gb, tell
    from training.story import START, TASK, Story

    world = next(world for world in tour.worlds if world.name == TASK)
    story = Story(folder / "training", world)
    fresh = not story.folder.exists()
    told = tell(story)
    trained = [episode for played in told.episodes.values() for episode in played]
    baseline = [*told.episodes[START], *tour.checklists(besides=world)]
    found = _audit(tour, [*trained, *tour.episodes], baseline)
    _publish(
        folder,
        tour,
        found,
        title=told.title,
        notes=[*told.notes, f"{_NOTE}The baseline of the other tasks is their {BASELINE}."],
        figures=told.figures,
        trained=trained,
    )
    beside = {*told.episodes, "oracle", "best_constant"}
    on_test = [p for p in found.policies if p.world.key == world.key and p.split == "test"]
    for table in overview(policy for policy in on_test if policy.policy in beside):
        out.print(table)
    minutes = (time.perf_counter() - begun) / 60.0 if fresh else None
    measured = {"demo_minutes": minutes, "demo_peak_gb": peak_gb() if fresh else None}
    _summarise(folder, tour, found, {"demo_seconds": seconds, **measured, "training": told.facts})
    _say_where(folder, "Continued." if minutes is None else f"{minutes:.1f} minutes in all.")


def _audit(tour: _Tour, episodes: list[Episode], baseline: list[Episode]) -> Audit:
    from oracles.audits import audit

    with progress(f"auditing {len(episodes):,} episodes") as tell:

        def done(number: int) -> None:
            tell(number, len(episodes))

        return audit(episodes, baseline, tasks=tour.worlds, progress=done)


def _publish(
    folder: Path,
    tour: _Tour,
    found: Audit,
    *,
    title: str,
    notes: Sequence[str],
    figures: Sequence[Figure] = (),
    trained: Sequence[Episode] = (),
) -> None:
    """The page, and the episodes it is made of."""
    from clinical_envs.episode import write_episodes
    from oracles.report import render_report

    with progress("writing the report"):
        page = render_report(found, title=title, exact=tour.exact, notes=notes, figures=figures)
        (folder / "report.html").write_text(page, encoding="utf-8")
        write_episodes(folder / "episodes.jsonl", [*trained, *tour.episodes])


def _summarise(folder: Path, tour: _Tour, found: Audit, facts: dict[str, Any]) -> None:
    versions = {"python": platform.python_version()} | {name: version(name) for name in _LIBRARIES}
    tasks = []
    for world, row, gate in zip(tour.worlds, tour.rows, tour.gates, strict=True):
        exact = tour.exact[world.key]
        values = {policy: {"value": e.value, "asks": e.mean_asks} for policy, e in exact.items()}
        policies = [p.to_dict() for p in found.policies if p.world.name == world.name]
        told = {"gate_1": to_dict([gate])[0], "exact_policies": values, "policies": policies}
        tasks.append(row | told)
    summary = facts | {"versions": versions, "baseline": BASELINE, "tasks": tasks}
    text = json.dumps(summary, indent=1, allow_nan=False)
    (folder / "summary.json").write_text(text + "\n", encoding="utf-8")


def _say_where(folder: Path, words: str) -> None:
    out.print(f"{words} Open the report:")
    for name in _FILES:
        out.print(f"  {folder / name}", soft_wrap=True)


def _one_gate(worlds: Sequence[ClinicalWorld], gates: Sequence[Gate]) -> Table:
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
