"""What published training rewards do to the embedded policy: `python -m training.reward_study`.

    rubric       a weak and a strong verifier as the reward
    factcheck    EG-GRPO against outcome-only training

Each seed has its own warmup, from which both arms of its world start. Every few updates the policy
plays the same validation cases, whose rows go through `reward-audit`. Jobs that are done are not
run again, so a stopped study goes on with the same command. It writes OUT/reward_study.json (a
list of answers), OUT/reward_study.svg and the runs in OUT/reward_study/.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from training.config import Config, load_config
from training.reward_findings import QUESTIONS, Runs, answer
from training.reward_plot import draw
from training.study.plan import Job
from training.study.runner import finished, run_jobs

app = typer.Typer(add_completion=False, help=__doc__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How a world is studied.

    audited: the proxy whose rows an arm without one writes. every: updates between evaluations on
    the first `cases` validation cases. training: settings that differ from the shipped
    configurations.
    """

    world: str
    arms: tuple[str, str]
    audited: str
    steps: int
    every: int
    cases: int
    training: tuple[str, ...] = ()

    def config(self, arm: str, seed: int) -> Config:
        """Of an arm, with the settings of the study."""
        changes = (f"seed={seed}", f"optim.steps={self.steps}", *self.training)
        return load_config(f"{self.world}-{arm}-embedded", changes)


SETTINGS = {
    setting.world: setting
    for setting in (
        Setting(
            world="factcheck",
            arms=("eg", "outcome"),
            audited="eg",
            steps=60,
            every=10,
            cases=240,
        ),
        Setting(
            world="rubric",
            arms=("weak", "strong"),
            audited="strong",
            steps=80,
            every=20,
            cases=240,
        ),
    )
}


@app.command()
def study(
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("build"),
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0, 1, ...")] = 3,
    workers: Annotated[int, typer.Option(min=1, help="Processes at once, one thread each.")] = 2,
) -> None:
    """Run every arm of every world, and write down what appeared and what did not."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that jobs are stopped too
    jobs = reward_jobs(range(seeds), out)
    failed = run_jobs(jobs, _folder(out), workers=workers, say=_say)
    if failed:
        typer.echo(f"error: {len(failed)} jobs failed: {', '.join(failed)}", err=True)
        raise typer.Exit(1)
    conclude(out, finished(jobs, _folder(out)))


def reward_jobs(seeds: Sequence[int], out: Path) -> list[Job]:
    """Every warmup, and after each the arms that start from it."""
    jobs = []
    for world, setting in SETTINGS.items():
        for seed in seeds:
            name, start = f"{world}-light-embedded", f"{world}-start-{seed}"
            given = ("--config", name, "--set", f"seed={seed}", "--out", str(_folder(out) / start))
            light = load_config(name, [f"seed={seed}"]).hash
            jobs.append(Job(name=start, module="training.sft", arguments=given, config_hash=light))
            jobs += [
                Job(
                    name=f"{world}-{arm}-{seed}",
                    module="training.reward_runs",
                    arguments=(world, arm, str(seed), str(_folder(out))),
                    needs=(start,),
                    config_hash=setting.config(arm, seed).hash,
                )
                for arm in setting.arms
            ]
    return jobs


def conclude(out: Path, done: Collection[str]) -> list[dict[str, Any]]:
    """The answers of these runs, as JSON and drawn."""
    runs = {world: _curves(_folder(out), setting, done) for world, setting in SETTINGS.items()}
    rows = [
        answer(question, runs[question.world], SETTINGS[question.world].cases)
        for question in QUESTIONS
        if runs[question.world]
    ]
    (out / "reward_study.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    (out / "reward_study.svg").write_text(draw(runs), encoding="utf-8")
    for row in rows:
        if row["verdict"] != "measured":
            _say(f"{row['question']} {row['verdict']}: {row['metric']} {_interval(row)}")
    return rows


def _folder(out: Path) -> Path:
    return out / "reward_study"


def _curves(folder: Path, setting: Setting, done: Collection[str]) -> Runs:
    """Of a world's finished runs, by arm and seed."""
    found = {}
    for name in sorted(done):
        world, arm, seed = name.rsplit("-", 2)
        if world == setting.world and arm in setting.arms:
            text = (folder / name / "curves.json").read_text(encoding="utf-8")
            found[arm, int(seed)] = json.loads(text)
    return found


def _interval(row: dict[str, Any]) -> str:
    if row["value"] is None:
        return "unscored"
    if row["low"] is None:
        return f"{row['value']:+.3f}, {row['seeds']} seeds"
    return f"{row['value']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}], {row['seeds']} seeds"


def _say(line: str) -> None:
    typer.echo(line, err=True)


if __name__ == "__main__":
    app()
