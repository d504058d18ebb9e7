"""The text environment: the protocol's messages as observations, any string as an action."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.adapters.layout import Layout
from clinical_envs.adapters.registry import text_ids
from clinical_envs.adapters.single import ClinicalEnv
from clinical_envs.adapters.text import ClinicalTextEnv
from clinical_envs.errors import EpisodeOver, InvalidAction
from clinical_envs.protocol import REASONS, action_text, prompt
from clinical_envs.simulator import Ask, Commit
from clinical_envs.task import Task
from clinical_envs.verifier import verify
from tests.strategies import tasks


@given(
    tasks(certain=True),
    st.sampled_from((0.0, 0.3, 1.0)),
    st.integers(0, 1000),
    st.lists(st.integers(0, 8), min_size=6, max_size=6),
)
def test_the_same_actions_give_what_the_array_environment_gives(
    task: Task, rho: float, seed: int, script: list[int]
) -> None:
    text, array, layout = ClinicalTextEnv(task, rho=rho), ClinicalEnv(task, rho=rho), Layout(task)
    observation, info = text.reset(seed=seed)
    array.reset(seed=seed)
    assert observation == prompt(task, array._encounter().info)
    over, turn = False, 0
    while not over:
        action = script[turn] % layout.actions
        asks = action < layout.findings
        written = action_text(task, Ask(action) if asks else Commit(action - layout.findings))
        shown, reward, over, truncated, info = array.step(action)
        observation, *rest, told = text.step(written)
        assert rest == [reward, over, truncated]
        assert told.get("outcome") == info.get("outcome")
        assert observation in text.observation_space
        if asks and not over:
            answer = "yes" if shown[action] > 0 else "no"
            left = task.turn_cap - turn - 1
            assert json.loads(observation) == {
                "finding": task.finding_ids[action],
                "answer": answer,
                "turns_left": left,
            }
        turn += 1
    assert observation == ""
    assert text.episode().turns == array.episode().turns


@given(tasks(), st.lists(st.text(max_size=30), min_size=6, max_size=6))
def test_any_string_is_answered_and_the_episode_ends_by_the_cap(
    task: Task, script: list[str]
) -> None:
    env = ClinicalTextEnv(task)
    env.reset(seed=0)
    for turn, written in enumerate(script[: task.turn_cap], start=1):
        observation, reward, over, truncated, info = env.step(written)
        assert info["invalid"] in REASONS
        assert truncated is False
        assert over == (turn == task.turn_cap)
        if not over:
            assert reward == -task.question_cost
            assert json.loads(observation) == {
                "error": info["invalid"],
                "turns_left": task.turn_cap - turn,
            }
            assert observation in env.observation_space
    outcome = verify(task, env.episode())
    assert info["outcome"]["invalid_turns"] == outcome.invalid_turns == task.turn_cap
    assert info["outcome"]["reward"] == outcome.reward


@pytest.mark.parametrize("action", [0, None, b"{}", ["{}"], {"action": "ask"}], ids=repr)
def test_what_is_no_string_is_refused_and_costs_nothing(action: Any) -> None:
    env = gym.make("ClinicalAskToCommitText-v0")
    env.reset(seed=0)
    with pytest.raises(InvalidAction, match="give a string"):
        env.step(action)
    assert json.loads(env.step("?")[0])["turns_left"] == 5


@pytest.mark.parametrize("env_id", text_ids())
def test_the_spaces_hold_every_message_and_every_legal_action(env_id: str) -> None:
    env = gym.make(env_id, rho=1.0).unwrapped
    assert isinstance(env, ClinicalTextEnv)
    task = env.task
    for index in range(20):
        assert env.reset(seed=0, options={"index": index})[0] in env.observation_space
    actions = [*map(Ask, range(len(task.findings))), *map(Commit, range(len(task.decisions)))]
    for action in actions:
        assert action_text(task, action) in env.action_space


def test_messages_are_the_alternating_dialogue_and_copies_of_it() -> None:
    env = gym.make("ClinicalAskToCommitText-v0").unwrapped
    assert isinstance(env, ClinicalTextEnv)
    with pytest.raises(EpisodeOver, match="reset"):
        _ = env.messages
    first, _ = env.reset(seed=0)
    second, *_ = env.step("hm")
    env.messages[0]["content"] = "changed"
    env.messages.clear()
    assert [message["content"] for message in env.messages] == [first, "hm", second]
    env.step('{"action": "commit", "decision": "antibiotics"}')
    assert [message["role"] for message in env.messages] == ["user", "assistant"] * 2
    assert env.episode().raw == ("hm", '{"action": "commit", "decision": "antibiotics"}')


def test_a_step_before_the_start_or_after_the_end_is_refused() -> None:
    env = gym.make("ClinicalAskToCommitText-v0")
    with pytest.raises(EpisodeOver, match="reset"):
        env.step("")
    env.reset(seed=0)
    env.step('{"action": "commit", "decision": "antibiotics"}')
    for late in ('{"action": "commit", "decision": "antibiotics"}', "", 3):
        with pytest.raises((EpisodeOver, InvalidAction)):
            env.step(late)
    assert len(env.unwrapped.messages) == 2


def test_gymnasium_can_run_many_in_step() -> None:
    envs = gym.make_vec("ClinicalAskToCommitText-v0", num_envs=3, vectorization_mode="sync")
    prompts, _ = envs.reset(seed=0)
    replies, rewards, *_, infos = envs.step(("?", '{"action": "ask", "finding": "fever"}', ""))
    assert len(set(prompts)) <= 2
    assert [next(iter(json.loads(text))) for text in replies] == ["error", "finding", "error"]
    np.testing.assert_array_equal(rewards, [-0.03] * 3)
    assert infos["invalid"].tolist() == ["not_json", None, "empty"]


def test_copies_and_pickles_go_on_alike() -> None:
    env = gym.make("ClinicalAskToCommitText-v0")
    env.reset(seed=1)
    env.step("x")
    twins = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    expected = env.step('{"action": "ask", "finding": "fever"}')
    for twin in twins:
        assert twin.step('{"action": "ask", "finding": "fever"}') == expected
