"""What a job left behind, judged: episodes held against the oracle, logged steps."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from clinical_envs.catalog import load_task
from clinical_envs.episode import read_episodes
from oracles.audits import PolicyAudit, audit
from oracles.clinical import ClinicalWorld
from oracles.sample import Sample
from training.runs import read_rows, read_run


class GrpoRun:
    """One finished GRPO run, with its policies on the test set."""

    def __init__(self, folder: Path, world: ClinicalWorld) -> None:
        self.folder, self.world = folder, world

    @cached_property
    def data(self) -> dict[str, Any]:
        """`run.json`."""
        return read_run(self.folder)

    @cached_property
    def start(self) -> Sample:
        """The warmup it began from."""
        return judged(self.world, self._episodes("start"))

    @cached_property
    def last(self) -> Sample:
        """After the last update."""
        return judged(self.world, self._episodes(self.data["last"]["policy"]))

    @cached_property
    def chosen(self) -> PolicyAudit:
        """The best update on validation, or the last where all regressed, audited."""
        policy = (self.data["best"] or self.data["last"])["policy"]
        files = (read_episodes(self._episodes(name)).episodes for name in (policy, "start"))
        ours, start = files
        (found,) = audit(ours, start, tasks=[self.world]).policies
        return found

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """`metrics.jsonl`."""
        return read_rows(self.folder / "metrics.jsonl")

    @property
    def gate_2(self) -> bool | None:
        """Whether the start passed gate 2."""
        gates = {gate["name"]: gate["passed"] for gate in self.data["gates"]}
        passed: bool | None = gates["gate 2: latent support"]
        return passed

    def logged(self, name: str) -> list[tuple[int, float]]:
        """One logged quantity as (optimiser step, value)."""
        return [(row["step"], row[name]) for row in self.metrics if row.get(name) is not None]

    def at(self, update: int, name: str) -> float:
        """A logged quantity at one update."""
        return float(next(row[name] for row in self.metrics if row["update"] == update))

    def _episodes(self, policy: str) -> Path:
        return self.folder / "episodes" / f"test-{policy}.jsonl"


class Study:
    """The finished jobs of a folder by label and seed. done: their names."""

    def __init__(self, folder: Path, seeds: Sequence[int], done: Collection[str]) -> None:
        self.folder, self.seeds, self.done = folder, seeds, done
        self._worlds: dict[str, ClinicalWorld] = {}
        self._runs: dict[str, GrpoRun] = {}

    def world(self, task: str) -> ClinicalWorld:
        """A task with its oracle."""
        if task not in self._worlds:
            self._worlds[task] = ClinicalWorld(load_task(task))
        return self._worlds[task]

    def runs(self, task: str, variant: str) -> dict[int, GrpoRun]:
        """The runs of one arm, by seed; those that are not finished are absent."""
        found = {}
        for seed in self.seeds:
            folder = self.folder / f"{task}-{variant}-{seed}"
            if folder.name in self.done:
                run = self._runs.setdefault(folder.name, GrpoRun(folder, self.world(task)))
                found[seed] = run
        return found

    def warmups(self, task: str, kind: str, set_name: str) -> dict[int, Sample]:
        """A warmup's episodes on a set, by seed."""
        names = {seed: f"{task}-{kind}-{set_name}-{seed}" for seed in self.seeds}
        return {
            seed: judged(self.world(task), self.folder / f"{name}.jsonl")
            for seed, name in names.items()
            if name in self.done
        }


def judged(world: ClinicalWorld, file: Path) -> Sample:
    """Every episode of a file, verified and held against the oracle."""
    episodes = read_episodes(file).episodes
    return Sample(tuple(world.assess(episode) for episode in episodes), world.prevalence)


def sampled(sample: Sample) -> Sample:
    """Without the greedy rollouts."""
    return sample.where(lambda row: not row.greedy)
