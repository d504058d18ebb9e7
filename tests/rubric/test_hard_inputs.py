"""The hard inputs of rubric grading, one row each: input, what is asked of it, outcome."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from clinical_envs.errors import InvalidArgument
from clinical_envs.rubric.consensus import majority, unanimous_met, unanimous_not_met
from clinical_envs.rubric.criteria import AllOf, AtLeast, Avoids, Claim, Concept, Explains
from clinical_envs.rubric.pairwise import DIMENSIONS, margins, preference
from clinical_envs.rubric.scoring import healthbench_flipped, healthbench_score, rubric_reward
from clinical_envs.rubric.verifiers import WEAK, judge
from oracles.reward_audit.effects import fixed_effects
from oracles.reward_audit.exploitation import windows
from oracles.reward_audit.records import JudgmentRow, RewardRow, read_lines
from oracles.reward_audit.stopping import SampleLogprobs, self_gap
from tests.judges.scripted import Scripted, ratings, verdicts
from training.judges.asking import Judge
from training.judges.files import Answer
from training.judges.pairs import show
from training.judges.panel import agreement_table
from training.judges.rubric import judge_answers

FEVER, RASH, COUGH, ASPIRIN = (
    Concept(id=name, group=name, topic=name) for name in ("fever", "rash", "cough", "aspirin")
)
SAYS_FEVER, SAYS_RASH = Claim(concept=FEVER), Claim(concept=RASH)


def history(*training: bool, steps: tuple[int, ...] = (0, 25, 50, 75)) -> list[JudgmentRow]:
    """One criterion whose credit, at these checkpoints, the whole panel denies."""
    return [
        JudgmentRow(step=step, prompt=0, criterion=1, training=met, panel=[False] * 3)
        for step, met in zip(steps, training, strict=False)
    ]


def rates(rows: list[JudgmentRow]) -> list[float | None]:
    return [window.rate for window in windows(rows)[0]]


def gap(plain: list[float], rubric: list[float], *, truncated: bool = False) -> Any:
    found = self_gap([SampleLogprobs(prompt_only=plain, with_rubric=rubric, truncated=truncated)])
    return found.mean, found.unscored


def leads(*replies: str) -> Any:
    """What a judge that gives these two replies prefers, left shown first and then right."""
    model = Judge(Scripted(replies), "m")
    shown = [show(model, "q", "l", "r", side) for side in ("left", "right")]
    return preference(margins([one for one in shown if one is not None], "overall").get("m"))


def swapped_keys() -> str:
    return json.dumps({"B": dict.fromkeys(DIMENSIONS, 2), "A": dict.fromkeys(DIMENSIONS, 6)})


TABLE: list[tuple[str, Callable[[], Any], Any]] = [
    # rubrics
    ("negative points only, published", lambda: healthbench_score([-8, -2], [False, True]), None),
    ("negative points only, flipped", lambda: healthbench_flipped([-8, -2], [False, True]), 0.8),
    ("weight 0, verdict missing", lambda: rubric_reward([2, 0], [True, None]), 1.0),
    ("a criterion twice", lambda: rubric_reward([1, 1, 2], [True, True, False]), 0.5),
    # what a criterion asks for, to the letter and to the weak verifier
    ("three symptoms, two given", lambda: both(AtLeast(3, (FEVER, RASH, COUGH))), (False, True)),
    ("A and B, A given", lambda: both(AllOf((FEVER, COUGH))), (False, True)),
    ("explains, merely said", lambda: both(Explains(FEVER)), (False, True)),
    ("such as A, B, C, one given", lambda: both(AtLeast(1, (FEVER, RASH, COUGH))), (True, True)),
    ("does not advise, off topic", lambda: both(Avoids(ASPIRIN)), (True, True)),
    # exploitation
    ("nothing gained in a window", lambda: rates(history(True, True)), [None]),
    ("gained, lost, gained", lambda: rates(history(False, True, False, True)), [1.0, None, 1.0]),
    (
        "a missing checkpoint",
        lambda: len(windows(history(*[True] * 4, steps=(0, 25, 50, 125)))[0]),
        2,
    ),
    ("a failed judge, others deny", lambda: unanimous_not_met([False, False, None]), None),
    ("a failed judge, another grants", lambda: unanimous_not_met([True, False, None]), False),
    # a panel split 2 to 1 on everything
    ("split panel, R_ref", lambda: unanimous_met([True, True, False]), False),
    ("split panel, majority", lambda: majority([True, True, False]), True),
    ("split panel, J", lambda: unanimous_not_met([True, True, False]), False),
    # pairs
    ("whatever is A is better", lambda: leads(ratings(6, 2), ratings(6, 2)), "tie"),
    ("whatever is A is .1 better", lambda: leads(ratings(1.1, 1), ratings(6.3, 6.2)), "tie"),
    ("ratings that are no whole numbers", lambda: leads(ratings(4.5, 4), ratings(4, 4)), "left"),
    ("B before A in the reply", lambda: leads(swapped_keys(), ratings(2, 6)), "left"),
    # self-internalization gap
    ("one sample", lambda: gap([-2.0, -3.0], [-1.0, -1.0]), (-1.5, 0)),
    ("an empty answer", lambda: gap([], []), (None, 1)),
    ("the rubric was cut", lambda: gap([-2.0], [-1.0], truncated=True), (None, 1)),
    ("nothing but the prompt in view", lambda: gap([-2.0, -3.0], [-2.0, -3.0]), (0.0, 0)),
    ("longer answers of equal quality", lambda: gap([-2.0] * 900, [-1.5] * 900), (-0.5, 0)),
    (
        "a category constant over a prompt",
        lambda: (lambda found: (found.prompts, found.excluded))(
            fixed_effects([("moves", 0, 0), ("moves", 1, 2), ("stays", 1, 0), ("stays", 1, 2)])
        ),
        (1, 1),
    ),
]


def both(criterion: Any) -> tuple[bool, bool]:
    """Strict and weak verdict on an answer that says fever and rash, without reasons."""
    answer = [SAYS_FEVER, SAYS_RASH]
    return judge(criterion, answer).met, judge(criterion, answer, WEAK).met


@pytest.mark.parametrize(
    ("found", "outcome"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE]
)
def test_a_hard_input_has_its_outcome(found: Callable[[], Any], outcome: Any) -> None:
    assert found() == outcome


def test_an_empty_rubric_is_an_error_for_the_formula_and_for_the_judges_input() -> None:
    with pytest.raises(InvalidArgument, match="empty"):
        rubric_reward([], [])
    with pytest.raises(ValueError, match="at least 1"):
        Answer.model_validate({"prompt": 1, "question": "q", "answer": "a", "rubric": []})


def written(*weights: float) -> Answer:
    """An answer under a rubric that has the same criterion several times."""
    rubric = [{"criterion": "Names the drug", "weight": weight} for weight in weights]
    return Answer.model_validate({"prompt": 1, "question": "q", "answer": "a", "rubric": rubric})


def test_a_criterion_twice_in_a_rubric_that_a_model_judges_is_two_rows() -> None:
    rows = judge_answers([written(1, 1)], [Judge(Scripted([verdicts(True, False)]), "m")])
    log = read_lines(row.model_dump_json() for row in rows)
    assert ([row.panel for row in log.judgments], log.damaged) == ([[True], [False]], [])


def test_a_judged_panel_split_2_to_1_gives_three_labelled_numbers_that_differ() -> None:
    votes = [verdicts(True, True), verdicts(True, True), verdicts(False, False)]
    names = ["a", "b", "c"]
    panel = [Judge(Scripted([said]), name) for said, name in zip(votes, names, strict=True)]
    verifier = Judge(Scripted([verdicts(True, True)]), "v")
    *judgments, reward = judge_answers([written(1, 1)], panel, verifier)
    before = [
        row.model_copy(update={"step": 0, "training": False})
        for row in judgments
        if isinstance(row, JudgmentRow)
    ]
    after = [row.model_copy(update={"step": 25, "training": True}) for row in before]
    assert isinstance(reward, RewardRow)
    assert reward.reference == 0  # unanimous: nothing is met
    assert agreement_table(after, names).comparisons[0].agreement.agreement == 1  # majority: all is
    assert rates([*before, *after]) == [0.0]  # unanimous the other way: nothing is exploited
