"""The published training rewards of the evidence worlds, by name.

| world | names | reward of an episode |
|---|---|---|
| fact-checking | eg | outcome + 0.5 search + evidence - hallucination (arXiv 2608.23811) |
| checked QA | collapsed, moderate, strong, gpt-like | r_base phi of a checker (arXiv 2605.25988) |
| rubric | weak, strong | share of the rubric's points that a verifier gives (arXiv 2605.12474) |

The formulas lie beside the worlds; here they become a signal and the rows of its audit. A proxy
exists in training and in the audit of training, never in an evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from clinical_envs.checkedqa import log_rows as checkedqa_rows
from clinical_envs.checkedqa import training_rewards as checkedqa
from clinical_envs.checkedqa.simulated import SIMULATED
from clinical_envs.episode import Episode
from clinical_envs.errors import InvalidArgument, did_you_mean
from clinical_envs.factcheck import log_rows as factcheck_rows
from clinical_envs.factcheck import training_rewards as factcheck
from clinical_envs.rubric import lapses
from clinical_envs.task import Task

Row = dict[str, Any]


class Proxy(Protocol):
    """A published training reward on one task. Search costs are the environment's, on top."""

    def reward(self, episode: Episode) -> float | None:
        """What it pays for an episode; None where it cannot tell."""
        ...

    def rows(
        self, episodes: Sequence[Episode], step: int, generator: np.random.Generator
    ) -> Iterator[Row]:
        """The episodes of one checkpoint as rows of the reward audit."""
        ...


@dataclass(frozen=True, slots=True)
class EvidenceReward:
    """EG-GRPO's reward of a report."""

    task: Task

    def reward(self, episode: Episode) -> float:
        """R, see `clinical_envs.factcheck.training_rewards`."""
        return factcheck.training_reward(self.task, episode).total

    def rows(
        self, episodes: Sequence[Episode], step: int, generator: np.random.Generator
    ) -> Iterator[Row]:
        """One row an episode."""
        return factcheck_rows.log_rows(self.task, episodes, step=step)


@dataclass(frozen=True, slots=True)
class CheckerMultiplier:
    """r_base times the expected multiplier of a checker; rows have drawn verdicts."""

    task: Task
    checker: checkedqa.TrainingChecker

    def reward(self, episode: Episode) -> float | None:
        """R, see `clinical_envs.checkedqa.training_rewards`."""
        return checkedqa.episode_reward(self.task, episode, self.checker)

    def rows(
        self, episodes: Sequence[Episode], step: int, generator: np.random.Generator
    ) -> Iterator[Row]:
        """One row a claim and one an episode; all checkpoints are one policy in training."""
        mine = [episode.model_copy(update={"policy": "trained"}) for episode in episodes]
        return checkedqa_rows.log_rows(self.task, mine, self.checker, generator, step=step)


@dataclass(frozen=True, slots=True)
class RubricVerifier:
    """The points of a rubric, given by a verifier that is lenient at some rate."""

    task: Task
    name: str
    rate: float

    def reward(self, episode: Episode) -> float | None:
        """R_proxy, see `clinical_envs.rubric.lapses`."""
        return lapses.episode_proxy(self.task, episode, self.rate)

    def rows(
        self, episodes: Sequence[Episode], step: int, generator: np.random.Generator
    ) -> Iterator[Row]:
        """One row a criterion and one an episode, of the first rollout of each case."""
        first = [episode for episode in episodes if not episode.rollout]
        return lapses.lapsing_rows(
            self.task, first, self.rate, generator, step=step, verifier=self.name
        )


def make_proxy(task: Task, name: str) -> Proxy:
    """The published reward of that name on a task.

    Raises:
        InvalidArgument: the task has none, or none of that name.
    """
    found = proxies(task)
    if name not in found:
        hint = did_you_mean(name, tuple(found)) if found else "it belongs to an evidence world"
        raise InvalidArgument(f"reward.proxy: {task.name} has no training reward {name!r}; {hint}")
    return found[name]


def proxies(task: Task) -> dict[str, Proxy]:
    """Every published reward of a task, by name."""
    match task.id:
        case "ClinicalFactCheck-v0":
            return {"eg": EvidenceReward(task)}
        case "ClinicalCheckedQA-v0":
            return {checker.name: CheckerMultiplier(task, checker) for checker in SIMULATED}
        case "ClinicalRubric-v0":
            rates = {"weak": lapses.WEAK_RATE, "strong": lapses.STRONG_RATE}
            return {name: RubricVerifier(task, name, rate) for name, rate in rates.items()}
        case _:
            return {}
