"""The training reward of checked question answering: `R = r_base * phi`, exact or drawn.

`r_base = 0.585 + 0.03 F1` stands for a similarity score as flat as the published one, on which
healthy and degenerate policies differ by 0.009 (.600 and .591, arXiv 2605.25988). Phi comes from
a training checker that reads the answer's claims against the passages the policy found:

- a `Confusion` turns what those passages say (the rule checker's label) into a verdict by its
  row, or by `off_form` for a fragment (one claim) and for another language
- a `Checker` (rules, classifier) is asked itself

With no passage found every claim is unchecked and phi is `phi_min`, whatever the checker: writing
from memory earns no more than silence. Search costs are the environment's and come on top. An
episode that ends without an answer earns 0.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clinical_envs.checkedqa.cascade import (
    FEW_CLAIMS,
    Behaviour,
    Stage,
    admissible,
    foreign_share,
)
from clinical_envs.checkedqa.checkers import LABELS, NO_EVIDENCE, Checker, Label, check_claims
from clinical_envs.checkedqa.claims import claims
from clinical_envs.checkedqa.dialogue import answer_text
from clinical_envs.checkedqa.measure import rule_labels
from clinical_envs.checkedqa.rewards import Phi, checked_reward, token_f1
from clinical_envs.checkedqa.simulated import Confusion
from clinical_envs.checkedqa.world import Question, is_foreign, question
from clinical_envs.episode import AskTurn, Episode
from clinical_envs.errors import InvalidArgument
from clinical_envs.task import Task

BASE_FLOOR, BASE_SLOPE = 0.585, 0.03

TrainingChecker = Confusion | Checker


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer with all that its training reward depends on.

    decision: what the answer is classified as. passages: the texts found, in the task's order,
    each once. searches: with repeats.
    """

    question: Question
    answer: str
    decision: str
    passages: tuple[str, ...]
    searches: int

    @property
    def claims(self) -> tuple[str, ...]:
        """The answer's claims."""
        return claims(self.answer)

    @property
    def off_form(self) -> bool:
        """Whether the answer is a fragment or in another language."""
        return len(self.claims) <= FEW_CLAIMS or is_foreign(self.question.text, self.answer)

    def behaviour(self, reward: float) -> Behaviour:
        """The answer as a step of one."""
        number = (len(self.claims), len(self.answer), self.searches)
        share = foreign_share(self.question.text, self.answer)
        entries = (np.array([value], dtype=np.float64) for value in (*number, share, reward))
        of_claims, length, searches, foreign, of_reward = entries
        return Behaviour(
            claims=of_claims,
            length=length,
            searches=searches,
            foreign_share=foreign,
            reward=of_reward,
        )


def answered(task: Task, episode: Episode) -> Answered | None:
    """The answer of an episode and the passages it found; None if it ended without an answer.

    Raises:
        InvalidArgument: the episode names no case, so its texts cannot be worded.
        InvalidEpisode: the recorded text is not the recorded decision.
    """
    if episode.case is None:
        raise InvalidArgument("the episode names no case, so its question is unknown; record it")
    case = episode.case
    asked = question(episode.family, f"{task.key}/{case.split}/{case.seed}/{case.index}")
    answer = answer_text(asked, episode)
    if answer is None:
        return None
    searches = [turn for turn in episode.turns if isinstance(turn, AskTurn)]
    seen = episode.initial | {turn.ask: turn.answer for turn in searches}
    return Answered(
        question=asked,
        answer=answer,
        decision=asked.classify(answer),
        passages=found(asked, seen),
        searches=len(searches),
    )


def found(asked: Question, seen: dict[str, bool]) -> tuple[str, ...]:
    """The texts of the passages seen, in the task's order."""
    return tuple(
        passage.text(seen[finding])
        for finding, passage in asked.passages.items()
        if finding in seen
    )


def base_reward(asked: Question, state: str, answer: str) -> float:
    """`0.585 + 0.03 F1` against the gold answer of the state."""
    return BASE_FLOOR + BASE_SLOPE * token_f1(answer, asked.gold[state])


def verdict_rows(given: Answered, checker: Confusion) -> NDArray[np.float64]:
    """P(verdict) of each claim, shape (claims, 3): the checker's row for what the passages say."""
    if not given.passages:
        return np.tile(np.array(NO_EVIDENCE.probs), (len(given.claims), 1))
    if given.off_form:
        return np.tile(np.array(checker.off_form), (len(given.claims), 1))
    truth = [LABELS.index(label) for label in rule_labels(given.claims, given.passages)]
    return np.array(checker.rows)[truth].reshape(len(truth), len(LABELS))


def expected_phi(
    given: Answered, checker: TrainingChecker, form: Phi | None = None
) -> float | None:
    """E[phi], over the verdicts of independent claims; unscored if the checker fails.

    The clip makes phi no function of expected shares, so the joint distribution of the numbers
    of supported and contradicted claims is built up claim by claim.
    """
    form = form or Phi()
    if not isinstance(checker, Confusion):
        return form.of_checks(check_claims(checker, given.claims, given.passages))
    rows = verdict_rows(given, checker)
    n = len(rows)
    if not n:
        return form.phi_min
    joint = np.zeros((n + 1, n + 1))  # supported, contradicted
    joint[0, 0] = 1.0
    for entail, neutral, contradict in rows:
        grown = neutral * joint
        grown[1:] += entail * joint[:-1]
        grown[:, 1:] += contradict * joint[:, :-1]
        joint = grown
    support, against = np.indices(joint.shape) / n
    return float((joint * form.of_shares(support, 1 - support - against, against)).sum())


def expected_reward(
    given: Answered,
    state: str,
    checker: TrainingChecker,
    gates: Collection[Stage] = (),
) -> float | None:
    """E[r_base phi] under a state, 0 where a counter-measure stops the answer."""
    reward = checked_reward(
        base_reward(given.question, state, given.answer), expected_phi(given, checker)
    )
    if reward is None:
        return None
    return reward if admissible(given.behaviour(reward), gates).all() else 0.0


def episode_reward(
    task: Task, episode: Episode, checker: TrainingChecker, gates: Collection[Stage] = ()
) -> float | None:
    """The expected training reward of an episode; unscored where the state is not recorded.

    Raises:
        InvalidArgument: the episode names no case.
        InvalidEpisode: the recorded text is not the recorded decision.
    """
    given = answered(task, episode)
    if given is None:
        return 0.0
    return None if episode.state is None else expected_reward(given, episode.state, checker, gates)


def draw_verdicts(
    given: Answered, checker: TrainingChecker, generator: np.random.Generator
) -> Sequence[Label | None]:
    """One verdict a claim: drawn from a `Confusion`, or the checker's own; None if it failed."""
    if not isinstance(checker, Confusion):
        checks = check_claims(checker, given.claims, given.passages)
        return [None if check is None else check.label for check in checks]
    steps = verdict_rows(given, checker).cumsum(axis=1)[:, :-1]
    drawn = (generator.random((len(steps), 1)) >= steps).sum(axis=1)
    return [LABELS[int(verdict)] for verdict in drawn]
