"""Nothing hidden leaks: patients who differ only in what was not asked look exactly alike.

OpenEnv#611, #446: the ground truth stood in the state and in the first observation. OpenEnv#428,
#1200: rewards and answers could be read, or written, in the middle of an episode. TRL exposes every
public method as a tool. POPGym#3: users want the true state, so it is given on request only.
"""

from __future__ import annotations

import inspect
import json
import pickle
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from clinical_envs.adapters.dialogues import dialogue_for
from clinical_envs.adapters.registry import array_ids, text_ids
from clinical_envs.adapters.tools import tool_environment
from clinical_envs.case import Case, CaseStream
from clinical_envs.catalog import load_task
from clinical_envs.errors import ClinicalEnvsError
from clinical_envs.protocol import action_text
from clinical_envs.simulator import Ask, Commit, Encounter
from clinical_envs.task import Task

SEED, POOL = 2024, 1500
TASKS = ("diagnostics", "refill", "titration", "sore_throat")
IDS = {"sore_throat": "ClinicalAskToCommit-v0"}


def twins(task: Task, asked: list[int], rho: float) -> tuple[Case, Case]:
    """Two cases with the same start and the same answers to what is asked, else different."""
    seen: dict[Any, Case] = {}
    for case in CaseStream(task, "train", SEED, rho).block(0, POOL):
        visible = {*asked, *case.revealed}
        key = (case.family, case.revealed, tuple(case.answers[q] for q in sorted(visible)))
        other = seen.setdefault(key, case)
        hidden = [q for q in range(len(task.findings)) if q not in visible]
        differ = any(case.answers[q] != other.answers[q] for q in hidden) or not hidden
        if case.state != other.state and differ:
            return other, case
    pytest.fail("no twins in the pool; make it larger")


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(ClinicalEnvsError) as refused:
        call()
    return f"{type(refused.value).__name__}: {refused.value}"


def array_transcript(task: Task, case: Case, asked: list[int], rho: float) -> list[bytes]:
    env_id = IDS.get(task.name, task.id)
    env = gym.make(env_id, render_mode="ansi", rho=rho)
    plain = env.unwrapped
    heard: list[Any] = [env.reset(seed=SEED, options={"index": case.index})]
    for action in asked:
        heard += [env.render(), repr(env), str(plain), plain.action_masks().tolist()]
        heard += [refusal(lambda: env.step(999)), refusal(lambda: plain.episode())]
        heard.append(env.step(action))
    heard.append(env.render())
    return [pickle.dumps(item) for item in heard]


def picture_transcript(task: Task, case: Case, asked: list[int], rho: float) -> list[bytes]:
    env = gym.make(IDS.get(task.name, task.id), render_mode="rgb_array", rho=rho)
    env.reset(seed=SEED, options={"index": case.index})
    for action in asked:
        env.step(action)
    return [np.asarray(env.render()).tobytes()]


def vector_transcript(task: Task, case: Case, asked: list[int], rho: float) -> list[bytes]:
    envs = gym.make_vec(IDS.get(task.name, task.id), num_envs=1, rho=rho)
    heard: list[Any] = [envs.reset(seed=SEED, options={"index": case.index}), repr(envs)]
    for action in asked:
        heard += [refusal(lambda: envs.step([999])), envs.step(np.array([action])), repr(envs)]
    return [pickle.dumps(item) for item in heard]


def text_transcript(task: Task, case: Case, asked: list[int], rho: float) -> list[bytes]:
    text_id = dict(zip(array_ids(), text_ids(), strict=True))[IDS.get(task.name, task.id)]
    env = gym.make(text_id, render_mode="ansi", rho=rho)
    plain = env.unwrapped
    heard: list[Any] = [env.reset(seed=SEED, options={"index": case.index})]
    for action in asked:
        heard += [env.render(), repr(env), plain.messages, refusal(lambda: plain.episode())]
        heard += [refusal(lambda: env.step(None)), env.step(action_text(task, Ask(action)))]
    return [pickle.dumps(item) for item in heard]


def tool_transcript(task: Task, case: Case, asked: list[int], rho: float) -> list[bytes]:
    environment = tool_environment(task, rho)()
    heard = [environment.reset(split="train", seed=SEED, index=case.index)]
    heard += [environment.ask(task.finding_ids[q]) for q in asked]
    heard += [environment.ask("state"), environment.commit("state")]
    heard += [type(environment).__name__, str(type(environment).__doc__)]
    tools = [environment.ask, environment.commit]
    heard += [f"{inspect.signature(tool)} {tool.__doc__}" for tool in tools]
    return [item.encode() for item in heard]


@pytest.mark.parametrize("rho", [0.0, 0.2])
@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize(
    "transcript",
    [array_transcript, picture_transcript, vector_transcript, text_transcript, tool_transcript],
)
def test_twins_give_byte_identical_transcripts_until_the_end(
    transcript: Callable[[Task, Case, list[int], float], list[bytes]], name: str, rho: float
) -> None:
    """OpenEnv#611, #446, #428: state and answers were in observations, infos and server state."""
    task = load_task(name)
    for asked in ([0], [1, 3, 1], [5, 2, 4, 0]):
        one, other = twins(task, asked, rho)
        assert one.state != other.state
        assert transcript(task, one, asked, rho) == transcript(task, other, asked, rho)


@pytest.mark.parametrize("env_id", [*array_ids(), *text_ids()])
def test_the_state_is_named_only_at_the_end_or_on_request(env_id: str) -> None:
    """OpenEnv#446, POPGym#3: the true state belongs in the info on request, and nowhere else."""
    env, open_env = gym.make(env_id), gym.make(env_id, privileged=True)
    task = env.unwrapped.task
    hidden = {"state", "posterior", "privileged", "outcome", "utility", "index"}
    start = env.reset(seed=1)[1]
    ask, commit = 0, len(task.findings)
    if env_id in text_ids():
        dialogue = dialogue_for(task)(Encounter(task, CaseStream(task, "train", 1)[0]))
        ask, commit = dialogue.write(Ask(0)), dialogue.write(Commit(0))
    infos = [start, env.step(ask)[-1]]
    assert not any(hidden & _keys(info) for info in infos)
    assert open_env.reset(seed=1)[1]["privileged"]["state"] in task.state_ids
    assert "state" in env.step(commit)[-1]["outcome"]


def _keys(value: Any) -> set[str]:
    if not isinstance(value, dict):
        return set()
    return set(value).union(*map(_keys, value.values()))


def test_the_reward_of_a_question_says_nothing_about_the_patient() -> None:
    """OpenEnv#428, #1200: rewards in the middle of an episode could be read for the answer."""
    env = gym.make("ClinicalDx-v0")
    rewards = set()
    for index in range(60):
        env.reset(seed=SEED, options={"index": index})
        rewards |= {env.step(action)[1] for action in (0, 7, 7, 12)}
    assert rewards == {-0.03}


def test_a_model_is_offered_no_tool_that_reads_or_writes_the_environment() -> None:
    """TRL: every public method became a tool, `set_wrapper_attr` of a raw environment included."""
    environment = tool_environment("diagnostics")()
    environment.reset(split="train", seed=1, index=0)
    offered = {
        name
        for name, _ in inspect.getmembers(environment, predicate=inspect.ismethod)
        if not name.startswith("_")
    }
    assert offered == {"ask", "commit", "reset", "get_reward"}
    assert json.loads(environment.ask("fever")).keys() == {"finding", "answer", "turns_left"}
    assert json.loads(environment.commit("discharge")) == {"committed": "discharge"}
