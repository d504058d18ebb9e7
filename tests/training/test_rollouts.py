"""Rollouts: groups of one case, seeds, the two phases, and the same play in two processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clinical_envs.errors import InvalidArgument
from clinical_envs.simulator import Commit
from clinical_envs.verifier import verify
from tests.training.toy import (
    FULL,
    NEEDS,
    NO,
    STRONG,
    ask_text,
    chat,
    commit_text,
    toy_config,
    toy_task,
    toy_world,
    warm_model,
)
from training.chat import ChatTokens
from training.config import Config
from training.dialogue import STOP, ExploitSpeaker, Speaker
from training.engine import Sampling, TokenRecord
from training.rewards import RewardWeights, episode_reward, turn_credits
from training.rollouts import Rollouts, summary

torch = pytest.importorskip("torch", reason=NEEDS)
pytest.importorskip("trl", reason=NEEDS)
InProcessEngine = pytest.importorskip("training.inprocess", reason=NEEDS).InProcessEngine

GROUPS, SIZE = 3, 8


class Reciting:
    """An engine without a model: each dialogue says the next lines of its script.

    lines: from the seed of a dialogue to what it says. It keeps what it was asked to play.
    """

    def __init__(self, lines: Any) -> None:
        self.lines = lines
        self.calls: list[tuple[list[Speaker], list[int], Sampling]] = []

    def play(
        self, speakers: Sequence[Speaker], seeds: Sequence[int], sampling: Sampling
    ) -> list[TokenRecord]:
        self.calls.append((list(speakers), list(seeds), sampling))
        return [
            self._record(chat(), speaker, self.lines(seed, speaker))
            for speaker, seed in zip(speakers, seeds, strict=True)
        ]

    def _record(self, tokens: ChatTokens, speaker: Speaker, lines: Sequence[str]) -> TokenRecord:
        ids, mask, turns = list[int](), list[int](), list[tuple[int, int]]()
        for text in lines:
            turn = tokens.turn(text)
            turns.append((len(ids), len(ids) + len(turn)))
            ids += turn
            mask += [1] * len(turn)
            reply = speaker.answer(text)
            if reply is None:
                break
            ids += tokens.reply(reply)
            mask += [0] * len(tokens.reply(reply))
        return TokenRecord(
            prompt_ids=tokens.prompt(speaker.opening),
            completion_ids=tuple(ids),
            env_mask=tuple(mask),
            logprobs=(0.0,) * len(ids),
            turns=tuple(turns),
            cut=False,
        )


def ask_and_commit(seed: int, _: Speaker) -> list[str]:
    task = toy_task()
    return [ask_text(task, seed % 3), commit_text(task, FULL if seed % 2 else NO)]


def explore_and_exploit(seed: int, speaker: Speaker) -> list[str]:
    task = toy_task()
    if isinstance(speaker, ExploitSpeaker):
        return [commit_text(task, FULL if seed % 2 else NO)]
    return [ask_text(task, seed % 3), STOP]


def config(**reward: Any) -> Config:
    return toy_config(
        reward=reward, optim={"groups": GROUPS, "rollouts": SIZE, "micro_batch": SIZE}
    )


def trainer(step: int) -> Any:
    return SimpleNamespace(state=SimpleNamespace(global_step=step))


def prompts(*cases: int) -> list[str]:
    return [str(case) for case in cases for _ in range(SIZE)]


def rollouts(lines: Any = ask_and_commit, **reward: Any) -> tuple[Rollouts, Reciting]:
    engine = Reciting(lines)
    return Rollouts(toy_world(), config(**reward), engine), engine


def test_all_rollouts_of_a_group_face_the_case_their_row_names() -> None:
    play, engine = rollouts()
    columns = play(prompts(5, 2, 7), trainer(0))
    cases = toy_world().cases("train")
    ((speakers, _, _),) = engine.calls
    assert [getattr(s, "case", None) for s in speakers] == [
        cases[case] for case in (5, 2, 7) for _ in range(SIZE)
    ]
    assert [scored.case for scored in play.last] == [5] * SIZE + [2] * SIZE + [7] * SIZE
    assert {len(column) for column in columns.values()} == {GROUPS * SIZE}


def test_a_batch_that_splits_a_group_is_refused_in_one_line() -> None:
    play, _ = rollouts()
    with pytest.raises(InvalidArgument, match="splits a group of 8") as caught:
        play(prompts(5, 2)[:-3], trainer(0))
    assert "\n" not in str(caught.value)


def seeds_of(step: int, *cases: int, seed: int = 0) -> list[int]:
    engine = Reciting(ask_and_commit)
    settings = toy_config(seed=seed, optim={"groups": GROUPS, "rollouts": SIZE, "micro_batch": 8})
    Rollouts(toy_world(), settings, engine)(prompts(*cases), trainer(step))
    return engine.calls[0][1]


def test_seeds_differ_between_rollouts_cases_steps_and_runs_and_repeat_otherwise() -> None:
    base = seeds_of(0, 5, 2, 7)
    assert seeds_of(0, 5, 2, 7) == base
    assert len({*base, *seeds_of(1, 5, 2, 7), *seeds_of(0, 5, 2, 7, seed=1)}) == 3 * len(base)


def test_seeds_do_not_depend_on_where_in_the_batch_a_group_stands() -> None:
    whole = seeds_of(0, 5, 2, 7)
    assert seeds_of(0, 2)[:SIZE] == whole[SIZE : 2 * SIZE]
    assert seeds_of(0, 7, 5) == whole[2 * SIZE :] + whole[:SIZE]


def test_the_reward_is_that_of_the_episode_and_its_turns_sum_to_it() -> None:
    play, _ = rollouts(variant="credit", entropy=0.2, regret=1.0)
    columns = play(prompts(5, 2, 7), trainer(0))
    weights = RewardWeights(entropy=0.2, regret=1.0)
    for scored, reward in zip(play.last, columns["reward"], strict=True):
        assert scored.episode is not None
        assert reward == pytest.approx(episode_reward(toy_world().oracle, scored.episode, weights))
        assert sum(scored.turn_rewards) == pytest.approx(reward)
        assert len(scored.turn_rewards) == len(scored.record.turns)


def test_the_outcome_variant_pays_the_verifiers_reward() -> None:
    play, _ = rollouts()
    play(prompts(5, 2, 7), trainer(0))
    for scored in play.last:
        assert scored.episode is not None
        outcome = verify(toy_world().task, scored.episode)
        assert scored.reward == pytest.approx(outcome.reward)
        assert (scored.utility, scored.asks) == (outcome.utility, outcome.asks)


def test_updates_of_the_decoupled_variant_alternate_and_exploit_what_was_explored() -> None:
    play, engine = rollouts(explore_and_exploit, variant="decoupled")
    play(prompts(5, 2, 7), trainer(0))
    explored = list(engine.calls[0][0])
    play(prompts(5, 2, 7), trainer(1))
    exploiting = engine.calls[1][0]
    for start in range(0, GROUPS * SIZE, SIZE):
        group = exploiting[start : start + SIZE]
        openings = {speaker.opening for speaker in group}
        found = {
            ExploitSpeaker(toy_task(), speaker.info).opening  # type: ignore[attr-defined]
            for speaker in explored[start : start + SIZE]
        }
        assert len(openings) == 1
        assert openings < found
    for scored, speaker in zip(play.last, exploiting, strict=True):
        action = speaker.action  # type: ignore[attr-defined]
        assert isinstance(action, Commit)
        state = play.cases[scored.case].state
        assert scored.reward == toy_task().utility_matrix[state, action.decision]


def test_which_transcript_is_exploited_does_not_depend_on_the_place_in_the_batch() -> None:
    drawn = []
    for cases in ((5, 2, 7), (2, 7), (7, 5, 2)):
        play, engine = rollouts(explore_and_exploit, variant="decoupled")
        play(prompts(*cases), trainer(0))
        play(prompts(*cases), trainer(1))
        openings = [speaker.opening for speaker in engine.calls[1][0][::SIZE]]
        drawn.append(dict(zip(cases, openings, strict=True)))
    assert drawn[0] == drawn[2]
    assert drawn[1] == {case: drawn[0][case] for case in (2, 7)}


def test_exploiting_another_case_than_was_explored_is_refused() -> None:
    play, _ = rollouts(explore_and_exploit, variant="decoupled")
    play(prompts(5, 2, 7), trainer(0))
    with pytest.raises(InvalidArgument, match="another case"):
        play(prompts(2, 5, 7), trainer(1))


def test_what_is_logged_of_a_batch_is_counted_from_it() -> None:
    babble = ["what?", commit_text(toy_task(), FULL)]
    play, _ = rollouts(lambda seed, _: [ask_text(toy_task(), STRONG), *babble])
    play(prompts(5, 2, 7), trainer(0))
    logged = summary(play.last, SIZE)
    assert logged["rollout/asks"] == logged["rollout/one_ask_rate"] == 1.0
    assert logged["rollout/parse_failure_rate"] == pytest.approx(1 / 3)
    assert logged["rollout/same_utility_groups"] == 1.0
    assert logged["rollout/cut"] == 0.0


def test_rollouts_of_a_model_carry_the_credits_of_their_own_episode() -> None:
    engine = InProcessEngine(warm_model(), chat())
    play = Rollouts(toy_world(), config(variant="credit", entropy=0.5), engine)
    play(prompts(5, 2, 7), trainer(0))
    assert len({scored.reward for scored in play.last}) > 3
    for scored in play.last:
        assert scored.episode is not None
        assert scored.episode.raw is not None
        drops = [credit.entropy_drop for credit in turn_credits(toy_world().oracle, scored.episode)]
        assert list(scored.entropy_drops) == drops
        spoken = [
            chat().text(list(scored.record.completion_ids[a:b])) for a, b in scored.record.turns
        ]
        assert list(scored.episode.raw[: len(spoken)]) == spoken


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policy")
    warm_model().save_pretrained(folder)
    return folder


def distributed(policy: Path, processes: int, out: Path) -> dict[str, Any]:
    """What `tests.training.trl_run` saw in so many processes."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(processes)]
    command += ["--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0"]
    command += ["-m", "tests.training.trl_run", str(policy), str(processes), str(out)]
    environment = os.environ | {"PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(out.read_text())
    return found


@pytest.mark.slow
def test_two_processes_play_the_groups_of_one(policy: Path, tmp_path: Path) -> None:
    one, two = (distributed(policy, n, tmp_path / f"{n}.json") for n in (1, 2))
    assert (one["world_size"], two["world_size"]) == (1, 2)
    for alone, shared in zip(one["batches"], two["batches"], strict=True):
        assert [row["case"] for row in shared] == [row["case"] for row in alone]
    first, again = one["batches"][0], two["batches"][0]
    assert len(first) == 16
    assert [row["completion"] for row in again] == [row["completion"] for row in first]
    assert [row["reward"] for row in again] == [row["reward"] for row in first]
    for mine, theirs in zip(first, again, strict=True):
        assert mine["advantages"] == pytest.approx(theirs["advantages"], abs=1e-6)
    assert any(abs(value) > 0.1 for row in first for value in row["advantages"])
