"""A world played from its menu: the policy picks, the world writes, and what is written is paid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from clinical_envs.adapters.dialogues import dialogue_for
from clinical_envs.case import case_set
from clinical_envs.catalog import load_task
from clinical_envs.errors import InvalidArgument
from clinical_envs.factcheck.training_rewards import training_reward
from clinical_envs.protocol import action_text, prompt, reply
from clinical_envs.simulator import Ask, Commit, Encounter, Invalid
from oracles.clinical import ClinicalWorld
from oracles.evaluation import evaluate
from oracles.policy import Rollout
from tests.world_training.play import committed
from training.config import config_from, load_config
from training.dialogue import EpisodeSpeaker, MenuSpeaker, Speaker
from training.engine import Sampling, TokenRecord
from training.rollouts import Rollouts
from training.signals import check_reward

TASK = load_task("factcheck")
CASE = case_set(TASK, "train").cases[0]
PADDED = TASK.decision("supported_padded")
NEEDS = "pip install 'clinical-envs[train]'"


class Picking:
    """An engine that asks for the first finding, fails once, and commits."""

    def __init__(self) -> None:
        self.speakers: Sequence[Speaker] = ()

    def play(
        self, speakers: Sequence[Speaker], seeds: Sequence[int], sampling: Sampling
    ) -> list[TokenRecord]:
        self.speakers = speakers
        for speaker in speakers:
            for text in (action_text(TASK, Ask(0)), "?", action_text(TASK, Commit(PADDED))):
                speaker.answer(text)
        record = TokenRecord(
            prompt_ids=(1,),
            completion_ids=(2, 2, 2),
            env_mask=(1, 1, 1),
            logprobs=(-0.5, -0.5, -0.5),
            turns=((0, 1), (1, 2), (2, 3)),
            cut=False,
        )
        return [record] * len(speakers)


def test_the_policy_speaks_the_protocol_of_findings() -> None:
    speaker, encounter = MenuSpeaker(TASK, CASE), Encounter(TASK, CASE)
    assert speaker.opening == prompt(TASK, encounter.info)
    said = encounter.step(Ask(2))
    expected = reply(TASK, Ask(2), said.answer, encounter.info.turns_left)
    assert speaker.answer(action_text(TASK, Ask(2))) == expected
    encounter.step(Invalid("not_json"))
    failed = reply(TASK, Invalid("not_json"), None, encounter.info.turns_left)
    assert speaker.answer("REFUTED") == failed
    encounter.step(Invalid("too_long"))
    cut = reply(TASK, Invalid("too_long"), None, encounter.info.turns_left)
    assert speaker.answer(action_text(TASK, Commit(0)), complete=False) == cut
    assert speaker.answer(action_text(TASK, Commit(PADDED))) is None
    assert speaker.decision == PADDED


def test_what_is_recorded_is_what_the_world_writes() -> None:
    speaker, dialogue = MenuSpeaker(TASK, CASE), dialogue_for(TASK)(Encounter(TASK, CASE))
    for action in (Ask(1), Ask(0), Commit(PADDED)):
        speaker.answer(action_text(TASK, action))
        dialogue.play(action)
    picked = speaker.finish(policy="menu", rollout=0)
    assert picked.raw == tuple(m["content"] for m in dialogue.messages[1::2])
    assert "### REPORT" in (picked.raw or ("",))[-1]
    spoken = EpisodeSpeaker(TASK, CASE)
    for text in picked.raw or ():
        spoken.answer(text)
    assert spoken.finish(policy="menu", rollout=0).turns == picked.turns
    assert training_reward(TASK, picked) == training_reward(
        TASK, spoken.finish(policy="own", rollout=0)
    )


def test_a_dialogue_that_was_cut_ends_without_a_report() -> None:
    speaker = MenuSpeaker(TASK, CASE)
    speaker.answer(action_text(TASK, Ask(0)))
    episode = speaker.finish(policy="menu", rollout=0)
    assert len(episode.turns) == TASK.turn_cap
    assert training_reward(TASK, episode).outcome == 0.0


def test_rollouts_are_played_from_the_menu_where_the_configuration_says_so() -> None:
    world, engine = ClinicalWorld(TASK), Picking()
    one_group = ["optim.groups=1", "optim.micro_batch=8"]
    config = load_config("factcheck-eg-embedded", one_group)
    assert config.model.menu
    play = Rollouts(world, config, engine)
    play(["0"] * 8, SimpleNamespace(state=SimpleNamespace(global_step=0)))
    assert {type(speaker) for speaker in engine.speakers} == {MenuSpeaker}
    written = committed(TASK, CASE, "supported_padded")
    paid = training_reward(TASK, written).total
    for scored in play.last:
        assert scored.turn_rewards == pytest.approx((-0.03, -0.03, paid))
        assert (scored.invalid_turns, scored.asks) == (1, 1)
    own = load_config("factcheck-eg-embedded", [*one_group, "model.menu=false"])
    play = Rollouts(world, own, engine)
    play(["0"] * 8, SimpleNamespace(state=SimpleNamespace(global_step=0)))
    assert {type(speaker) for speaker in engine.speakers} == {EpisodeSpeaker}


def test_a_checkpoint_is_played_as_it_was_trained(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason=NEEDS)
    from training.checkpoint_policy import CheckpointPolicy, PlaySettings, read_settings
    from training.grpo import play_settings

    settings = play_settings(load_config("factcheck-eg-embedded"))
    assert settings.menu
    settings.write(tmp_path)
    assert read_settings(tmp_path) == settings
    assert not PlaySettings().menu
    engine = Picking()
    policy = CheckpointPolicy(TASK, engine, SimpleNamespace(), settings, "menu")  # type: ignore[arg-type]
    (episode,) = policy.play([Rollout(case=CASE, number=0, greedy=False, seed=0)])
    assert {type(speaker) for speaker in engine.speakers} == {MenuSpeaker}
    assert episode.raw is not None
    assert episode.raw[0].startswith('{"action": "search_pubmed"')


def test_a_turn_from_the_menu_is_a_handful_of_tokens() -> None:
    pytest.importorskip("trl", reason=NEEDS)
    from training.chat import ChatTokens
    from training.embedded import build_tokenizer, menu_words
    from training.supervised import examples

    world = ClinicalWorld(TASK)
    tokens = ChatTokens(build_tokenizer(words=menu_words(TASK)))
    for action in (*map(Ask, range(len(TASK.findings))), *map(Commit, range(9))):
        text = action_text(TASK, action)
        assert len(tokens.turn(text)) == 4
        assert tokens.text(list(tokens.turn(text))) == text
    episodes = evaluate(world, world.policy("checklist"), world.cases("sft")[:10], k=1)
    for episode, example in zip(episodes, examples(TASK, episodes, tokens, menu=True), strict=True):
        assert sum(example.policy_mask) == 4 * len(episode.turns)
        assert len(example.input_ids) < 120


def test_a_clinical_task_has_no_menu() -> None:
    data = {"task": "titration", "warmup": {"kind": "full"}, "model": {"menu": True}}
    with pytest.raises(InvalidArgument, match=r"model\.menu: titration has no words of its own"):
        check_reward(load_task("titration"), config_from(data))
