"""One case being played. All rules of a turn live in `Encounter.step`; it draws nothing.

    R = U[s][a] - c · n_charged,   n_charged = asks (repeats included) + invalid turns

Each charged turn pays -c, the commit pays U; a policy that has not committed when the turns are
used up gets the task's no-decision utility on its last turn. The sum of what is paid is R.
"""

from __future__ import annotations

import operator
import reprlib
from typing import NamedTuple, SupportsIndex, assert_never

from clinical_envs.case import Case
from clinical_envs.episode import AskTurn, CaseRef, CommitTurn, Episode, InvalidTurn, Turn
from clinical_envs.errors import EpisodeOver, InvalidAction, InvalidArgument
from clinical_envs.task import Task


class Ask(NamedTuple):
    """Ask for a finding, by position."""

    finding: int


class Commit(NamedTuple):
    """Commit to a decision, by position; ends the episode."""

    decision: int


class Invalid(NamedTuple):
    """A malformed or illegal turn; reveals nothing, costs a question, uses a turn."""

    reason: str


Action = Ask | Commit | Invalid


class Transition(NamedTuple):
    """What one turn gave. answer: of an ask, else None."""

    reward: float
    terminated: bool
    answer: bool | None


class Encounter:
    """One case being played. `info` is all that a policy may know; `start` is where it began."""

    __slots__ = ("_case", "_cost", "_record", "info", "over", "start", "task")

    def __init__(self, task: Task, case: Case) -> None:
        if case.task != task.key:
            raise InvalidArgument(f"a case of {case.task} cannot be played on {task.key}")
        self.task = task
        self.start = self.info = case.start(task)
        self.over = False
        self._case = case
        self._cost = task.question_cost
        self._record: list[Action] = []

    def step(self, action: Action) -> Transition:
        """Play one turn.

        Raises:
            EpisodeOver: the episode has ended.
            InvalidAction: the task has no finding or decision at that position; nothing is charged.
        """
        if self.over:
            raise EpisodeOver("the episode is over; start another with reset()")
        answer = None
        match action:
            case Ask(finding):
                action = Ask(_position("finding", finding, len(self.task.findings)))
                answer = self._case.answers[action.finding]
                self.info = self.info.see(action.finding, answer)
                reward = -self._cost
            case Invalid():
                self.info = self.info.waste()
                reward = -self._cost
            case Commit(decision):
                action = Commit(_position("decision", decision, len(self.task.decisions)))
                self.info = self.info.waste()
                self.over = True
                reward = float(self.task.utility_matrix[self._case.state, action.decision])
            case _:
                assert_never(action)
        self._record.append(action)
        if not self.over and self.info.turns_left == 0:
            self.over = True
            reward += float(self.task.no_decision_utility[self._case.state])
        return Transition(reward, self.over, answer)

    @property
    def identity(self) -> str:
        """Public name of the case: task, split, seed, index. Worlds word their texts from it."""
        case = self._case
        return f"{case.task}/{case.split}/{case.seed}/{case.index}"

    @property
    def actions(self) -> tuple[Action, ...]:
        """The turns so far."""
        return tuple(self._record)

    def turns(self) -> tuple[Turn, ...]:
        """The turns so far, as they are recorded."""
        return tuple(self._turn(action) for action in self._record)

    def episode(
        self,
        *,
        policy: str | None = None,
        rollout: int | None = None,
        raw: tuple[str, ...] | None = None,
        greedy: bool = False,
    ) -> Episode:
        """The finished record; lone surrogates in a text are written as backslash escapes.

        Raises:
            EpisodeOver: the encounter is still running, and its state is still hidden.
        """
        if not self.over:
            raise EpisodeOver("the episode is still running; its record is made at the end")
        task, case = self.task, self._case
        return Episode(
            task=task.key,
            family=task.family_ids[case.family],
            turns=self.turns(),
            case=CaseRef(split=case.split, seed=case.seed, index=case.index, hash=case.hash),
            state=task.state_ids[case.state],
            initial={task.finding_ids[q]: case.answers[q] for q in case.revealed},
            policy=policy,
            rollout=rollout,
            raw=None if raw is None else tuple(map(_encodable, raw)),
            meta={"greedy": True} if greedy else {},
        )

    def _turn(self, action: Action) -> Turn:
        match action:
            case Ask(finding):
                name = self.task.finding_ids[finding]
                return AskTurn.model_construct(ask=name, answer=self._case.answers[finding])
            case Commit(decision):
                return CommitTurn.model_construct(commit=self.task.decision_ids[decision])
            case Invalid(reason):
                return InvalidTurn.model_construct(invalid=_encodable(reason))
            case _:
                assert_never(action)


def _position(kind: str, position: SupportsIndex, n: int) -> int:
    try:
        chosen = operator.index(position)
    except TypeError:
        chosen = -1
    if not 0 <= chosen < n:
        raise InvalidAction(
            f"{kind} is {reprlib.repr(position)}; it is an integer from 0 to {n - 1}, its position "
            "in the task"
        )
    return chosen


def _encodable(text: str) -> str:
    """A lone surrogate has no UTF-8; a record with one could not be written."""
    return text.encode("utf-8", "backslashreplace").decode()
