"""The array environment: spaces, turns, masks, randomness, outcome, rendering."""

from __future__ import annotations

import copy
import pickle
import sys
from enum import IntEnum
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.adapters.layout import Layout
from clinical_envs.adapters.registry import array_ids
from clinical_envs.adapters.single import ClinicalEnv
from clinical_envs.belief import posterior
from clinical_envs.catalog import load_task
from clinical_envs.errors import EpisodeOver, InvalidAction, InvalidArgument, MissingExtra
from clinical_envs.task import Task
from clinical_envs.verifier import verify
from tests.strategies import tasks


class Choice(IntEnum):
    """An action as an integer enumeration."""

    FEVER = 0


def made(**kwargs: Any) -> ClinicalEnv:
    env = gym.make("ClinicalAskToCommit-v0", **kwargs).unwrapped
    assert isinstance(env, ClinicalEnv)
    return env


@given(
    tasks(certain=True),
    st.integers(0, 2**40),
    st.integers(0, 2**40),
    st.sampled_from((0.0, 0.3, 1.0)),
    st.lists(st.integers(0, 8), min_size=6, max_size=6),
)
def test_an_episode_shows_pays_and_records_what_the_verifier_finds_in_its_record(
    task: Task, seed: int, index: int, rho: float, script: list[int]
) -> None:
    env, layout = ClinicalEnv(task, rho=rho), Layout(task)
    observation, info = env.reset(seed=seed, options={"index": index})
    paid, over = 0.0, False
    while not over:
        known = env._encounter().info
        np.testing.assert_array_equal(observation, layout.observation(known))
        np.testing.assert_array_equal(info["action_mask"], layout.action_mask(known))
        np.testing.assert_array_equal(env.action_masks(), info["action_mask"] == 1)
        assert info.keys() == {"action_mask"}
        turn = task.turn_cap - known.turns_left
        observation, reward, over, truncated, info = env.step(script[turn] % layout.actions)
        assert (type(reward), type(over), truncated) == (float, bool, False)
        paid += reward
    outcome, told = verify(task, env.episode()), info["outcome"]
    for name in ("committed", "utility", "asks", "repeats", "invalid_turns", "reward"):
        assert told[name] == getattr(outcome, name), name
    assert (told["state"], told["index"]) == (env.episode().state, index)
    assert paid == pytest.approx(outcome.reward, abs=1e-12)


@given(tasks(), st.integers(0, 99), st.sampled_from((0.0, 0.3, 1.0)))
def test_observations_are_at_the_documented_positions(task: Task, seed: int, rho: float) -> None:
    env = ClinicalEnv(task, rho=rho)
    observation, _ = env.reset(seed=seed)
    case = env._case
    findings, families = len(task.findings), len(task.families)
    shown = [1.0 if case.answers[q] else -1.0 for q in case.revealed]
    assert observation[list(case.revealed)].tolist() == shown
    assert np.count_nonzero(observation[:findings]) == len(case.revealed)
    assert observation[findings : findings + families].tolist() == [
        float(family == case.family) for family in range(families)
    ]
    assert observation[findings + families] == 1.0
    assert observation.shape == (findings + families + 1,)
    assert observation.dtype == np.float32


def test_the_mask_hides_findings_seen_and_on_the_last_turn_every_ask_but_no_commit() -> None:
    env = made()
    _, info = env.reset(seed=0)
    assert info["action_mask"].tolist() == [1] * 10
    assert info["action_mask"].dtype == np.int8
    for finding in (3, 3, 0, 5):
        info = env.step(finding)[-1]
        assert info["action_mask"][6:].tolist() == [1] * 4
        assert info["action_mask"][finding] == 0
    assert info["action_mask"].tolist() == [0, 1, 1, 0, 1, 0, 1, 1, 1, 1]
    assert env.step(1)[-1]["action_mask"].tolist() == [0] * 6 + [1] * 4
    assert env.action_masks().tolist() == [False] * 6 + [True] * 4


def test_out_of_turns_is_a_termination_that_pays_the_utility_of_no_decision() -> None:
    env = made()
    env.reset(seed=0)
    task = env.task
    for _ in range(task.turn_cap - 1):
        assert env.step(0)[1:4] == (-task.question_cost, False, False)
    observation, reward, terminated, truncated, info = env.step(0)
    state = task.state_ids.index(info["outcome"]["state"])
    assert (terminated, truncated) == (True, False)
    assert reward == -task.question_cost + task.no_decision_utility[state]
    assert observation[-1] == 0.0
    assert info["outcome"]["committed"] is False
    assert info["outcome"]["repeats"] == task.turn_cap - 1


@pytest.mark.parametrize(
    "action",
    [0, np.int64(0), np.uint8(0), np.array(0), np.array(0, np.int32), Choice.FEVER],
    ids=repr,
)
def test_integers_of_every_kind_are_actions(action: Any) -> None:
    env = made()
    env.reset(seed=1)
    assert env.step(action)[0][0] != 0.0


@pytest.mark.parametrize(
    "action",
    [-1, 10, 99, 2**80, None, "3", 3.0, np.float32(3), np.array([3]), True, np.True_, [3], {}],
    ids=repr,
)
def test_anything_else_is_refused_by_name_and_costs_nothing(action: Any) -> None:
    env = gym.make("ClinicalAskToCommit-v0")
    env.reset(seed=1)
    with pytest.raises(InvalidAction, match="integer from 0 to 9: 0 to 5 ask") as refused:
        env.step(action)
    assert "\n" not in str(refused.value)
    assert env.step(0)[0][-1] == np.float32(5 / 6)


def test_a_step_before_the_start_or_after_the_end_is_refused_through_make_too() -> None:
    for env in (made(), gym.make("ClinicalDx-v0")):
        with pytest.raises(EpisodeOver, match="reset"):
            env.step(0)
        env.reset(seed=0)
        commit = int(env.action_space.n) - 1
        assert env.step(commit)[2] is True
        for late in (commit, 0):
            with pytest.raises(EpisodeOver, match="over"):
                env.step(late)


def test_episode_is_refused_until_the_end() -> None:
    env = made()
    with pytest.raises(EpisodeOver, match="no episode has started"):
        env.episode()
    env.reset(seed=0)
    with pytest.raises(EpisodeOver, match="still running"):
        env.episode()
    env.step(6)
    assert env.episode(policy="p", rollout=3, greedy=True).policy == "p"


def test_a_seed_starts_a_stream_reset_goes_on_and_an_index_picks() -> None:
    env = made()

    def index(**how: Any) -> tuple[int, int]:
        env.reset(**how)
        return env._case.seed, env._case.index

    assert [index(seed=5), index(), index(), index(seed=5)] == [(5, 0), (5, 1), (5, 2), (5, 0)]
    assert [index(options={"index": 900}), index()] == [(5, 900), (5, 901)]
    assert [index(seed=6, options={"index": 70}), index()] == [(6, 70), (6, 71)]
    assert index(options={}) == (6, 72)


def test_a_first_reset_without_a_seed_takes_fresh_entropy() -> None:
    first, second = made(), made()
    first.reset()
    second.reset()
    assert first._case.seed != second._case.seed
    assert first._case.seed == first.np_random_seed


@pytest.mark.parametrize("index", [-1, 1.0, "1", None, True, 2**63], ids=repr)
def test_a_bad_index_is_refused(index: Any) -> None:
    with pytest.raises(InvalidArgument, match="index"):
        made().reset(options={"index": index})


def test_bad_arguments_are_refused_with_a_hint() -> None:
    with pytest.raises(InvalidArgument, match="did you mean 'index'"):
        made().reset(options={"indx": 3})
    with pytest.raises(InvalidArgument, match="did you mean 'heldout'"):
        made(split="held_out")
    with pytest.raises(InvalidArgument, match="rho is 2"):
        made(rho=2)
    with pytest.raises(InvalidArgument, match="did you mean 'ansi'"):
        ClinicalEnv("refill", render_mode="ascii")


def test_a_refused_reset_leaves_the_running_episode_alone() -> None:
    env = made()
    env.reset(seed=5)
    with pytest.raises(InvalidArgument):
        env.reset(seed=6, options={"nope": 1})
    env.step(0)
    env.reset()
    assert (env._case.seed, env._case.index) == (5, 1)


def test_splits_are_different_streams() -> None:
    def hashes(split: str) -> set[str]:
        env = ClinicalEnv("diagnostics", split=split)
        env.reset(seed=3)
        found = set()
        for _ in range(50):
            env.reset()
            found.add(env._case.hash)
        return found

    assert len(hashes("train") | hashes("heldout")) == 100


def test_privileged_adds_exact_posterior_and_state_and_nothing_else_does() -> None:
    env = made(privileged=True)
    _, info = env.reset(seed=4)
    for finding in (0, 2):
        info = env.step(finding)[-1]
    view = info["privileged"]
    np.testing.assert_array_equal(view["posterior"], posterior(env.task, env._encounter().info))
    assert view["state"] == env.task.state_ids[env._case.state]
    assert made().reset(seed=4)[1].keys() == {"action_mask"}


@pytest.mark.parametrize("env_id", array_ids())
def test_copies_and_pickles_go_on_alike_and_apart(env_id: str) -> None:
    env = gym.make(env_id)
    env.reset(seed=8)
    env.step(1)
    twins = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    expected = [env.step(2), env.step(2), env.reset()]
    for twin in twins:
        for want, got in zip(expected, [twin.step(2), twin.step(2), twin.reset()], strict=True):
            assert pickle.dumps(want) == pickle.dumps(got)


def test_ansi_shows_the_encounter_and_only_at_the_end_the_outcome() -> None:
    env = gym.make("ClinicalAskToCommit-v0", render_mode="ansi", rho=0.5)
    env.reset(seed=2)
    shown = env.render()
    assert isinstance(shown, str)
    assert "known at the start" in shown
    assert shown.endswith("turns left: 6 of 6")
    env.step(0)
    env.step(7)
    assert "1. ask fever: " in env.render()
    assert "2. commit delayed_prescription\nend: delayed_prescription, state " in env.render()


def test_human_prints_on_reset_and_step(capsys: pytest.CaptureFixture[str]) -> None:
    env = gym.make("ClinicalAskToCommit-v0", render_mode="human")
    env.reset(seed=2)
    env.step(0)
    assert env.render() is None
    assert capsys.readouterr().out.count("Sore throat") == 3


def test_rgb_array_is_a_picture_of_fixed_size_that_changes() -> None:
    env = gym.make("ClinicalAskToCommit-v0", render_mode="rgb_array")
    env.reset(seed=2)
    before = env.render()
    env.step(0)
    after = env.render()
    assert isinstance(before, np.ndarray)
    assert isinstance(after, np.ndarray)
    assert before.dtype == np.uint8
    assert before.shape == after.shape == (286, 640, 3)
    assert (before != after).any()


def test_a_picture_without_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    env = made(render_mode="rgb_array")
    env.reset(seed=0)
    with pytest.raises(MissingExtra, match=r"pip install 'clinical-envs\[plots\]'"):
        env.render()


def test_rendering_without_a_mode_or_an_episode_says_what_to_do() -> None:
    env = made()
    env.reset(seed=0)
    with pytest.raises(InvalidArgument, match="render_mode='ansi'"):
        env.render()
    with pytest.raises(EpisodeOver, match="reset"):
        made(render_mode="ansi").render()


def test_the_record_can_be_read_back_and_verified() -> None:
    env = gym.make("ClinicalDx-v0", split="heldout")
    env.reset(seed=100)
    env.step(7)
    env.step(21)
    episode = env.unwrapped.episode(policy="hand")
    assert verify(load_task("diagnostics"), episode).asks == 1
    assert episode.case.seed == 100
