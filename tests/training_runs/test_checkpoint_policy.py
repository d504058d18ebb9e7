"""Composition of the two phases with an engine that speaks a script, and real checkpoints."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

pytest.importorskip("trl", reason="pip install 'clinical-envs[train]'")

from safetensors.torch import load_file, save_file

from clinical_envs import load_task
from clinical_envs.episode import AskTurn, CommitTurn, InvalidTurn
from clinical_envs.errors import InvalidArgument
from clinical_envs.verifier import verify
from oracles.clinical import ClinicalWorld
from oracles.evaluation import evaluate
from oracles.policy import Rollout
from training.checkpoint_policy import (
    CheckpointPolicy,
    PlaySettings,
    load_checkpoint_policy,
    read_settings,
)
from training.dialogue import EXPLOIT, STOP
from training.engine import TokenRecord

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore:.*pin_memory.*:UserWarning"
)
WORLD = ClinicalWorld(load_task("titration"))
TASK = WORLD.task
CASE = WORLD.cases("heldout")[0]
ASK = '{"action": "ask", "finding": "prior_vte"}'
REPEAT = ASK
COMMIT = '{"action": "commit", "decision": "no_therapy"}'


class Letters:
    """A character a token."""

    def text(self, ids):
        return "".join(map(chr, ids))


class Script:
    """Plays every dialogue from the same lines: those of exploring, or those of exploiting."""

    def __init__(self, explore, exploit, cut_after=None):
        self.lines = {False: explore, True: exploit}
        self.cut_after, self.openings, self.seeds = cut_after, [], []

    def play(self, speakers, seeds, sampling):
        self.openings.append([speaker.opening for speaker in speakers])
        self.seeds.append(list(seeds))
        return [self._record(speaker) for speaker in speakers]

    def _record(self, speaker):
        ids, mask, turns = [], [], []
        for number, line in enumerate(self.lines[EXPLOIT in speaker.opening]):
            turns.append((len(ids), len(ids) + len(line)))
            ids += map(ord, line)
            mask += [1] * len(line)
            reply = speaker.answer(line)
            if reply is None or number + 1 == self.cut_after:
                break
            ids += map(ord, reply)
            mask += [0] * len(reply)
        return TokenRecord(
            prompt_ids=(),
            completion_ids=tuple(ids),
            env_mask=tuple(mask),
            logprobs=tuple(-0.5 * sampled for sampled in mask),
            turns=tuple(turns),
            cut=self.cut_after is not None,
        )


def play(explore, exploit, cut_after=None, seed=7):
    engine = Script(explore, exploit, cut_after)
    policy = CheckpointPolicy(TASK, engine, Letters(), PlaySettings(decoupled=True), "two_phases")
    rollout = Rollout(case=CASE, number=3, greedy=False, seed=seed)
    (episode,) = policy.play([rollout])
    return episode, engine


def kinds(episode):
    return [type(turn) for turn in episode.turns]


def test_the_phases_compose_into_one_episode_that_the_verifier_reads():
    episode, _ = play([ASK, STOP], [COMMIT])
    assert kinds(episode) == [AskTurn, CommitTurn]
    assert episode.raw == (ASK, COMMIT)
    assert (episode.policy, episode.rollout) == ("two_phases", 3)
    outcome = verify(TASK, episode)
    assert (outcome.asks, outcome.turns) == (1, 2)
    assert outcome.reward == pytest.approx(outcome.utility - TASK.question_cost)


def test_the_episode_notes_how_surprised_the_policy_was_by_what_it_said():
    """Half a nat a token here; what the environment said is no part of it."""
    episode, _ = play([ASK, STOP], [COMMIT])
    said = len(ASK) + len(STOP) + len(COMMIT)
    assert episode.meta["sampled_tokens"] == said
    assert episode.meta["surprise"] == 0.5 * said


def test_stop_is_free_and_no_turn():
    episode, _ = play([STOP], [COMMIT])
    assert kinds(episode) == [CommitTurn]
    assert verify(TASK, episode).reward == pytest.approx(verify(TASK, episode).utility)


def test_a_commit_while_exploring_is_an_invalid_turn_and_is_charged():
    episode, _ = play([COMMIT, ASK, STOP], [COMMIT])
    assert kinds(episode) == [InvalidTurn, AskTurn, CommitTurn]
    assert episode.turns[0].invalid == "unknown_action"
    assert episode.raw[0] == COMMIT
    assert verify(TASK, episode).invalid_turns == 1


def test_exploring_ends_one_turn_before_the_cap():
    episode, _ = play([REPEAT] * 20, [COMMIT])
    assert kinds(episode) == [AskTurn] * (TASK.turn_cap - 1) + [CommitTurn]


@pytest.mark.parametrize(("failed", "reason"), [("no idea", "not_json"), (ASK, "unknown_action")])
def test_a_failed_commit_wastes_the_turns_that_are_left(failed, reason):
    episode, _ = play([ASK, STOP], [failed])
    assert kinds(episode) == [AskTurn] + [InvalidTurn] * (TASK.turn_cap - 1)
    assert {turn.invalid for turn in episode.turns[1:]} == {reason}
    assert episode.raw == (ASK, failed, *[""] * (TASK.turn_cap - 2))
    outcome = verify(TASK, episode)
    assert outcome.decision is None
    assert outcome.utility == TASK.no_decision_utility[CASE.state]


def test_exploring_that_was_cut_at_the_context_limit_ends_as_no_decision():
    episode, _ = play([ASK, ASK], [COMMIT], cut_after=1)
    assert verify(TASK, episode).decision is None
    assert COMMIT not in episode.raw


def test_the_phases_draw_from_different_seeds_and_the_largest_seed_has_a_successor():
    _, engine = play([ASK, STOP], [COMMIT], seed=2**64 - 1)
    assert engine.seeds == [[2**64 - 1], [0]]


def test_exploiting_sees_what_exploring_revealed():
    _, engine = play([ASK, STOP], [COMMIT])
    (opening,) = engine.openings[1]
    assert "prior_vte" in opening.split(EXPLOIT)[0].splitlines()[-1]


def test_settings_are_read_back_and_are_the_defaults_where_there_are_none(tmp_path):
    settings = PlaySettings(decoupled=True, turn_tokens=12, context_tokens=300, dtype="bfloat16")
    settings.write(tmp_path)
    assert read_settings(tmp_path) == settings
    assert read_settings(tmp_path / "nowhere") == PlaySettings()
    (tmp_path / "play.json").write_text(json.dumps({"decoupld": True}))
    with pytest.raises(InvalidArgument, match=r"play\.json"):
        read_settings(tmp_path)


def test_a_warmup_speaks_the_protocol_and_each_rollout_is_its_own(warmup, world, few):
    policy = load_checkpoint_policy(world.task, f"hf:{warmup.folder}")
    cases = world.cases("validation")[:20]
    played = evaluate(world, policy, cases, k=4, greedy=True)
    outcomes = [verify(world.task, episode) for episode in played]
    assert sum(outcome.invalid_turns for outcome in outcomes) < 0.5 * len(outcomes)
    assert sum(outcome.decision is not None for outcome in outcomes) > 0.6 * len(outcomes)
    assert all(len(episode.raw) == len(episode.turns) for episode in played)
    assert policy.name == f"hf:{warmup.folder}"
    greedy = {episode.turns for episode in played if episode.greedy}
    assert len(greedy) < len({episode.turns for episode in played})


def test_episodes_of_other_weights_under_the_same_path_are_not_continued(
    warmup, world, few, tmp_path
):
    start, file, cases = tmp_path / "start", tmp_path / "episodes.jsonl", world.cases("validation")
    shutil.copytree(warmup.folder, start)

    def played(count):
        policy = load_checkpoint_policy(world.task, f"hf:{start}")
        return evaluate(world, policy, cases[:count], k=1, out=file)

    (first,) = played(1)
    assert played(2)[0] == first
    weights = load_file(start / "model.safetensors")
    name = next(iter(weights))
    save_file(weights | {name: weights[name] + 1.0}, start / "model.safetensors", {"format": "pt"})
    with pytest.raises(InvalidArgument, match=r"other weights than hf:.* has now; choose another"):
        played(2)


def without_surprise(episode):
    """Which is a sum of logarithms, and exact to float noise only."""
    meta = {name: value for name, value in episode.meta.items() if name != "surprise"}
    return episode.model_copy(update={"meta": meta})


def test_batches_of_any_size_draw_the_same(warmup, world, few):
    policy = load_checkpoint_policy(world.task, f"hf:{warmup.folder}")
    cases = world.cases("validation")[:12]
    whole = evaluate(world, policy, cases, k=3)
    policy.settings = replace(policy.settings, batch_size=3)
    again = evaluate(world, policy, cases, k=3)
    assert [without_surprise(episode) for episode in again] == [
        without_surprise(episode) for episode in whole
    ]
    surprises = [[episode.meta["surprise"] for episode in played] for played in (again, whole)]
    assert surprises[0] == pytest.approx(surprises[1], abs=1e-3)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("hf:{here}/nothing", "is no checkpoint folder"),
        ("hf:{adapter}", "is an adapter; write hf:CHECKPOINT#"),
        ("hf:{start}#{here}", "has no adapter_config.json"),
    ],
)
def test_what_is_no_checkpoint_is_refused_in_one_line(unbroken, world, tmp_path, spec, says):
    places = {"here": tmp_path, "adapter": unbroken.folder / "best", "start": unbroken.start}
    with pytest.raises(InvalidArgument, match=says) as caught:
        load_checkpoint_policy(world.task, spec.format(**places))
    assert "\n" not in str(caught.value)
