"""Pairwise judging in both orders."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.errors import InvalidArgument
from clinical_envs.rubric.pairwise import (
    DIMENSIONS,
    Showing,
    consensus_preference,
    majority_preference,
    margins,
    preference,
)

rating = st.floats(1, 7)
ratings = st.fixed_dictionaries(dict.fromkeys(DIMENSIONS, rating))
preferences = st.lists(st.sampled_from(["left", "right", "tie", None]), max_size=5)


def showing(judge, first, left, right):
    return Showing(
        judge=judge,
        shown_first=first,
        left=dict.fromkeys(DIMENSIONS, left),
        right=dict.fromkeys(DIMENSIONS, right),
    )


@given(ratings, ratings)
def test_a_judge_of_positions_only_ends_in_a_tie(of_first, of_second):
    shown = [
        Showing(judge="a", shown_first="left", left=of_first, right=of_second),
        Showing(judge="a", shown_first="right", left=of_second, right=of_first),
    ]
    for dimension in DIMENSIONS:
        assert preference(margins(shown, dimension)["a"]) == "tie"


@given(ratings, ratings, ratings, ratings)
def test_exchanging_the_answers_turns_every_margin_round(one, two, three, four):
    shown = [
        Showing(judge="a", shown_first="left", left=one, right=two),
        Showing(judge="a", shown_first="right", left=three, right=four),
    ]
    exchanged = [
        Showing(judge="a", shown_first="right", left=two, right=one),
        Showing(judge="a", shown_first="left", left=four, right=three),
    ]
    for dimension in DIMENSIONS:
        assert margins(shown, dimension)["a"] == -margins(exchanged, dimension)["a"]


def test_a_judge_without_both_orders_is_unscored():
    found = margins([showing("a", "left", 6, 2), showing("a", "left", 5, 2)], "overall")
    assert found == {"a": None}
    assert preference(found["a"]) is None


def test_repeats_of_one_order_do_not_outweigh_the_other():
    shown = [showing("a", "left", 7, 1)] * 3 + [showing("a", "right", 1, 7)]
    assert margins(shown, "overall") == {"a": 0.0}


def test_ratings_may_be_fractions_but_must_lie_from_1_to_7():
    assert margins([showing("a", "left", 4.5, 4), showing("a", "right", 4, 4)], "safety") == {
        "a": 0.25
    }
    for bad in (0.5, 8, math.nan):
        with pytest.raises(InvalidArgument, match="rates completeness"):
            showing("a", "left", bad, 4)


@given(preferences)
def test_a_consensus_is_a_majority(found):
    agreed = consensus_preference(found)
    if agreed is not None:
        assert majority_preference(found) == agreed


def test_three_judges():
    assert majority_preference(["left", "left", "right"]) == "left"
    assert consensus_preference(["left", "left", "right"]) is None
    assert majority_preference(["left", "right", "tie"]) is None
    assert majority_preference(["left", None, "left"]) == "left"
    assert consensus_preference(["left", None, "left"]) is None
