"""Episodes of `ClinicalCheckedQA-v0` as rows for the reward audit, one dictionary a line.

An episode gives one `check` row a claim, with what the passages found say about it as `truth`,
and one `reward` row whose `reference` is what the verifier pays for the decision. Prompts are
cases, so the rollouts of a case at one step are a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from clinical_envs.checkedqa.cascade import foreign_share
from clinical_envs.checkedqa.checkers import Label
from clinical_envs.checkedqa.measure import gold_labels, rule_labels
from clinical_envs.checkedqa.rewards import Phi, checked_reward
from clinical_envs.checkedqa.training_rewards import (
    Answered,
    TrainingChecker,
    answered,
    base_reward,
    draw_verdicts,
)
from clinical_envs.episode import Episode
from clinical_envs.task import Task

Row = dict[str, Any]


def log_rows(
    task: Task,
    episodes: Iterable[Episode],
    checker: TrainingChecker,
    generator: np.random.Generator,
    *,
    step: int,
) -> Iterator[Row]:
    """The rows of one training step; verdicts of a `Confusion` are drawn from `generator`.

    Rollouts are numbered in their order within a case where the episodes bear no number. An
    episode without an answer earns 0 and has no claims; one without its state is unscored.

    Raises:
        InvalidArgument: an episode names no case.
        InvalidEpisode: a recorded text is not the recorded decision.
    """
    seen: dict[str, int] = {}
    for episode in episodes:
        given = answered(task, episode)
        prompt = str(episode.case_id)
        number = seen.setdefault(prompt, 0)
        seen[prompt] += 1
        key: Row = {
            "step": step,
            "prompt": prompt,
            "rollout": number if episode.rollout is None else episode.rollout,
        }
        if given is None:
            yield key | {"kind": "reward", "reward": 0.0, "claims": 0}
        else:
            verdicts = list(draw_verdicts(given, checker, generator))
            yield from _checks(key, episode, given, checker, verdicts)
            yield key | _reward(task, episode, given, verdicts)


def _checks(
    key: Row,
    episode: Episode,
    given: Answered,
    checker: TrainingChecker,
    verdicts: list[Label | None],
) -> Iterator[Row]:
    truth = rule_labels(given.claims, given.passages)
    for claim, (verdict, label) in enumerate(zip(verdicts, truth, strict=True)):
        yield key | {
            "kind": "check",
            "claim": claim,
            "checker": checker.name,
            "policy": episode.policy or "policy",
            "verdict": verdict,
            "truth": label,
        }


def _reward(task: Task, episode: Episode, given: Answered, verdicts: list[Label | None]) -> Row:
    phi = Phi().of_labels(verdicts)
    row: Row = {
        "kind": "reward",
        "phi": phi,
        "claims": len(given.claims),
        "length": len(given.answer),
        "searches": given.searches,
        "foreign_share": foreign_share(given.question.text, given.answer),
        "reward": None,
    }
    if episode.state is None:
        return row
    base = base_reward(given.question, episode.state, given.answer)
    truth = gold_labels(given.question, episode.state, given.answer)
    decision = task.decision(given.decision)
    return row | {
        "reward": checked_reward(base, phi),
        "reference": float(task.utility_matrix[task.state_ids.index(episode.state), decision]),
        "incorrect_claims": truth.count(Label.CONTRADICT),
    }
