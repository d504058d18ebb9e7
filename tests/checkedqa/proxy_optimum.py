"""The exact optimum of a training reward that depends on what was found.

Plain backward induction over all sets of passages; the canonical text of a decision is graded as
a policy's answer would be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache

import numpy as np

from clinical_envs.belief import InfoState, posterior, predictive
from clinical_envs.checkedqa.cascade import Stage
from clinical_envs.checkedqa.training_rewards import (
    Answered,
    TrainingChecker,
    base_reward,
    expected_phi,
    expected_reward,
    found,
)
from clinical_envs.checkedqa.world import questions
from clinical_envs.simulator import Action, Ask, Commit
from clinical_envs.task import Task

TOLERANCE = 1e-12


def given(task: Task, family: str, seen: dict[str, bool], decision: str) -> Answered:
    """The canonical answer of a decision after these passages."""
    asked = questions(family)[0]
    return Answered(
        question=asked,
        answer=asked.answers[decision],
        decision=decision,
        passages=found(asked, seen),
        searches=len(seen),
    )


def optimum(
    task: Task, checker: TrainingChecker, gates: Collection[Stage] = ()
) -> Callable[[InfoState], Action]:
    """The policy that maximises E[R] - c n under a checker; committing wins ties."""
    family = task.family_ids[0]  # both families have the same texts up to names
    asked = questions(family)[0]
    base = np.array(
        [
            [base_reward(asked, state, asked.answers[d]) for d in task.decision_ids]
            for state in task.state_ids
        ]
    )
    some = dict.fromkeys(task.finding_ids[:1], True)
    stopped = {
        d: expected_reward(given(task, family, some, d), task.state_ids[0], checker, gates) == 0.0
        for d in task.decision_ids
    }

    @cache
    def phis(asked_bits: int, present_bits: int) -> np.ndarray:
        info = InfoState(0, asked_bits, present_bits, 1)
        seen = {task.finding_ids[q]: answer for q, answer in info.seen()}
        return np.array(
            [
                0.0 if stopped[d] else expected_phi(given(task, family, seen, d), checker)
                for d in task.decision_ids
            ]
        )

    @cache
    def best(info: InfoState) -> tuple[float, Action]:
        rewards = posterior(task, info) @ base * phis(info.asked, info.present)
        value, action = float(rewards.max()), Commit(int(rewards.argmax()))
        chosen: Action = action
        chance = predictive(task, info)
        for q in task.informative[info.family] if info.turns_left > 1 else ():
            if not info.knows(q):
                p = float(chance[q])
                present, absent = best(info.see(q, True))[0], best(info.see(q, False))[0]
                worth = p * present + (1 - p) * absent - task.question_cost
                if worth > value + TOLERANCE:
                    value, chosen = worth, Ask(q)
        return value, chosen

    return lambda info: best(info)[1]
