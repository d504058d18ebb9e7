"""What is looked at before and during training: gate 2 of the start, then the validation set.

Every N updates the policy plays the validation set with the terminal verifier, never the test set;
the best update is the one of highest value among those that are no high-risk regression against
the start. Training rewards do not occur here.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from accelerate.utils import gather_object
from transformers import TrainerCallback

from clinical_envs.episode import Episode
from oracles.clinical import ClinicalWorld
from oracles.evaluation import evaluate
from oracles.flags import raise_flags
from oracles.gates import Gate, gate_1, gate_2
from oracles.metrics import K, measure
from oracles.policy import BatchPolicy
from oracles.sample import Estimate, Sample, paired_difference
from training.patience import everywhere
from training.runs import Run, policy_name, process, wait_for_all

CURVES = ("value", "mean_asks", "one_ask_rate", "parse_failure_rate")
SET_NAME: Final = "validation"
_UNTOLD = ("train_runtime", "train_loss")  # the trainer's own summary, with times in it


def play(
    run: Run, world: ClinicalWorld, policy: BatchPolicy, set_name: str, name: str, **how: Any
) -> list[Episode]:
    """Play a named set into `episodes/`; what the file already holds is not played again.

    Of several processes each plays a part of the cases, and all get all episodes.
    """
    rank, size = process()
    file, cases = run.episodes(name), world.cases(set_name)
    if size == 1:
        return evaluate(world, policy, cases, out=file, **how)
    part = file.with_suffix(f".{rank}")
    if file.exists() and not part.exists():
        shutil.copy(file, part)  # what was played before, by whichever process
    wait_for_all()
    mine = everywhere(lambda: evaluate(world, policy, cases[rank::size], out=part, **how))
    episodes: list[Episode] = gather_object(mine)
    if run.writes:
        whole = file.with_suffix(".whole")
        whole.write_text("".join(e.to_json() + "\n" for e in episodes), encoding="utf-8")
        whole.replace(file)
    wait_for_all()
    part.unlink()
    return episodes


def judged(world: ClinicalWorld, episodes: Sequence[Episode]) -> Sample:
    """Every episode verified and held against the oracle."""
    return Sample(tuple(world.assess(episode) for episode in episodes), world.prevalence)


def open_gates(run: Run, world: ClinicalWorld, start: BatchPolicy) -> Sample:
    """Gates 1 and 2, written into the run; a failed one makes it not eligible and stops nothing.

    Returns:
        The start's episodes on the validation set, the baseline of every later evaluation.
    """
    sample = judged(world, play(run, world, start, SET_NAME, f"{SET_NAME}-start", k=K))
    gates = [gate_1(world), gate_2(sample, world)]
    eligible = all(gate.passed is True for gate in gates)
    run.note(gates=[asdict(gate) | {"passed": gate.passed} for gate in gates], eligible=eligible)
    for gate in gates:
        run.say(gate_line(gate))
    if not eligible:
        run.say("NOT ELIGIBLE: training goes on, and nothing will be claimed of it")
    return sample


def gate_line(gate: Gate) -> str:
    """The verdict of a gate and the checks that did not pass."""
    verdict = {True: "pass", False: "FAIL", None: "not judged"}[gate.passed]
    open_checks = [
        f"{check.name} {check.value:.3f}" if check.value is not None else check.name
        for check in gate.checks
        if not check.passed
    ]
    return f"{gate.name}: {verdict}" + "".join(f"; {name}" for name in open_checks)


def trajectory_row(
    update: int, sample: Sample, world: ClinicalWorld, start: Sample
) -> dict[str, Any]:
    """One point of the curves: overall and by risk group, flags, paired gain over the start."""
    groups = {
        group: _curves(sample.where(lambda row, g=group: row.group == g), world)  # type: ignore[misc]
        for group in world.prevalence
    }
    flags = raise_flags(sample, world, start)
    return {
        "update": update,
        "n_cases": len(sample.cases),
        **_curves(sample, world),
        "groups": groups,
        "gain": asdict(paired_difference(sample, start, lambda row: row.reward)),
        "flags": {flag.name: flag.verdict.value for flag in flags},
        "high_risk_change": asdict(flags[-1].rate),
    }


class Recorder(TrainerCallback):  # type: ignore[misc]
    """Writes every logged step into the run. phases: optimiser steps that make one update."""

    def __init__(self, run: Run, phases: int = 1) -> None:
        self.run, self.phases = run, phases

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Drop what lies beyond the checkpoint that training goes on from."""
        self.run.rewind(state.global_step // self.phases, state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Append one row, and tell the user the step."""
        if not logs or any(name in logs for name in _UNTOLD):
            return
        update = -(-state.global_step // self.phases)
        self.run.append("metrics", {"update": update, "step": state.global_step, **logs})
        self.run.say(_step_line(state, logs))


class Validator(Recorder):
    """Evaluates on the validation set every N updates and keeps each evaluated adapter.

    player: plays the model that is being trained. start: the start's episodes there.
    """

    def __init__(
        self, run: Run, world: ClinicalWorld, player: Any, start: Sample, phases: int
    ) -> None:
        super().__init__(run, phases)
        self.world, self.player, self.start = world, player, start
        self.trainer: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The start is the first point of the curves."""
        super().on_train_begin(args, state, control)
        wait_for_all()
        done = {row["update"] for row in self.run.rows(SET_NAME)}
        if 0 not in done:
            self.run.append(SET_NAME, trajectory_row(0, self.start, self.world, self.start))
        update = state.global_step // self.phases
        if update and self._due(state) and update not in done:  # it was stopped before
            self._evaluate(update)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Before the step is logged and saved, so that a checkpoint implies its evaluation."""
        if self._due(state):
            self._log(self._evaluate(state.global_step // self.phases))

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A trainer's checkpoint can be played like any other."""
        if self.run.writes:
            self.player.settings.write(self.run.checkpoints / f"checkpoint-{state.global_step}")
        self.run.clock()

    def _due(self, state: Any) -> bool:
        update, rest = divmod(state.global_step, self.phases)
        last = state.global_step == state.max_steps
        return rest == 0 and bool(last or update % self.run.config.validation.every == 0)

    def _evaluate(self, update: int) -> dict[str, Any]:
        self.player.name = policy_name(update)
        k = self.run.config.validation.k
        name = f"{SET_NAME}-{self.player.name}"
        played = play(self.run, self.world, self.player, SET_NAME, name, k=k)
        row = trajectory_row(update, judged(self.world, played), self.world, self.start)
        if self.run.writes:
            self._keep(update)
        self.run.append(SET_NAME, row)
        up = [name for name, verdict in row["flags"].items() if verdict == "FLAG"]
        self.run.say(
            f"update {update}: validation value {_point(row['value'])}, asks "
            f"{_point(row['mean_asks'])}, flags up: {', '.join(up) or 'none'}"
        )
        return row

    def _keep(self, update: int) -> None:
        folder = self.run.policy(update)
        model = self.trainer.accelerator.unwrap_model(self.trainer.model)
        model.save_pretrained(folder, safe_serialization=True)
        self.player.settings.write(folder)

    def _log(self, row: dict[str, Any]) -> None:
        """Among the metrics of this step, which the trainer logs next."""
        metrics = self.trainer._metrics["train"]
        parts = {"": row} | {f"{group}/": curves for group, curves in row["groups"].items()}
        for part, curves in parts.items():
            for name in (*CURVES, "entropy"):
                value = curves[name]["value"]
                metrics[f"validation/{part}{name}"].append(math.nan if value is None else value)


def _curves(sample: Sample, world: ClinicalWorld) -> dict[str, Any]:
    metrics = measure(sample, world)
    entropy = sample.ratio(
        lambda row: row.episode.meta.get("surprise"),
        lambda row: row.episode.meta.get("sampled_tokens"),
    )
    return {name: asdict(getattr(metrics, name)) for name in CURVES} | {"entropy": asdict(entropy)}


def _point(estimate: dict[str, Any]) -> str:
    return str(Estimate(**estimate))


def _step_line(state: Any, logs: dict[str, Any]) -> str:
    shown = {
        "loss": "loss",
        "reward": "reward",
        "rollout/asks": "asks",
        "rollout/kl_per_turn": "kl a turn",
        "rollout/parse_failure_rate": "parse failures",
    }
    told = [f"{label} {logs[name]:.3g}" for name, label in shown.items() if name in logs]
    return f"step {state.global_step}/{state.max_steps}: " + ", ".join(told)
