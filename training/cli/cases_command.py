"""`clinical-envs cases`: a named set of cases as JSON Lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from training.cli.arguments import RhoOption, SetOption, TaskArgument
from training.cli.terminal import err, progress, writable

if TYPE_CHECKING:
    from clinical_envs.case import Case
    from oracles.clinical import ClinicalWorld


def cases(
    task: TaskArgument,
    set_name: SetOption,
    out: Annotated[Path, typer.Option(help="JSON Lines file; an existing one is replaced.")],
    privileged: Annotated[
        bool, typer.Option(help="Add the state, the answers, the hash and the oracle's path.")
    ] = False,
    rho: RhoOption = 0.0,
) -> None:
    """Write a named set of cases, one JSON object a line.

    A row has what a policy may know: task, split, seed, index, family, initial findings, prompt.
    The hash covers hidden content, so it is privileged too.
    """
    from clinical_envs.catalog import load_task
    from oracles.clinical import ClinicalWorld

    world = ClinicalWorld(load_task(task), rho=rho)
    found = world.cases(set_name)
    with progress(f"{world.name}: writing {set_name}") as tell, writable(out).open("w") as lines:
        for done, case in enumerate(found, start=1):
            row = _public(world, case) | (_privileged(world, case) if privileged else {})
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")
            tell(done, len(found))
    note = " with their answers: keep them from the policy" if privileged else ""
    err.print(f"{len(found)} cases in {out}{note}", soft_wrap=True)


def _public(world: ClinicalWorld, case: Case) -> dict[str, Any]:
    from clinical_envs.protocol import prompt

    task = world.task
    return {
        "task": task.key,
        "split": case.split,
        "seed": case.seed,
        "index": case.index,
        "family": task.family_ids[case.family],
        "initial": {task.finding_ids[q]: case.answers[q] for q in case.revealed},
        "prompt": prompt(task, case.start(task)),
    }


def _privileged(world: ClinicalWorld, case: Case) -> dict[str, Any]:
    from oracles.evaluation import evaluate

    task = world.task
    (episode,) = evaluate(world, world.policy("oracle"), [case], k=1)
    return {
        "state": task.state_ids[case.state],
        "answers": dict(zip(task.finding_ids, case.answers, strict=True)),
        "hash": case.hash,
        "oracle_path": [turn.model_dump() for turn in episode.turns],
        "oracle_reward": world.assess(episode).reward,
    }
