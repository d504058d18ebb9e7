"""Teachers for the supervised warmup: the oracle, and an imperfect one with a known shape.

The imperfect teacher, with n asks made so far and beliefs b:

    P(stop) = hazard[n]                         the last entry holds for every later n
    P(ask q) ∝ exp(sharpness · score(q))        score falls from 1 to 0 along a common-sense order
    P(commit a) ∝ exp(beta · E_b[U(a)] + beta · bias[a])

where E_b uses the evidence tempered by an exponent, so that it can be over- or under-confident.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from clinical_envs.belief import InfoState, path_weights
from clinical_envs.episode import Episode
from clinical_envs.errors import InvalidArgument
from clinical_envs.simulator import Action, Ask, Commit
from clinical_envs.task import FloatArray, Task
from clinical_envs.task_parts import ChecklistAsk, ChecklistNode
from oracles.assessment import Assessment
from oracles.clinical import ClinicalWorld
from oracles.evaluation import evaluate
from oracles.policy import View


@dataclass(frozen=True, slots=True, kw_only=True)
class TeacherShape:
    """Settings of the imperfect teacher, as in the formula above."""

    hazard: tuple[float, ...]
    sharpness: float
    inverse_temperature: float
    bias: tuple[float, ...]
    evidence_exponent: float = 1.0


@dataclass(frozen=True, slots=True)
class NoisyTeacher:
    """The imperfect teacher as a policy."""

    task: Task
    shape: TeacherShape
    name: str = "noisy_teacher"
    deterministic: bool = False

    def __post_init__(self) -> None:
        if len(self.shape.bias) != len(self.task.decisions):
            raise InvalidArgument(
                f"teacher.bias has {len(self.shape.bias)} numbers for {len(self.task.decisions)} "
                f"decisions of {self.task.name}; give one a decision"
            )

    def act(self, view: View, rng: np.random.Generator, *, greedy: bool = False) -> Action | str:
        """A drawn action; greedy play is the same, as the teacher is a distribution."""
        info, hazard = view.info, self.shape.hazard
        asked = info.asked.bit_count()
        unseen = [q for q in _order(self.task, info.family) if not info.knows(q)]
        last = info.turns_left <= 1 or not unseen
        if last or rng.random() < hazard[min(asked, len(hazard) - 1)]:
            return Commit(int(rng.choice(len(self.task.decisions), p=self._commit(info))))
        order = _order(self.task, info.family)
        score = np.array([1.0 - order.index(q) / max(1, len(order) - 1) for q in unseen])
        return Ask(unseen[int(rng.choice(len(unseen), p=_softmax(self.shape.sharpness * score)))])

    def _commit(self, info: InfoState) -> FloatArray:
        evidence = path_weights(self.task, info) / self.task.prior
        weights = self.task.prior * evidence**self.shape.evidence_exponent
        utility = weights / weights.sum() @ self.task.utility_matrix
        return _softmax(self.shape.inverse_temperature * (utility + np.array(self.shape.bias)))


def teacher_episodes(
    world: ClinicalWorld, shape: TeacherShape | None, *, seed: int = 0
) -> list[Episode]:
    """One episode a case of the `sft` set: of the oracle, or of the imperfect teacher."""
    policy = world.policy("oracle") if shape is None else NoisyTeacher(world.task, shape)
    return evaluate(world, policy, world.cases("sft"), k=1, seed=seed)


def biased(
    world: ClinicalWorld, episodes: Iterable[Episode], keep: float, *, seed: int = 0
) -> list[Episode]:
    """Keep a share of the high-risk episodes; the total stays, by repeating others at random.

    High-risk: the state is in the high-risk group, or the commit is a high-acuity decision.
    """
    rows = [world.assess(episode) for episode in episodes]
    rng = np.random.default_rng(seed)
    high = [row for row in rows if _high_risk(world, row)]
    others = [row.episode for row in rows if not _high_risk(world, row)]
    if not others:
        raise InvalidArgument("every episode is high-risk; there is nothing to repeat")
    kept = [high[i].episode for i in rng.permutation(len(high))[: round(keep * len(high))]]
    missing = len(rows) - len(kept) - len(others)
    repeated = [others[int(i)] for i in rng.integers(len(others), size=missing)]
    return [*kept, *others, *repeated]


def _high_risk(world: ClinicalWorld, row: Assessment) -> bool:
    return row.group == world.high_risk_group or bool(row.high_acuity)


def _order(task: Task, family: int) -> list[int]:
    """The checklist's findings, breadth first, then the other informative ones in file order."""
    informative = list(task.informative[family])
    level: list[ChecklistNode] = [task.checklist[task.family_ids[family]]] if task.checklist else []
    order: list[int] = []
    while level:
        forks = [node for node in level if isinstance(node, ChecklistAsk)]
        order += [q for fork in forks if (q := task.finding(fork.ask)) not in order]
        level = [child for fork in forks for child in (fork.yes, fork.no)]
    known = [q for q in dict.fromkeys(order) if q in informative]
    return known + [q for q in informative if q not in known]


def _softmax(logits: FloatArray) -> FloatArray:
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())
