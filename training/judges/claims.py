"""Claims of many answers against their passages, as rows that the reward audit reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from clinical_envs.checkedqa.cascade import foreign_share
from clinical_envs.checkedqa.checkers import Check, Checker, check_claims
from clinical_envs.checkedqa.rewards import Phi, checked_reward
from oracles.reward_audit.records import CheckRow, RewardRow
from training.judges.files import Cited
from training.judges.work import WORKERS, Tell, work


def check_answers(
    answers: Sequence[Cited],
    checker: Checker,
    *,
    workers: int = WORKERS,
    tell: Tell | None = None,
) -> list[CheckRow | RewardRow]:
    """Per answer one check a claim and one reward: `R = base * phi`.

    Without passages every claim is NEUTRAL, whatever the checker. Phi is missing where a verdict
    is, the reward also where no base is recorded.
    """
    jobs = [partial(check_claims, checker, one.stated, one.passages) for one in answers]
    checked = work(jobs, workers=workers, tell=tell)
    return [
        row
        for answer, checks in zip(answers, checked, strict=True)
        for row in _rows(answer, checks, checker.name)
    ]


def _rows(
    answer: Cited, checks: Sequence[Check | None], checker: str
) -> Iterator[CheckRow | RewardRow]:
    for number, (claim, check) in enumerate(zip(answer.stated, checks, strict=True)):
        yield CheckRow(
            step=answer.step,
            prompt=answer.prompt,
            rollout=answer.rollout,
            claim=number,
            checker=checker,
            policy=answer.policy,
            verdict=None if check is None else check.label,
            truth=None if answer.truth is None else answer.truth[number],
            meta={"claim": claim} if check is None else {"claim": claim, "probs": check.probs},
        )
    phi = Phi().of_checks(checks)
    asked = answer.question
    yield RewardRow(
        step=answer.step,
        prompt=answer.prompt,
        rollout=answer.rollout,
        reward=checked_reward(answer.base, phi),
        phi=phi,
        claims=len(checks),
        length=len(answer.answer),
        searches=answer.searches,
        foreign_share=None if asked is None else foreign_share(asked, answer.answer),
    )
