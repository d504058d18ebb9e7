"""The plan of cases is fixed before the first step and keeps the share it is told to."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from clinical_envs.catalog import load_task
from clinical_envs.errors import InvalidArgument
from oracles.clinical import ClinicalWorld
from tests.oracles.variants import changed
from tests.training.toy import toy_config, toy_task
from training.config import Config
from training.plan import training_plan

DIAGNOSTICS = ClinicalWorld(load_task("diagnostics"))
N_TRAIN = 300


def config(
    share: float | None = None, *, seed: int = 0, groups: int = 8, steps: int = 50
) -> Config:
    return toy_config(
        seed=seed,
        reward={"high_risk_share": share},
        optim={"groups": groups, "steps": steps, "rollouts": 8, "micro_batch": 8},
    )


def high_risk(position: int) -> bool:
    task = DIAGNOSTICS.task
    state = DIAGNOSTICS.cases("train")[position].state
    return task.risk_groups[task.group_of_state[state]] == task.high_risk_group


@pytest.mark.parametrize(
    ("share", "groups", "high"),
    [(0.0, 8, 0), (0.01, 8, 1), (0.2, 8, 2), (0.25, 8, 2), (0.5, 4, 2), (1.0, 8, 8)],
)
def test_every_update_has_its_share_of_high_risk_groups(
    share: float, groups: int, high: int
) -> None:
    plan = training_plan(DIAGNOSTICS, config(share, groups=groups))
    steps = [plan[i : i + groups] for i in range(0, len(plan), groups)]
    assert len(steps) == 50
    assert {sum(map(high_risk, step)) for step in steps} == {high}


def test_without_a_share_every_case_comes_once_before_any_comes_twice() -> None:
    plan = training_plan(DIAGNOSTICS, config(steps=75))
    assert len(plan) == 2 * N_TRAIN
    assert sorted(plan[:N_TRAIN]) == sorted(plan[N_TRAIN:]) == list(range(N_TRAIN))
    assert plan[:N_TRAIN] != plan[N_TRAIN:]


def test_with_a_share_the_few_high_risk_cases_are_visited_alike() -> None:
    visits = Counter(filter(high_risk, training_plan(DIAGNOSTICS, config(0.25))))
    assert max(visits.values()) - min(visits.values()) <= 1
    assert len(visits) == sum(map(high_risk, range(N_TRAIN)))


@pytest.mark.parametrize("share", [None, 0.2])
def test_the_plan_depends_on_the_seed_and_on_nothing_around_it(
    share: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = training_plan(DIAGNOSTICS, config(share))
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "3")
    other_rewards = replace(config(share), optim=replace(config().optim, learning_rate=1.0))
    assert training_plan(ClinicalWorld(load_task("diagnostics")), other_rewards) == plan
    assert training_plan(DIAGNOSTICS, config(share, seed=1)) != plan


@pytest.mark.parametrize("share", [None, 0.2])
def test_a_longer_run_begins_like_a_shorter_one(share: float | None) -> None:
    long = training_plan(DIAGNOSTICS, config(share, steps=60))
    short = training_plan(DIAGNOSTICS, config(share, steps=10))
    assert long[: len(short)] == short


def test_a_share_of_a_set_without_high_risk_cases_is_refused_in_one_line() -> None:
    rare = [
        row | {"prior": prior}
        for row, prior in zip(
            toy_task().model_dump(mode="json")["states"], (1.0 - 1e-9, 1e-9), strict=True
        )
    ]
    world = ClinicalWorld(changed(toy_task(), states=rare))
    with pytest.raises(InvalidArgument, match="change high_risk_share") as caught:
        training_plan(world, config(0.2))
    assert "\n" not in str(caught.value)
