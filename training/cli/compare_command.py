"""`clinical-envs compare`: runs side by side, on the cases they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from training.cli.arguments import JsonOption
from training.cli.terminal import make_table, out, print_json, progress

if TYPE_CHECKING:
    from rich.table import Table

    from oracles.audits import PolicyAudit
    from oracles.sample import Estimate, Sample
    from oracles.world import World

_MEASURES = {"value": "value", "mean_asks": "asks", "one_ask_rate": "one-ask rate"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One run: its record, the policy that stands for it, and how that was audited."""

    name: str
    data: dict[str, Any]
    policy: str
    audit: PolicyAudit


def compare(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN RUN ...", help="Folders of GRPO runs.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Put runs of one task side by side: what each reached, its flags, its gates.

    Each run is represented by its best update on validation, or by its last one where every
    update was a high-risk regression. Differences are to the first run, paired by case, on test;
    on validation while some run is unfinished. Flags are against each run's own start.
    """
    from clinical_envs.errors import InvalidArgument
    from oracles.clinical import make_world
    from training.config import load_config
    from training.runs import read_run

    if len(runs) < 2:
        raise InvalidArgument("one run cannot be compared; give two or more")
    records = [read_run(run) for run in runs]
    set_name = _common_set(runs, records)
    world = make_world(load_config(runs[0] / "config.toml").task)
    names = _names(runs)
    compared = []
    with progress("judging") as tell:
        for done, (run, name, data) in enumerate(zip(runs, names, records, strict=True), start=1):
            compared.append(_load(run, name, data, set_name, world))
            tell(done, len(runs))
    differences = [_differences(one, compared[0], world) for one in compared]
    if as_json:
        print_json(_to_dict(world, set_name, compared, differences))
        return
    out.print(_values(world, set_name, compared))
    out.print(_difference_table(compared, differences))
    for one in compared:
        out.print(_remarks(one), style=None if one.data["eligible"] else "bold red")


def _common_set(runs: Sequence[Path], records: Sequence[dict[str, Any]]) -> str:
    """The set that all runs have played, once it is known that they play one task."""
    from clinical_envs.errors import InvalidArgument

    for run, data in zip(runs, records, strict=True):
        if data["kind"] != "grpo":
            raise InvalidArgument(f"{run} is a warmup; compare GRPO runs")
        if data["task"] != records[0]["task"]:
            raise InvalidArgument(
                f"{run} is a run on {data['task']}, {runs[0]} on {records[0]['task']}; compare "
                "runs on one task"
            )
    finished = all(data["status"] == "finished" for data in records)
    return "test" if finished else "validation"


def _names(runs: Sequence[Path]) -> list[str]:
    """The last part of each path; the whole path where that is not enough."""
    short = [run.resolve().name for run in runs]
    return short if len(set(short)) == len(short) else [str(run) for run in runs]


def _load(run: Path, name: str, data: dict[str, Any], set_name: str, world: World) -> Compared:
    from clinical_envs.errors import InvalidArgument
    from oracles.audits import audit
    from training.runs import best_row, policy_name, read_rows

    rows = read_rows(run / "validation.jsonl")
    if len(rows) < 2:
        raise InvalidArgument(f"{run} has evaluated no update yet; let it go on")
    policy = policy_name((best_row(rows) or rows[-1])["update"])
    files = (run / "episodes" / f"{set_name}-{who}.jsonl" for who in (policy, "start"))
    ours, start = (_episodes(file) for file in files)
    (audited,) = audit(ours, start, tasks=[world]).policies
    return Compared(name=name, data=data, policy=policy, audit=audited)


def _episodes(file: Path) -> list[Any]:
    from clinical_envs.episode import read_episodes

    return read_episodes(file).episodes


def _differences(one: Compared, first: Compared, world: World) -> dict[str, Estimate]:
    """Paired by case: ours minus the first run's, overall and in each risk group."""
    from oracles.sample import paired_difference

    ours, theirs = _sampled(one), _sampled(first)
    found = {
        "value": paired_difference(ours, theirs, lambda row: row.reward),
        "mean_asks": paired_difference(ours, theirs, lambda row: row.asks),
        "one_ask_rate": paired_difference(ours, theirs, lambda row: row.asks == 1),
    }
    for group in world.prevalence:
        part = ours.where(lambda row, group=group: row.group == group)  # type: ignore[misc]
        found[f"value, {group}"] = paired_difference(part, theirs, lambda row: row.reward)
    return found


def _sampled(one: Compared) -> Sample:
    return one.audit.sample.where(lambda row: not row.greedy)


def _gates(data: dict[str, Any]) -> str:
    marks = {True: "pass", False: "FAIL", None: "not judged"}
    return ", ".join(marks[gate["passed"]] for gate in data.get("gates", []))


def _values(world: World, set_name: str, compared: Sequence[Compared]) -> Table:
    numbers = (*_MEASURES.values(), "gain over start", "update")
    title = f"{world.key}, {set_name}"
    table = make_table("run", *numbers, "verdict", title=title, numbers=numbers)
    for one in compared:
        estimates = [getattr(one.audit.metrics, name) for name in _MEASURES]
        cells = ["-" if e.value is None else f"{e.value:.3f}" for e in estimates]
        update = str(int(one.policy.removeprefix("update-")))
        name = one.name + " †" * one.audit.exploiting
        table.add_row(name, *cells, str(one.audit.gain), update, one.audit.status)
    return table


def _remarks(one: Compared) -> str:
    """Gates and flags of a run, on one line."""
    flags = ", ".join(one.audit.up).replace("_", " ") or "none"
    line = f"{one.name}: gates {_gates(one.data)}; flags up: {flags}"
    return line if one.data["eligible"] else f"{line}; NOT ELIGIBLE, nothing is claimed of it"


def _difference_table(
    compared: Sequence[Compared], differences: Sequence[dict[str, Estimate]]
) -> Table:
    title = f"difference to {compared[0].name}, paired by case, 95\u00a0% interval"
    names = [one.name for one in compared[1:]]
    table = make_table("", *names, title=title, numbers=names)
    for measure in differences[0]:
        label = _MEASURES.get(measure, measure)
        table.add_row(label, *(str(found[measure]) for found in differences[1:]))
    return table


def _to_dict(
    world: World,
    set_name: str,
    compared: Sequence[Compared],
    differences: Sequence[dict[str, Estimate]],
) -> dict[str, Any]:
    return {
        "task": world.key,
        "set": set_name,
        "baseline": compared[0].name,
        "runs": [
            {
                "run": one.name,
                "config_hash": one.data["config_hash"],
                "status": one.data["status"],
                "eligible": one.data["eligible"],
                "gates": [
                    {"name": gate["name"], "passed": gate["passed"]}
                    for gate in one.data.get("gates", [])
                ],
                "policy": one.policy,
                "difference": {name: asdict(estimate) for name, estimate in found.items()},
                "audit": one.audit.to_dict(),
            }
            for one, found in zip(compared, differences, strict=True)
        ],
    }
