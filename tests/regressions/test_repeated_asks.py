"""Asking for what is known: charged, answered alike, and worth nothing."""

from __future__ import annotations

import json

import gymnasium as gym
import numpy as np
import pytest

from clinical_envs.catalog import load_task
from clinical_envs.verifier import verify

TASK = load_task("refill")


@pytest.mark.parametrize("index", range(8))
def test_a_repeat_is_charged_answered_alike_and_moves_no_belief(index: int) -> None:
    """CyberBattleSim#18, TextWorld#299: a repeated action paid again, or was free."""
    env = gym.make("ClinicalRefill-v0", privileged=True)
    env.reset(seed=1, options={"index": index})
    finding = index % len(TASK.findings)
    first, reward, *_, before = env.step(finding)
    assert before["action_mask"][finding] == 0
    for repeat in (1, 2):
        shown, charged, terminated, _, after = env.step(finding)
        assert charged == reward == -TASK.question_cost
        assert not terminated
        np.testing.assert_array_equal(shown[:-1], first[:-1])
        assert shown[-1] == np.float32((TASK.turn_cap - 1 - repeat) / TASK.turn_cap)
        np.testing.assert_array_equal(
            after["privileged"]["posterior"], before["privileged"]["posterior"]
        )
        np.testing.assert_array_equal(after["action_mask"], before["action_mask"])
    outcome = env.step(len(TASK.findings))[-1]["outcome"]
    assert (outcome["asks"], outcome["repeats"]) == (3, 2)
    assert verify(TASK, env.unwrapped.episode()).repeats == 2


def test_a_finding_shown_at_the_start_is_a_repeat_when_asked_for() -> None:
    """TextWorld#299, DoctorAgent-RL: what was known at the start earned credit when asked for."""
    env = gym.make("ClinicalRefill-v0", rho=1.0)
    shown, info = env.reset(seed=1)
    findings = len(TASK.findings)
    assert info["action_mask"].tolist() == [0] * findings + [1] * 5
    after, reward, *_ = env.step(3)
    assert reward == -TASK.question_cost
    np.testing.assert_array_equal(after[:findings], shown[:findings])
    outcome = env.step(findings)[-1]["outcome"]
    assert (outcome["asks"], outcome["repeats"]) == (1, 1)


def test_another_spelling_is_no_second_question_but_an_invalid_turn() -> None:
    """DoctorAgent-RL: a model judged whether two questions were the same."""
    env = gym.make("ClinicalRefillText-v0")
    env.reset(seed=1)
    first = json.loads(env.step('{"action": "ask", "finding": "gi_bleed"}')[0])
    for spelling in ("GI_bleed", "gi bleed", "gi_bleed?", "black stools or ulcer in the last year"):
        text = json.dumps({"action": "ask", "finding": spelling})
        observation, reward, *_, info = env.step(text)
        assert info["invalid"] == "unknown_finding"
        assert "answer" not in json.loads(observation)
        assert reward == -TASK.question_cost
    again = json.loads(env.step('{"action": "ask", "finding": "gi_bleed"}')[0])
    assert (again["finding"], again["answer"]) == (first["finding"], first["answer"])
    env.step('{"action": "commit", "decision": "deny_hold"}')
    outcome = verify(TASK, env.unwrapped.episode())
    assert (outcome.asks, outcome.repeats, outcome.invalid_turns) == (2, 1, 4)
