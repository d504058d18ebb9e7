"""Episodes of `ClinicalRubric-v0` as rows for the reward audit, one dictionary a line.

An episode gives one `judgment` row an item of its state's rubric (the training verdict, the votes
of a panel of strict verifiers, the leniency that a verdict is owed to) and one `reward` row
(`R_proxy`, with `R_ref` as `reference`). Prompts are cases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np

from clinical_envs.episode import AskTurn, Episode
from clinical_envs.errors import InvalidArgument
from clinical_envs.rubric.criteria import Answer
from clinical_envs.rubric.grading import JUDGES, r_proxy, r_ref
from clinical_envs.rubric.training_rewards import answered
from clinical_envs.rubric.verifiers import Leniency, judge_rubric, panel_votes
from clinical_envs.rubric.world import Message
from clinical_envs.task import Task

Row = dict[str, Any]


def log_rows(
    task: Task,
    episodes: Iterable[Episode],
    leniencies: Collection[Leniency],
    generator: np.random.Generator,
    *,
    step: int,
    verifier: str = "verifier",
    flip_probability: float = 0.02,
) -> Iterator[Row]:
    """The rows of one checkpoint, one episode a case.

    An episode without an answer is judged on no claims at all.

    Raises:
        InvalidArgument: a second episode of a case, or one without its case or state.
        InvalidEpisode: a recorded text is not the recorded decision.
    """
    seen: set[str] = set()
    for episode in episodes:
        asked, claims = answered(task, episode)
        prompt = str(episode.case_id)
        if prompt in seen or episode.state is None:
            raise InvalidArgument(
                f"case {prompt} at step {step}: judgments need the state, and one episode a case"
            )
        seen.add(prompt)
        key: Row = {"step": step, "prompt": prompt}
        said: Answer = claims or ()
        votes = panel_votes(
            asked.rubrics[episode.state],
            said,
            generator,
            flip_probability=flip_probability,
            judges=JUDGES,
        )
        for judgment in _judgments(asked, episode.state, said, leniencies, votes):
            yield key | judgment | {"verifier": verifier}
        yield key | {
            "kind": "reward",
            "rollout": 0 if episode.rollout is None else episode.rollout,
            "reward": r_proxy(asked, episode.state, said, leniencies),
            "reference": r_ref(asked, episode.state, said),
            "claims": len(said),
            "length": len(asked.render(said)),
            "searches": sum(isinstance(turn, AskTurn) for turn in episode.turns),
        }


def _judgments(
    asked: Message,
    state: str,
    claims: Answer,
    leniencies: Collection[Leniency],
    votes: tuple[tuple[bool, ...], ...],
) -> Iterator[Row]:
    rubric = asked.rubrics[state]
    verdicts = judge_rubric(rubric, claims, leniencies)
    for item, verdict, panel in zip(rubric, verdicts, votes, strict=True):
        yield {
            "kind": "judgment",
            "criterion": item.name,
            "weight": item.weight,
            "training": verdict.met,
            "panel": list(panel),
            "demand": asked.demands[item.name],
            "cause": verdict.owed_to,
        }
