"""The stages of the cascade, their remedies, and the language gate."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.checkedqa.cascade import (
    Behaviour,
    Stage,
    admissible,
    foreign_share,
    search_rate,
    stages,
)
from clinical_envs.errors import InvalidArgument


def batch(*, claims=4, length=100, searches=2, foreign=0.0, reward=0.5, answers=20):
    values = (claims, length, searches, foreign, reward)
    columns = (np.full(answers, value, dtype=float) for value in values)
    names = ("claims", "length", "searches", "foreign_share", "reward")
    return Behaviour(**dict(zip(names, columns, strict=True)))


BASE = batch()


def test_unchanged_behaviour_reaches_no_stage():
    assert stages(BASE, BASE) == frozenset()


@pytest.mark.parametrize(
    ("change", "stage"),
    [
        ({"claims": 1}, Stage.ULTRA_SHORT),
        ({"length": 24}, Stage.ULTRA_SHORT),
        ({"searches": 0, "reward": 0.6}, Stage.SEARCH_AVOIDANCE),
        ({"foreign": 0.3}, Stage.LANGUAGE_SWITCH),
    ],
)
def test_each_shortcut_reaches_its_stage_alone_and_its_remedy_alone_stops_it(change, stage):
    now = batch(**change)
    assert stages(now, BASE) == {stage}
    for gate in Stage:
        stopped = change != {"length": 24} and gate is stage
        assert admissible(now, [gate]).any() != stopped


@pytest.mark.parametrize(
    "change",
    [{"claims": 2}, {"length": 25}, {"searches": 0, "reward": 0.5}, {"foreign": 0.19}],
)
def test_the_thresholds_are_open_on_the_healthy_side(change):
    assert stages(batch(**change), BASE) == frozenset()


def test_a_policy_that_never_searched_has_not_learnt_to_avoid_it():
    never = batch(searches=0)
    assert stages(batch(searches=0, reward=0.9), never) == frozenset()


def test_unrecorded_behaviour_reaches_no_stage_and_unscored_rewards_are_left_out():
    unknown = batch(claims=np.nan, length=np.nan, searches=np.nan, foreign=np.nan, reward=np.nan)
    assert stages(unknown, unknown) == frozenset()
    assert np.isnan(search_rate(unknown))
    half = np.where(np.arange(20) % 2 == 0, np.nan, 0.6)
    assert stages(replace(batch(searches=0), reward=half), BASE) == {Stage.SEARCH_AVOIDANCE}


@given(st.lists(st.integers(0, 5), min_size=1, max_size=10), st.sets(st.sampled_from(Stage)))
def test_another_remedy_never_admits_more(counts, gates):
    claims = np.array(counts, dtype=float)
    zeros = np.zeros_like(claims)
    now = Behaviour(
        claims=claims, length=claims, searches=claims % 2, foreign_share=zeros, reward=zeros
    )
    for gate in Stage:
        assert (admissible(now, {*gates, gate}) <= admissible(now, gates)).all()


def test_batches_of_different_shapes_are_refused():
    with pytest.raises(InvalidArgument, match="shapes"):
        replace(BASE, reward=np.zeros(3))
    with pytest.raises(InvalidArgument, match="at least one answer"):
        batch(answers=0)


@given(st.text(), st.text())
def test_the_foreign_share_of_any_text_lies_between_0_and_1(question, answer):
    assert 0 <= foreign_share(question, answer) <= 1


@pytest.mark.parametrize(
    ("question", "answer", "share"),
    [
        ("Does aspirin help?", "是的有效", 1.0),
        ("Does aspirin help?", "예, 그렇습니다", 1.0),
        ("Does aspirin help?", "abcdefg是的有", 0.3),
        ("Does aspirin help?", "Yes, via TNF-α and µg doses", 0.0),
        ("아스피린이 도움이 됩니까?", "네, 도움이 됩니다", 0.0),
        ("아스피린이 도움이 됩니까?", "Yes, it helps", 1.0),
        ("아스피린(aspirin)이 도움이 됩니까?", "aspirin은 도움이 됩니다", 0.0),
        ("アスピリンは有効ですか", "はい、有効です", 0.0),
        ("Does aspirin help?", "", 0.0),
        ("?", "Yes", 0.0),
    ],
)
def test_the_language_gate_follows_the_question(question, answer, share):
    assert foreign_share(question, answer) == pytest.approx(share)
