"""The imperfect teacher has the shape it is given, and bias keeps the share it is told to."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from clinical_envs.catalog import load_task
from clinical_envs.episode import Episode
from clinical_envs.errors import InvalidArgument
from clinical_envs.verifier import Outcome, verify
from oracles.clinical import ClinicalWorld
from tests.training.toy import FULL, NO, STRONG, shipped_teacher, toy_task, toy_world
from training.teacher import NoisyTeacher, TeacherShape, biased, teacher_episodes

LIGHT = shipped_teacher("diagnostics")
ALIKE = TeacherShape(hazard=(1.0,), sharpness=0.0, inverse_temperature=0.0, bias=(0.0, 0.0))


@pytest.fixture(scope="module")
def diagnostics() -> ClinicalWorld:
    return ClinicalWorld(load_task("diagnostics"))


@pytest.fixture(scope="module")
def outcomes(diagnostics: ClinicalWorld) -> list[Outcome]:
    return [verify(diagnostics.task, e) for e in teacher_episodes(diagnostics, LIGHT)]


def toy_outcomes(shape: TeacherShape) -> list[Outcome]:
    world = toy_world()
    return [verify(world.task, episode) for episode in teacher_episodes(world, shape)]


def near(share: float, expected: float, n: int) -> bool:
    """Within four standard errors of a share of n."""
    return abs(share - expected) <= 4.0 * math.sqrt(expected * (1.0 - expected) / n) + 1e-12


def test_the_teacher_stops_as_its_hazard_says(outcomes: list[Outcome]) -> None:
    asks = Counter(outcome.asks for outcome in outcomes)
    for made, hazard in enumerate(LIGHT.hazard[:4]):
        reached = sum(count for n, count in asks.items() if n >= made)
        assert reached > 50
        assert near(asks[made] / reached, hazard, reached)
    late = [sum(count for n, count in asks.items() if n >= made) for made in (4, 5, 6)]
    stopped = asks[4] + asks[5]
    assert near(stopped / (late[0] + late[1]), LIGHT.hazard[-1], late[0] + late[1])


def test_the_teacher_of_diagnostics_is_the_start_that_was_asked_for(
    diagnostics: ClinicalWorld, outcomes: list[Outcome]
) -> None:
    hedge = np.mean([outcome.decision in diagnostics.task.hedge_decisions for outcome in outcomes])
    assert 2.0 <= np.mean([outcome.asks for outcome in outcomes]) <= 3.0
    assert 0.20 <= np.mean([outcome.reward for outcome in outcomes]) <= 0.33
    assert 0.35 <= hedge <= 0.65
    assert np.mean([outcome.asks == 0 for outcome in outcomes]) <= 0.10


def test_the_teacher_speaks_no_invalid_turn_and_repeats_no_ask(outcomes: list[Outcome]) -> None:
    assert all(outcome.invalid_turns == 0 == outcome.repeats for outcome in outcomes)
    assert all(outcome.committed for outcome in outcomes)


def test_a_certain_hazard_is_kept_exactly() -> None:
    shape = replace(ALIKE, hazard=(0.0, 0.0, 1.0))
    assert {outcome.asks for outcome in toy_outcomes(shape)} == {2}


def test_without_sharpness_informative_findings_are_asked_alike_and_flat_ones_never() -> None:
    shape = replace(ALIKE, hazard=(0.0, 1.0))
    first = Counter(outcome.actions[0] for outcome in toy_outcomes(shape))
    assert {getattr(action, "finding", None) for action in first} == set(toy_task().informative[0])
    assert all(near(count / 800, 0.5, 800) for count in first.values())


def test_sharpness_prefers_the_head_of_the_order() -> None:
    shape = TeacherShape(hazard=(0.0, 1.0), sharpness=2.0, inverse_temperature=0.0, bias=(0.0, 0.0))
    first = Counter(getattr(outcome.actions[0], "finding", None) for outcome in toy_outcomes(shape))
    expected = 1.0 / (1.0 + np.exp(-2.0))  # scores 1 and 0
    assert near(first[STRONG] / 800, expected, 800)


def test_commits_follow_utility_and_bias() -> None:
    shape = TeacherShape(hazard=(1.0,), sharpness=0.0, inverse_temperature=2.0, bias=(0.0, 0.5))
    full = np.mean([outcome.decision == FULL for outcome in toy_outcomes(shape)])
    assert near(float(full), 1.0 / (1.0 + np.exp(-1.0)), 800)  # utilities 0 and 0, bias 2 · 0.5


def test_a_bias_for_another_number_of_decisions_is_refused_in_one_line() -> None:
    with pytest.raises(InvalidArgument, match=r"teacher\.bias has 3 numbers for 2") as caught:
        NoisyTeacher(toy_task(), replace(ALIKE, bias=(0.0, 0.0, 0.0)))
    assert "\n" not in str(caught.value)


def test_the_same_seed_gives_the_same_episodes_and_another_others() -> None:
    world = toy_world()
    shape = replace(ALIKE, hazard=(0.5,))
    one, same, other = (teacher_episodes(world, shape, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_without_a_shape_the_teacher_is_the_oracle() -> None:
    world = toy_world()
    outcomes = [verify(world.task, episode) for episode in teacher_episodes(world, None)]
    assert {outcome.asks for outcome in outcomes} == {1}
    assert {outcome.decision for outcome in outcomes} == {NO, FULL}


@pytest.mark.parametrize("keep", [0.0, 0.3, 1.0])
def test_bias_keeps_its_share_of_the_high_risk_and_the_total(
    diagnostics: ClinicalWorld, keep: float
) -> None:
    episodes = teacher_episodes(diagnostics, LIGHT)
    before = sum(is_high_risk(diagnostics, episode) for episode in episodes)
    kept = biased(diagnostics, episodes, keep)
    assert len(kept) == len(episodes)
    assert sum(is_high_risk(diagnostics, episode) for episode in kept) == round(keep * before)
    assert set(map(repr, kept)) <= set(map(repr, episodes))


def is_high_risk(world: ClinicalWorld, episode: Episode) -> bool:
    """By the state, or by what was committed to."""
    outcome = verify(world.task, episode)
    assert outcome.state is not None
    group = world.task.risk_groups[world.task.group_of_state[outcome.state]]
    return group == "high" or outcome.decision in world.task.high_acuity_decisions
