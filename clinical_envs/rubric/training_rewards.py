"""The training reward of a rubric-graded answer: `R_proxy` of what the policy said.

`proxy_utilities` is the same by state and decision: put into the task in place of its utilities,
the exact oracle of the copy is the policy that this verifier trains.
"""

from __future__ import annotations

from collections.abc import Collection

from clinical_envs.episode import Episode
from clinical_envs.errors import InvalidArgument
from clinical_envs.rubric.criteria import Answer
from clinical_envs.rubric.dialogue import answer_claims
from clinical_envs.rubric.grading import r_proxy, r_ref
from clinical_envs.rubric.verifiers import Leniency
from clinical_envs.rubric.world import Message, message, messages
from clinical_envs.task import Task


def answered(task: Task, episode: Episode) -> tuple[Message, Answer | None]:
    """The message of an episode and the claims of its answer, None if it ended without one.

    Raises:
        InvalidArgument: the episode names no case, so its message is unknown.
        InvalidEpisode: the recorded text is not the recorded decision.
    """
    if episode.case is None:
        raise InvalidArgument("the episode names no case, so its message is unknown; record it")
    case = episode.case
    asked = message(episode.family, f"{task.key}/{case.split}/{case.seed}/{case.index}")
    return asked, answer_claims(asked, episode)


def episode_proxy(task: Task, episode: Episode, leniencies: Collection[Leniency]) -> float | None:
    """`R_proxy` of an episode; 0 without an answer, unscored without its state.

    Raises:
        InvalidArgument: the episode names no case.
        InvalidEpisode: the recorded text is not the recorded decision.
    """
    asked, claims = answered(task, episode)
    if claims is None:
        return 0.0
    return None if episode.state is None else r_proxy(asked, episode.state, claims, leniencies)


def episode_reference(task: Task, episode: Episode) -> float | None:
    """`R_ref` of an episode, of the claims themselves; else as `episode_proxy`."""
    asked, claims = answered(task, episode)
    if claims is None:
        return 0.0
    return None if episode.state is None else r_ref(asked, episode.state, claims)


def proxy_utilities(task: Task, leniencies: Collection[Leniency]) -> dict[str, tuple[float, ...]]:
    """`R_proxy` of the canonical answers: a row a state, one number a decision.

    Families share their rubrics up to names, so one message stands for all.
    """
    asked = messages(task.family_ids[0])[0]
    return {
        state: tuple(
            r_proxy(asked, state, asked.answers[decision], leniencies)
            for decision in task.decision_ids
        )
        for state in task.state_ids
    }
