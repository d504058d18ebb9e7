"""A run of the reward study: `python -m training.reward_runs WORLD ARM SEED FOLDER`.

An arm from its seed's warmup on, with its evaluations and its curves.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from transformers import TrainerCallback

from clinical_envs.case import Case
from clinical_envs.catalog import load_task
from clinical_envs.errors import ClinicalEnvsError
from clinical_envs.rubric.scoring import scored_mean
from oracles.clinical import ClinicalWorld
from oracles.evaluation import evaluate
from oracles.reward_audit.audit import as_json, audit_reward
from oracles.reward_audit.exploitation import windows
from oracles.reward_audit.records import Log, RewardRow
from training.config import Config
from training.grpo import build_trainer, play_settings
from training.proxies import make_proxy
from training.proxy_audit import FINDINGS, ROWS, Checkpoint, write_rows
from training.runs import as_toml, quiet

if TYPE_CHECKING:
    from training.checkpoint_policy import CheckpointPolicy
    from training.reward_study import Setting

CURVES = "curves.json"
Say = Callable[[str], None]
# measure -> of a reward row; None is unscored
_MEASURES: dict[str, Callable[[RewardRow], float | None]] = {
    "proxy": lambda row: row.reward,
    "reference": lambda row: row.reference,
    "searches": lambda row: row.searches,
}
_OF_EVIDENCE: dict[str, Callable[[RewardRow], float | None]] = {
    "hallucination": lambda row: float(bool(row.incorrect_claims)),
    "sound_evidence": lambda row: row.meta["evidence"] - (row.incorrect_claims or 0),
}


app = typer.Typer(add_completion=False, help=__doc__)


@app.command()
def main(world: str, arm: str, seed: int, folder: Path) -> None:
    """One arm of one seed of a world."""
    from training.reward_study import SETTINGS

    try:
        play_arm(SETTINGS[world], arm, seed, folder, lambda line: typer.echo(line, err=True))
    except ClinicalEnvsError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


def play_arm(setting: Setting, arm: str, seed: int, folder: Path, say: Say) -> None:
    """Train an arm from its seed's start, then write its rows, its audit and its curves."""
    start, run = (folder / f"{setting.world}-{name}-{seed}" for name in ("start", arm))
    shutil.rmtree(run, ignore_errors=True)  # of a run that was stopped on its way
    run.mkdir(parents=True)
    config = setting.config(arm, seed)
    (run / "config.toml").write_text(as_toml(config), encoding="utf-8")
    world, begun = ClinicalWorld(load_task(config.task)), time.monotonic()
    checkpoints = _train(config, setting, world, start, run, say)
    proxy = make_proxy(world.task, config.reward.proxy or setting.audited)
    log = write_rows(run / ROWS, proxy, checkpoints, seed=seed)
    audit = json.dumps(as_json(log, audit_reward(log)), indent=1)
    (run / FINDINGS).write_text(audit + "\n", encoding="utf-8")
    (run / CURVES).write_text(json.dumps(measured(log), indent=1) + "\n", encoding="utf-8")
    say(f"{run.name}: finished after {time.monotonic() - begun:.0f} s")


def measured(log: Log) -> dict[str, list[Any]]:
    """Every measure at every evaluation; exploitation has one value a window between two."""
    updates = sorted({row.step for row in log.rewards})
    with_evidence = all("evidence" in row.meta for row in log.rewards)
    curves: dict[str, list[Any]] = {"update": updates}
    for name, of_row in (_MEASURES | (_OF_EVIDENCE if with_evidence else {})).items():
        curves[name] = [
            scored_mean(of_row(row) for row in log.rewards if row.step == update).mean
            for update in updates
        ]
    if with_evidence:
        curves["fabricated"] = _fabricated(log, updates)
    if log.judgments:
        curves["exploitation"] = [window.rate for window in windows(log.judgments)[0]]
    return curves


def _fabricated(log: Log, updates: Sequence[int]) -> list[float | None]:
    """Share of reports whose quotes the audit denies: an unseen study, or an altered quote."""
    quotes = [row for row in log.judgments if row.criterion == "quotes"]
    return [
        scored_mean(float(not row.panel[0]) for row in quotes if row.step == update).mean
        for update in updates
    ]


class _Watcher(TrainerCallback):  # type: ignore[misc]
    """Plays the same cases, one sampled rollout each, before training and every few updates."""

    def __init__(
        self,
        world: ClinicalWorld,
        player: CheckpointPolicy,
        cases: Sequence[Case],
        every: int,
        say: Say,
    ) -> None:
        self.world, self.player, self.cases = world, player, cases
        self.every, self.say = every, say
        self.checkpoints: list[Checkpoint] = []

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The start."""
        self._play(0, state.max_steps)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The policy after an update."""
        if state.global_step % self.every == 0 or state.global_step == state.max_steps:
            self._play(state.global_step, state.max_steps)

    def _play(self, update: int, last: int) -> None:
        episodes = evaluate(self.world, self.player, self.cases, k=1)
        self.checkpoints.append((update, episodes))
        self.say(f"update {update}/{last}")


def _train(
    config: Config, setting: Setting, world: ClinicalWorld, start: Path, run: Path, say: Say
) -> list[Checkpoint]:
    quiet()
    trainer, player = build_trainer(
        config, world, start, run / "checkpoints", play_settings(config)
    )
    cases = world.cases("validation")[: setting.cases]
    watcher = _Watcher(world, player, cases, setting.every, lambda line: say(f"{run.name}: {line}"))
    trainer.add_callback(watcher)
    trainer.train()
    return watcher.checkpoints


if __name__ == "__main__":
    app()
