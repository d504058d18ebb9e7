"""Encounters of the two fact-checking worlds, and the exact optimum of their training reward."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from clinical_envs.belief import InfoState, posterior, predictive
from clinical_envs.case import Case
from clinical_envs.catalog import load_task
from clinical_envs.factcheck.dialogue import FactCheckDialogue, LabelDialogue
from clinical_envs.simulator import Ask, Commit, Encounter
from clinical_envs.task import FloatArray, Task

REPORT_WORLD, LABEL_WORLD = load_task("factcheck"), load_task("factcheck_label")
WORLDS = {"factcheck": FactCheckDialogue, "factcheck_label": LabelDialogue}
BODIES = REPORT_WORLD.finding_ids


def case(
    task: Task,
    *,
    index: int = 0,
    family: int = 0,
    state: int = 0,
    leans: tuple[bool, ...] = (True,) * 8,
    revealed: tuple[int, ...] = (),
) -> Case:
    return Case(
        task=task.key,
        split="train",
        seed=5,
        index=index,
        family=family,
        state=state,
        answers=leans,
        revealed=revealed,
    )


def dialogue(task: Task, this: Case | None = None) -> LabelDialogue:
    return WORLDS[task.name](Encounter(task, this or case(task)))


Reward = Callable[[Task, InfoState, int], FloatArray]
TOLERANCE = 1e-12


def optimum(task: Task, reward: Reward) -> Callable[[InfoState], tuple[float, Ask | Commit]]:
    """Value and action of the policy that maximises E[reward of the commit] - c n.

    Plain backward induction; reward gives one number a state, (S,). Commits win ties, then the
    order of the file.
    """

    @cache
    def best(info: InfoState) -> tuple[float, Ask | Commit]:
        belief = posterior(task, info)
        worth = [float(belief @ reward(task, info, a)) for a in range(len(task.decisions))]
        value = max(worth)
        action: Ask | Commit = Commit(next(a for a, w in enumerate(worth) if w > value - TOLERANCE))
        if info.turns_left > 1:
            chance = predictive(task, info)
            for q in task.informative[info.family]:
                if not info.knows(q):
                    yes, no = best(info.see(q, True))[0], best(info.see(q, False))[0]
                    asked = chance[q] * yes + (1.0 - chance[q]) * no - task.question_cost
                    if asked > value + TOLERANCE:
                        value, action = float(asked), Ask(q)
        return value, action

    return best
