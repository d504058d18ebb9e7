"""Speakers and supervised data word an evidence world as its own dialogue does."""

from __future__ import annotations

import pytest

from clinical_envs.adapters.dialogues import dialogue_for
from clinical_envs.case import case_set
from clinical_envs.catalog import load_task
from clinical_envs.errors import InvalidArgument
from clinical_envs.protocol import Dialogue
from clinical_envs.simulator import Ask, Commit, Encounter
from oracles.clinical import ClinicalWorld
from oracles.evaluation import evaluate
from training.dialogue import EpisodeSpeaker
from training.teacher import NoisyTeacher, TeacherShape

pytest.importorskip("transformers", reason="pip install 'clinical-envs[train]'")
pytest.importorskip("trl", reason="pip install 'clinical-envs[train]'")

from training.chat import ChatTokens
from training.embedded import build_tokenizer
from training.supervised import examples
from training.world_words import world_words

WORLDS = ("rubric", "checkedqa", "factcheck")
every_world = pytest.mark.parametrize("world", WORLDS)


def teacher(world: ClinicalWorld) -> NoisyTeacher:
    bias = (0.0,) * len(world.task.decisions)
    shape = TeacherShape(hazard=(0.2, 0.5), sharpness=1.0, inverse_temperature=2.0, bias=bias)
    return NoisyTeacher(world.task, shape)


@every_world
def test_a_speaker_opens_and_answers_in_the_worlds_words(world: str) -> None:
    task = load_task(world)
    case = case_set(task, "heldout").cases[0]
    speaker, dialogue = EpisodeSpeaker(task, case), dialogue_for(task)(Encounter(task, case))
    assert speaker.opening == dialogue.opening()
    for action in (Ask(1), Ask(0), Commit(0)):
        text = dialogue.write(action)
        dialogue.play(action)
        reply = speaker.answer(text)
        assert reply == (None if isinstance(action, Commit) else dialogue.messages[-1]["content"])
    episode = speaker.finish(policy="scripted", rollout=0)
    assert [m["content"] for m in dialogue.messages[1::2]] == list(episode.raw or ())
    assert ClinicalWorld(task).assess(episode).decision == task.decision_ids[0]


@every_world
def test_an_example_is_the_dialogue_as_it_would_be_played(world: str) -> None:
    of_world = ClinicalWorld(load_task(world))
    tokens = ChatTokens(build_tokenizer(words=world_words(of_world.task)))
    cases = of_world.cases("sft")[:20]
    episodes = evaluate(of_world, teacher(of_world), cases, k=1)
    data = examples(of_world.task, episodes, tokens)
    assert len(data) == len(episodes)
    for case, episode, example in zip(cases, episodes, data, strict=True):
        speaker = EpisodeSpeaker(of_world.task, case)
        ids, mask = list(tokens.prompt(speaker.opening)), [0] * len(tokens.prompt(speaker.opening))
        writer = dialogue_for(of_world.task)(Encounter(of_world.task, case))
        for turn in episode.turns:
            action = (
                Ask(of_world.task.finding(turn.ask))
                if hasattr(turn, "ask")
                else Commit(of_world.task.decision(turn.commit))
            )
            text = writer.write(action)
            writer.play(action)
            said, reply = tokens.turn(text), speaker.answer(text)
            heard = () if reply is None else tokens.reply(reply)
            ids += [*said, *heard]
            mask += [1] * len(said) + [0] * len(heard)
        assert example.input_ids == tuple(ids)
        assert example.policy_mask == tuple(mask)


def test_a_world_has_no_modes() -> None:
    world = ClinicalWorld(load_task("rubric"))
    episodes = evaluate(world, teacher(world), world.cases("sft")[:2], k=1)
    tokens = ChatTokens(build_tokenizer(words=world_words(world.task)))
    with pytest.raises(InvalidArgument, match=r"no explore and exploit modes.*warmup\.modes"):
        examples(world.task, episodes, tokens, modes=True)


def test_an_episode_without_its_case_cannot_be_worded() -> None:
    world = ClinicalWorld(load_task("rubric"))
    (episode,) = evaluate(world, teacher(world), world.cases("sft")[:1], k=1)
    tokens = ChatTokens(build_tokenizer(words=world_words(world.task)))
    with pytest.raises(InvalidArgument, match="names no case"):
        examples(world.task, [episode.model_copy(update={"case": None})], tokens)


def test_a_clinical_speaker_speaks_the_protocol_as_before() -> None:
    task = load_task("titration")
    case = case_set(task, "heldout").cases[0]
    assert dialogue_for(task) is Dialogue
    assert EpisodeSpeaker(task, case).opening == Dialogue(Encounter(task, case)).opening()
