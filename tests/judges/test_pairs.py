"""Pairwise judging without a rubric: both orders, position bias, preferences, ratings."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.rubric.pairwise import DIMENSIONS, Showing, Side
from tests.judges.scripted import Messages, Scripted, down, ratings
from training.judges.asking import Judge
from training.judges.files import Pair
from training.judges.pairs import (
    judge_pairs,
    mean_ratings,
    pair_question,
    pair_row,
    position_bias,
    show,
    tallies,
)

PAIRS = [
    Pair(prompt=i, question="q", left=f"left {i}", right=f"right {i}", meta={}) for i in range(4)
]


def by_text(worth: Callable[[str], float], first_bonus: float = 0.0) -> Callable[[Messages], str]:
    """A judge that rates answers by their text, and adds something to what stands first."""

    def script(messages: Messages) -> str:
        shown = messages[0]["content"].splitlines()
        a, b = (
            shown[1 + next(i for i, line in enumerate(shown) if line.startswith(f"[answer {x}"))]
            for x in "AB"
        )
        return ratings(worth(a) + first_bonus, worth(b))

    return script


def left_is_better(text: str) -> float:
    return 5.0 if text.startswith("left") else 4.0


def test_ratings_belong_to_answers_in_both_orders() -> None:
    judge = Judge(Scripted(by_text(left_is_better)), "m")
    for side in ("left", "right"):
        shown = show(judge, "q", "left x", "right x", side)
        assert shown is not None
        assert (shown.shown_first, shown.left["overall"], shown.right["overall"]) == (side, 5, 4)


def test_a_judge_of_places_only_ties_everything_and_its_bias_is_what_it_adds() -> None:
    judge = Judge(Scripted(by_text(lambda _: 3.0, first_bonus=2.0)), "m")
    row, *_ = tallies(judge_pairs(PAIRS, [judge]))
    assert (row.left, row.tie, row.right, row.unscored) == (0, 4, 0, 0)
    assert row.bias is not None
    assert row.bias.mean == 2.0


def test_a_judge_of_texts_has_no_bias() -> None:
    row, *_ = tallies(judge_pairs(PAIRS, [Judge(Scripted(by_text(left_is_better)), "m")]))
    assert (row.left, row.bias and row.bias.mean) == (4, 0.0)


@given(*[st.integers(1, 7)] * 4)
def test_bias_and_lead_explain_both_orders(a: int, b: int, c: int, d: int) -> None:
    """Lead when first = lead + bias, lead when second = lead - bias."""

    def showing(first: Side, left: int, right: int) -> Showing:
        return Showing(
            judge="m",
            shown_first=first,
            left=dict.fromkeys(DIMENSIONS, float(left)),
            right=dict.fromkeys(DIMENSIONS, float(right)),
        )

    shown = [showing("left", a, b), showing("right", c, d)]
    bias = position_bias(shown)
    lead = ((a - b) + (c - d)) / 2
    assert bias is not None
    assert (lead + bias, lead - bias) == (a - b, c - d)
    assert position_bias(shown[:1]) is None


def test_a_pair_with_one_order_is_unscored_and_not_a_tie() -> None:
    judge = Judge(Scripted([ratings(6, 2), "A is better", "A", "A"]), "m")
    (judged,) = judge_pairs(PAIRS[:1], [judge], workers=1)
    assert judged.preferences == {"m": None}
    assert (judged.majority, judged.consensus) == (None, None)
    row, majority, consensus = tallies([judged])
    assert (row.unscored, majority.unscored, consensus.unscored) == (1, 1, 1)
    assert row.bias is not None
    assert (row.bias.mean, row.bias.unscored) == (None, 1)
    assert mean_ratings([judged])["overall"][0].mean is None


def test_majority_and_consensus_of_three_judges() -> None:
    def judge(name: str, worth: Callable[[str], float]) -> Judge:
        return Judge(Scripted(by_text(worth)), name)

    panel = [
        judge("a", left_is_better),
        judge("b", left_is_better),
        judge("c", lambda text: 4.0 if text.startswith("left 0") else left_is_better(text)),
    ]
    judged = judge_pairs(PAIRS, panel)
    *_, c, majority, consensus = tallies(judged)
    assert (c.left, c.tie) == (3, 1)
    assert (majority.left, majority.unscored) == (4, 0)
    assert (consensus.left, consensus.unscored) == (3, 1)
    assert majority.bias is None


def test_means_are_over_pairs_and_a_failed_judge_leaves_the_others() -> None:
    good = Judge(Scripted(by_text(left_is_better)), "a")
    bad = Judge(Scripted(lambda _: down()), "b")
    judged = judge_pairs(PAIRS[:2], [good, bad])
    left, right = mean_ratings(judged)["safety"]
    assert (left.mean, right.mean, left.scored, left.unscored) == (5.0, 4.0, 2, 0)
    assert [one.preferences["b"] for one in judged] == [None, None]


def test_the_line_of_a_pair_holds_preferences_and_every_rating() -> None:
    (judged,) = judge_pairs(PAIRS[:1], [Judge(Scripted(by_text(left_is_better)), "m")])
    row = json.loads(pair_row(judged))
    assert row["prompt"] == 0
    assert row["preferences"] == {"m": "left"}
    assert {one["shown_first"] for one in row["showings"]} == {"left", "right"}
    assert row["showings"][0]["left"]["overall"] == 5.0


def test_a_pair_is_quoted_and_its_form_can_be_read() -> None:
    asked = pair_question("q", "first", "second")
    assert asked.index("first") < asked.index("second")
    form = json.loads(asked.split("```json\n")[1].split("\n```")[0])
    assert set(form) == {"A", "B"}
    assert set(form["A"]) == set(DIMENSIONS)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_every_dimension_is_explained(dimension: str) -> None:
    assert f"- {dimension}:" in pair_question("q", "a", "b")
