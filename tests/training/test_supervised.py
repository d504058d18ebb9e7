"""Supervised data: loss on the policy's turns only, and the two modes as they are played."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.case import Case
from clinical_envs.catalog import load_task, task_ids
from clinical_envs.episode import Episode
from clinical_envs.protocol import parse_action, prompt
from clinical_envs.simulator import Action, Ask, Commit, Encounter, Invalid
from clinical_envs.task import Task
from tests.strategies import asks, cases, commits
from tests.training.toy import (
    FULL,
    HIGH,
    NEEDS,
    STRONG,
    WEAK,
    ask_text,
    chat,
    commit_text,
    patient,
    played,
    toy_task,
)
from training.dialogue import STOP, EpisodeSpeaker, ExploitSpeaker, ExploreSpeaker, Speaker
from training.supervised import Example, examples

pytest.importorskip("transformers", reason=NEEDS)
pytest.importorskip("trl", reason=NEEDS)

TASKS = [load_task(name) for name in task_ids()]
NAMES = [task.name for task in TASKS]


def policy_turns(example: Example) -> list[str]:
    """The texts under the mask, one a stretch of ones; each must end its turn."""
    turns, open_turn = list[str](), list[int]()
    for token, mine in zip((*example.input_ids, -1), (*example.policy_mask, 0), strict=True):
        if mine:
            open_turn.append(token)
        elif open_turn:
            assert open_turn[-1] == chat().end_of_turn
            turns.append(chat().text(open_turn))
            open_turn = []
    return turns


def as_played(speaker: Speaker, turns: list[str]) -> list[int]:
    """Ids of a dialogue in which the policy says these turns; it must last as long as they do."""
    ids = list(chat().prompt(speaker.opening))
    for number, text in enumerate(turns, start=1):
        ids += chat().turn(text)
        reply = speaker.answer(text)
        assert (reply is None) is (number == len(turns))
        ids += () if reply is None else chat().reply(reply)
    return ids


@st.composite
def committed(draw: st.DrawFn, task: Task) -> tuple[Case, Episode]:
    """A case and an episode of it without invalid turns that ends with a commit."""
    case = draw(cases(task))
    actions: list[Action] = draw(st.lists(asks(task), max_size=task.turn_cap - 1))
    encounter = Encounter(task, case)
    for action in [*actions, draw(commits(task))]:
        encounter.step(action)
    return case, encounter.episode(policy="scripted")


@pytest.mark.parametrize("task", TASKS, ids=NAMES)
@given(data=st.data())
def test_loss_touches_the_policys_turns_and_nothing_else(task: Task, data: st.DataObject) -> None:
    case, episode = data.draw(committed(task))
    (example,) = examples(task, [episode], chat())
    turns = policy_turns(example)
    actions = [parse_action(task, text) for text in turns]
    spoken = [turn.model_dump() for turn in episode.turns]
    assert [isinstance(action, Ask) for action in actions] == ["ask" in turn for turn in spoken]
    assert list(example.input_ids) == as_played(EpisodeSpeaker(task, case), turns)
    outside = [t for t, m in zip(example.input_ids, example.policy_mask, strict=True) if not m]
    assert "{" + '"action": "commit", "decision": "' + episode_commit(episode) not in chat().text(
        outside
    )


def episode_commit(episode: Episode) -> str:
    return str(episode.turns[-1].model_dump()["commit"])


@pytest.mark.parametrize("task", TASKS, ids=NAMES)
@given(data=st.data())
def test_the_modes_are_the_phases_as_they_are_played(task: Task, data: st.DataObject) -> None:
    case, episode = data.draw(committed(task))
    _, explore, exploit = examples(task, [episode], chat(), modes=True)
    explorer = ExploreSpeaker(task, case)
    turns = policy_turns(explore)
    assert list(explore.input_ids) == as_played(explorer, turns)
    assert explorer.stopped is (len(episode.turns) < task.turn_cap)
    assert all(isinstance(action, Ask) for action in explorer.actions)
    (commit,) = policy_turns(exploit)
    assert list(exploit.input_ids) == as_played(ExploitSpeaker(task, explorer.info), [commit])
    assert json.loads(commit) == {"action": "commit", "decision": episode_commit(episode)}


def test_the_three_examples_of_an_episode_of_the_toy_say_this() -> None:
    task = toy_task()
    episode = played(task, [Ask(STRONG), Ask(WEAK), Commit(FULL)], (True, False, True), HIGH)
    whole, explore, exploit = (
        policy_turns(example) for example in examples(task, [episode], chat(), modes=True)
    )
    two_asks = [ask_text(task, STRONG), ask_text(task, WEAK)]
    assert whole == [*two_asks, commit_text(task, FULL)]
    assert explore == [*two_asks, STOP]
    assert exploit == [commit_text(task, FULL)]


def test_exploring_to_the_last_turn_has_no_stop_to_imitate() -> None:
    task = toy_task(turn_cap=2)
    episode = played(task, [Ask(STRONG), Commit(FULL)], (True, False, True), HIGH)
    _, explore, _ = examples(task, [episode], chat(), modes=True)
    assert policy_turns(explore) == [ask_text(task, STRONG)]


def test_the_prompt_of_an_example_is_not_learnt() -> None:
    task = toy_task()
    (example,) = examples(task, [played(task, [Commit(FULL)], (True,) * 3)], chat())
    opening = chat().prompt(prompt(task, patient(task, (True,) * 3).start(task)))
    assert example.input_ids[: len(opening)] == opening
    assert example.policy_mask == (0,) * len(opening) + (1,) * (
        len(example.input_ids) - len(opening)
    )


def test_episodes_with_invalid_turns_or_no_commit_are_left_out() -> None:
    task = toy_task(turn_cap=2)
    bad = played(task, [Invalid("empty"), Commit(FULL)], (True,) * 3)
    endless = played(task, [Ask(STRONG), Ask(WEAK)], (True,) * 3)
    assert examples(task, [bad, endless], chat(), modes=True) == []
