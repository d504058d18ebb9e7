"""Batches in the harness, with a policy that needs no model."""

from __future__ import annotations

import numpy as np
import pytest

from clinical_envs import load_task, read_episodes
from clinical_envs.errors import InvalidArgument
from clinical_envs.simulator import Commit, Encounter
from oracles.clinical import ClinicalWorld
from oracles.evaluation import evaluate

WORLD = ClinicalWorld(load_task("titration"))
CASES = WORLD.cases("heldout")[:10]


class Coin:
    """Commits to a drawn decision; a greedy rollout commits to the last one."""

    name = "coin"

    def __init__(self, batch_size=12, stop_after=None):
        self.batch_size, self.stop_after, self.batches = batch_size, stop_after, []

    def play(self, rollouts):
        if self.stop_after is not None and len(self.batches) >= self.stop_after:
            raise KeyboardInterrupt
        self.batches.append(rollouts)
        return [self._one(rollout) for rollout in rollouts]

    def _one(self, rollout):
        rng = np.random.default_rng(rollout.seed)
        encounter = Encounter(WORLD.task, rollout.case)
        encounter.step(Commit(2 if rollout.greedy else int(rng.integers(3))))
        return encounter.episode(
            policy=self.name, rollout=rollout.number, greedy=rollout.greedy, raw=("text",)
        )


def test_whole_cases_go_into_a_batch():
    policy = Coin(batch_size=12)
    evaluate(WORLD, policy, CASES, k=4, greedy=True)
    assert [len(batch) for batch in policy.batches] == [10] * 5


def test_a_batch_smaller_than_a_case_still_holds_one():
    policy = Coin(batch_size=1)
    evaluate(WORLD, policy, CASES, k=3)
    assert [len(batch) for batch in policy.batches] == [3] * 10


def test_records_are_those_of_any_policy():
    episodes = evaluate(WORLD, Coin(), CASES, k=2, greedy=True, seed=5)
    identities = [(e.case.index, e.rollout, e.greedy) for e in episodes]
    wanted = [(0, False), (1, False), (0, True)]
    assert identities == [(case.index, *rollout) for case in CASES for rollout in wanted]
    assert all(e.policy == "coin" and e.raw == ("text",) for e in episodes)
    assert all(e.meta["seed"] == 5 for e in episodes)
    assert all(WORLD.assess(e).turns == 1 for e in episodes)


def test_what_is_drawn_does_not_depend_on_the_batches_and_does_on_the_seed():
    small, large = (evaluate(WORLD, Coin(size), CASES, k=6) for size in (1, 1000))
    assert small == large
    other = evaluate(WORLD, Coin(), CASES, k=6, seed=1)
    assert [e.turns for e in other] != [e.turns for e in small]


def test_every_rollout_has_its_own_seed_and_two_policies_share_them():
    ours, theirs = Coin(1000), Coin(1000)
    theirs.name = "another"
    for policy in (ours, theirs):
        evaluate(WORLD, policy, CASES, k=6, greedy=True)
    seeds = [[rollout.seed for rollout in policy.batches[0]] for policy in (ours, theirs)]
    assert len(set(seeds[0])) == 70
    assert seeds[0] == seeds[1]


def test_a_stopped_evaluation_keeps_its_batches_and_goes_on(tmp_path):
    file, whole = tmp_path / "stopped.jsonl", tmp_path / "whole.jsonl"
    with pytest.raises(KeyboardInterrupt):
        evaluate(WORLD, Coin(8, stop_after=2), CASES, k=4, out=file)
    assert len(read_episodes(file).episodes) == 16
    with file.open("ab") as lines:
        lines.write(b'{"schema": 1, "task"')
    again = Coin(8)
    evaluate(WORLD, again, CASES, k=4, out=file)
    assert [len(batch) for batch in again.batches] == [8, 8, 8]
    evaluate(WORLD, Coin(), CASES, k=4, out=whole)
    assert file.read_text() == whole.read_text()


def test_more_rollouts_of_the_same_cases_play_the_new_ones_only(tmp_path):
    file = tmp_path / "more.jsonl"
    few = evaluate(WORLD, Coin(), CASES, k=2, out=file)
    policy = Coin(1000)
    more = evaluate(WORLD, policy, CASES, k=3, out=file)
    assert {rollout.number for rollout in policy.batches[0]} == {2}
    assert [e for e in more if e.rollout < 2] == few


def test_progress_counts_cases_and_ends_with_all_of_them():
    told = []
    evaluate(WORLD, Coin(8), CASES, k=3, progress=lambda done, total: told.append((done, total)))
    assert told == [(2, 10), (4, 10), (6, 10), (8, 10), (10, 10)]


def test_a_file_of_another_policy_is_refused(tmp_path):
    file = tmp_path / "theirs.jsonl"
    evaluate(WORLD, WORLD.policy("1_ask"), CASES, k=1, out=file)
    with pytest.raises(InvalidArgument, match="choose another file"):
        evaluate(WORLD, Coin(), CASES, k=1, out=file)
