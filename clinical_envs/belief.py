"""The information state, and what it says about the hidden state.

    b(s) ∝ P(s) · Π over findings seen of P(answer | s, f)

An information state is the family, the set of findings seen with their answers, and the turns
left. It is all a policy may depend on, and the key of the belief and of the oracle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from clinical_envs.errors import InvalidArgument
from clinical_envs.task import FloatArray, Task


class InfoState(NamedTuple):
    """What is known and how many turns are left.

    asked, present: bit q is set where finding q was seen, and where it was present. Bits follow
    the order of the findings in the task; `present` is a subset of `asked`.
    """

    family: int
    asked: int
    present: int
    turns_left: int

    def knows(self, finding: int) -> bool:
        """Whether the finding was seen."""
        return bool(self.asked >> finding & 1)

    def answer(self, finding: int) -> bool:
        """The answer to a finding seen."""
        return bool(self.present >> finding & 1)

    def see(self, finding: int, present: bool, *, turns: int = 1) -> InfoState:
        """The state after an answer that took so many turns."""
        bit = 1 << finding
        return InfoState(
            self.family,
            self.asked | bit,
            self.present | bit if present else self.present & ~bit,
            self.turns_left - turns,
        )

    def waste(self) -> InfoState:
        """The state after a turn that revealed nothing."""
        return self._replace(turns_left=self.turns_left - 1)

    def seen(self) -> Iterator[tuple[int, bool]]:
        """Findings seen with their answers, in file order."""
        asked = self.asked
        while asked:
            finding = (asked & -asked).bit_length() - 1
            yield finding, self.answer(finding)
            asked &= asked - 1


def initial_state(task: Task, family: int, initial: Iterable[tuple[int, bool]] = ()) -> InfoState:
    """The information state before the first turn."""
    info = InfoState(family, 0, 0, task.turn_cap)
    for finding, present in initial:
        info = info.see(finding, present, turns=0)
    return info


def info_state(
    task: Task, family: str, seen: Mapping[str, bool] | None = None, turns_left: int | None = None
) -> InfoState:
    """An information state from names; `turns_left` is the task's cap less the findings seen.

    Raises:
        InvalidArgument: an unknown family or finding, an answer that is not True or False, or no
            turns that fit.
    """
    if family not in task.family_ids:
        known = ", ".join(task.family_ids)
        raise InvalidArgument(f"no family {family!r} in {task.name}; known: {known}")
    answers = [(task.finding(name), present) for name, present in (seen or {}).items()]
    for finding, present in answers:
        if not isinstance(present, bool | np.bool_):
            name = task.finding_ids[finding]
            raise InvalidArgument(f"the answer to {name!r} is {present!r}; give True or False")
    info = initial_state(task, task.family_ids.index(family), answers)
    left = task.turn_cap - len(answers) if turns_left is None else turns_left
    if not 0 <= left <= task.turn_cap:
        raise InvalidArgument(f"turns_left is {left}; {task.name} has 0 to {task.turn_cap}")
    return info._replace(turns_left=left)


def path_weights(task: Task, info: InfoState) -> FloatArray:
    """P(s) · Π P(answer | s, f): the unnormalised posterior, shape (S,)."""
    weights = task.prior.copy()
    likelihood = task.likelihood[info.family]
    for finding, present in info.seen():
        weights *= likelihood[finding] if present else 1.0 - likelihood[finding]
    return weights


def posterior(task: Task, info: InfoState) -> FloatArray:
    """b(s) given the findings seen, shape (S,).

    Raises:
        InvalidArgument: no state of the task can give these answers.

    >>> from clinical_envs import load_task
    >>> task = load_task("diagnostics")
    >>> posterior(task, info_state(task, "chest", {"troponin_raised": True})).round(3).tolist()
    [0.059, 0.662, 0.28]
    """
    weights = path_weights(task, info)
    total = weights.sum()
    if total <= 0.0:
        seen = {task.finding_ids[q]: present for q, present in info.seen()}
        raise InvalidArgument(f"{task.key}: no state can give the answers {seen}")
    return np.asarray(weights / total)


def predictive(task: Task, info: InfoState) -> FloatArray:
    """P(q present | findings seen) for every finding, shape (Q,); 0 or 1 where it was seen."""
    chance = task.likelihood[info.family] @ posterior(task, info)
    for finding, present in info.seen():
        chance[finding] = float(present)
    return np.asarray(chance)


def entropy(belief: FloatArray) -> float:
    """H(b) = - Σ b ln b in nats.

    >>> round(entropy(np.array([0.5, 0.5])), 4)
    0.6931
    """
    positive = belief[belief > 0.0]
    return float(-(positive * np.log(positive)).sum())
