"""Verifiers between the strict and the weak one: lenient in a share of their judgments.

    lenient(case, criterion)  iff  SHA-256(case, criterion) / 2^64 < rate

A lenient judgment passes whatever one of the six leniencies lets pass, another is strict, and the
same judgment is the same each time. Rate 1 is the weak verifier, 0 the strict one. The published
strong verifier fails about a seventh as often as the weak one, with the same mix of causes
(arXiv 2605.12474), which is rate 1/7.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from clinical_envs.episode import Episode
from clinical_envs.rubric.criteria import Answer
from clinical_envs.rubric.log_rows import Row, log_rows
from clinical_envs.rubric.scoring import rubric_reward
from clinical_envs.rubric.training_rewards import answered, episode_reference
from clinical_envs.rubric.verifiers import STRICT, WEAK, judge
from clinical_envs.rubric.world import Message
from clinical_envs.task import Task

WEAK_RATE, STRONG_RATE = 1.0, 1.0 / 7.0


def lenient(case: str, criterion: str, rate: float) -> bool:
    """Whether a verifier with this rate of lapses is lenient on a criterion of a case."""
    digest = hashlib.sha256(f"{case}\n{criterion}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < rate * 2**64


def episode_proxy(task: Task, episode: Episode, rate: float) -> float | None:
    """`R_proxy` of an episode; 0 without an answer, unscored without its state.

    Raises:
        InvalidArgument: the episode names no case.
        InvalidEpisode: the recorded text is not the recorded decision.
    """
    asked, claims = answered(task, episode)
    if claims is None:
        return 0.0
    if episode.state is None:
        return None
    return _reward(asked, episode.state, claims, str(episode.case_id), rate)


def lapsing_rows(
    task: Task,
    episodes: Sequence[Episode],
    rate: float,
    generator: np.random.Generator,
    *,
    step: int,
    verifier: str,
) -> Iterator[Row]:
    """The rows of one checkpoint, as `log_rows` makes them of the weak verifier's verdicts.

    An episode without an answer has reward and reference 0, as in training.

    Raises:
        InvalidArgument, InvalidEpisode: as `log_rows`.
    """
    paid = {
        str(episode.case_id): {
            "reward": episode_proxy(task, episode, rate),
            "reference": episode_reference(task, episode),
        }
        for episode in episodes
    }
    for row in log_rows(task, episodes, WEAK, generator, step=step, verifier=verifier):
        if row["kind"] == "reward":
            row |= paid[row["prompt"]]
        elif row["cause"] is not None and not lenient(row["prompt"], row["criterion"], rate):
            row |= {"training": False, "cause": None}
        yield row


def _reward(asked: Message, state: str, claims: Answer, case: str, rate: float) -> float:
    rubric = asked.rubrics[state]
    met = [
        judge(item.criterion, claims, WEAK if lenient(case, item.name, rate) else STRICT).met
        for item in rubric
    ]
    return rubric_reward([item.weight for item in rubric], met)
