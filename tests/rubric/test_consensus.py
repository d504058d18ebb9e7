"""The three consensus rules, and what a failed judge does to them."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.errors import InvalidArgument
from clinical_envs.rubric.consensus import majority, unanimous_met, unanimous_not_met
from clinical_envs.rubric.scoring import rubric_reward

RULES = (unanimous_met, majority, unanimous_not_met)
votes = st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=5)


def completions(panel):
    options = [(True, False) if vote is None else (vote,) for vote in panel]
    return [list(filled) for filled in product(*options)]


@given(votes)
def test_a_verdict_is_stated_only_if_every_completion_of_failed_votes_gives_it(panel):
    for rule in RULES:
        outcomes = {rule(filled) for filled in completions(panel)}
        assert rule(panel) == (outcomes.pop() if len(outcomes) == 1 else None)


@given(votes)
def test_the_rules_are_ordered(panel):
    if unanimous_met(panel):
        assert majority(panel) is True
    if unanimous_not_met(panel):
        assert majority(panel) is False
        assert unanimous_met(panel) is False


@given(votes, st.randoms())
def test_the_order_of_judges_does_not_matter(panel, shuffler):
    shuffled = list(panel)
    shuffler.shuffle(shuffled)
    for rule in RULES:
        assert rule(shuffled) == rule(panel)


def test_a_panel_split_2_to_1_on_everything_gives_three_different_numbers():
    panels = [[True, True, False]] * 4
    weights = [1.0] * 4
    reference = rubric_reward(weights, [unanimous_met(panel) for panel in panels])
    selected = rubric_reward(weights, [majority(panel) for panel in panels])
    denied = sum(bool(unanimous_not_met(panel)) for panel in panels)
    assert (reference, selected, denied) == (0.0, 1.0, 0)


def test_one_failed_judge_of_three():
    assert [rule([True, True, None]) for rule in RULES] == [None, True, False]
    assert [rule([False, False, None]) for rule in RULES] == [False, False, None]
    assert [rule([True, False, None]) for rule in RULES] == [False, None, False]


def test_an_even_split_has_no_majority():
    assert majority([True, False]) is None


def test_a_panel_without_judges_is_refused():
    for rule in RULES:
        with pytest.raises(InvalidArgument, match="no judges"):
            rule([])
