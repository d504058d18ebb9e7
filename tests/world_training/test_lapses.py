"""Verifiers that are lenient in a share of their judgments: between the strict and the weak one."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.catalog import load_task
from clinical_envs.rubric import lapses
from clinical_envs.rubric.training_rewards import episode_proxy, episode_reference
from clinical_envs.rubric.verifiers import WEAK
from clinical_envs.simulator import Ask
from oracles.reward_audit.records import read_lines
from tests.world_training.play import committed, first_cases, spoken

TASK = load_task("rubric")
CASES = first_cases(TASK, 40)
rates = st.floats(0.0, 1.0)
decisions = st.sampled_from(TASK.decision_ids)


@given(st.integers(0, 39), decisions)
def test_rate_one_is_the_weak_verifier_and_rate_zero_the_reference(
    index: int, decision: str
) -> None:
    episode = committed(TASK, CASES[index], decision)
    assert lapses.episode_proxy(TASK, episode, 1.0) == episode_proxy(TASK, episode, WEAK)
    assert lapses.episode_proxy(TASK, episode, 0.0) == episode_reference(TASK, episode)


@given(st.integers(0, 39), decisions, rates, rates)
def test_more_lapses_never_pay_less(index: int, decision: str, one: float, other: float) -> None:
    episode = committed(TASK, CASES[index], decision)
    less, more = (lapses.episode_proxy(TASK, episode, rate) for rate in sorted((one, other)))
    assert less is not None
    assert more is not None
    assert less <= more


def test_the_strong_verifier_fails_a_seventh_as_often() -> None:
    judged = [
        lapses.lenient(f"train/12345/{case}", criterion, lapses.STRONG_RATE)
        for case in range(3000)
        for criterion in ("names_the_choice", "both_steps")
    ]
    assert np.mean(judged) == pytest.approx(1 / 7, abs=4 * np.sqrt(6 / 49 / 6000))


def test_an_episode_without_an_answer_earns_nothing_and_one_without_its_state_is_unscored() -> None:
    silent = spoken(TASK, CASES[0], [Ask(0)])
    assert lapses.episode_proxy(TASK, silent, 1.0) == 0.0
    hidden = committed(TASK, CASES[0], "generic_complete").model_copy(update={"state": None})
    assert lapses.episode_proxy(TASK, hidden, 1.0) is None


@pytest.mark.parametrize("rate", [1.0, lapses.STRONG_RATE, 0.0])
def test_the_rows_judge_as_the_reward_pays(rate: float) -> None:
    ways = ("topical_only", "generic_complete", "concept_substitution", "implicit")
    episodes = [committed(TASK, case, ways[i % 4]) for i, case in enumerate(CASES)]
    episodes.append(spoken(TASK, first_cases(TASK, 41)[-1], [Ask(0)]))
    rng = np.random.default_rng(0)
    rows = list(lapses.lapsing_rows(TASK, episodes, rate, rng, step=3, verifier="v"))
    log = read_lines([json.dumps(row) for row in rows])
    assert not log.damaged
    paid = {row.prompt: row for row in log.rewards}
    assert len(paid) == len(episodes)
    for episode in episodes[:-1]:
        points = [row for row in log.judgments if row.prompt == episode.case_id]
        earned = sum(row.weight for row in points if row.training) / sum(r.weight for r in points)
        row = paid[str(episode.case_id)]
        assert row.reward == pytest.approx(earned)
        assert row.reward == lapses.episode_proxy(TASK, episode, rate)
        assert row.reference == episode_reference(TASK, episode)
    silent = paid[str(episodes[-1].case_id)]
    assert (silent.reward, silent.reference) == (0.0, 0.0)
    causes = {row.cause for row in log.judgments if row.cause is not None}
    assert bool(causes) is (rate > 0.0)
    assert all(row.training for row in log.judgments if row.cause is not None)
