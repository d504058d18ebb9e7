"""What the turns of an episode earn: a proxy at the end and costs on the way, or credits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from clinical_envs.catalog import load_task
from clinical_envs.episode import Episode
from clinical_envs.errors import InvalidArgument
from clinical_envs.simulator import Ask, Commit, Invalid
from oracles.clinical import ClinicalWorld
from oracles.evaluation import evaluate
from tests.world_training.play import committed, first_cases, spoken
from training.config import config_from, load_config
from training.engine import TokenRecord
from training.proxies import RubricVerifier
from training.rewards import RewardWeights, turn_credits
from training.rollouts import Scored, summary
from training.signals import ProxyPay, check_reward, make_signal

RUBRIC = load_task("rubric")
COST = RUBRIC.question_cost


@dataclass(frozen=True)
class Failing(RubricVerifier):
    """A verifier that cannot tell."""

    def reward(self, episode: Episode) -> float | None:
        return None


def test_a_proxy_is_paid_at_the_end_and_every_charged_turn_costs() -> None:
    signal = make_signal(ClinicalWorld(RUBRIC), load_config("rubric-weak-embedded"))
    (case,) = first_cases(RUBRIC, 1)
    actions = [Ask(0), Invalid("empty"), Ask(0), Commit(RUBRIC.decision("topical_only"))]
    earned = signal.earned(spoken(RUBRIC, case, actions))
    assert earned.turns == pytest.approx((-COST, -COST, -COST, 1.0))
    assert earned.entropy_drops == ()


def test_without_an_answer_only_the_costs_are_left() -> None:
    signal = make_signal(ClinicalWorld(RUBRIC), load_config("rubric-weak-embedded"))
    earned = signal.earned(spoken(RUBRIC, first_cases(RUBRIC, 1)[0], [Ask(0)]))
    assert earned.turns == pytest.approx((-COST,) * RUBRIC.turn_cap)


def test_a_proxy_that_cannot_tell_leaves_the_rollout_unscored_and_counted() -> None:
    signal = ProxyPay(RUBRIC, Failing(RUBRIC, "weak", 1.0))
    earned = signal.earned(committed(RUBRIC, first_cases(RUBRIC, 1)[0], "other"))
    assert earned.turns[:-1] == pytest.approx((-COST,))
    assert math.isnan(sum(earned.turns))
    record = TokenRecord(
        prompt_ids=(), completion_ids=(), env_mask=(), logprobs=(), turns=((0, 0),), cut=False
    )
    rollouts = [
        Scored(
            record=record,
            case=0,
            reward=reward,
            turn_rewards=(reward,),
            utility=0.0,
            invalid_turns=0,
            asks=1,
        )
        for reward in (sum(earned.turns), 0.5)
    ]
    assert summary(rollouts, 2)["rollout/unscored"] == 0.5


@pytest.mark.parametrize("name", ["titration-credit-embedded", "rubric-outcome-embedded"])
def test_credits_are_those_of_the_oracle(name: str) -> None:
    config = load_config(name)
    world = ClinicalWorld(load_task(config.task))
    weights = RewardWeights(outcome=1.0, entropy=config.reward.entropy)
    signal = make_signal(world, config)
    for episode in evaluate(world, world.policy("random"), world.cases("train")[:10], k=1):
        credits = turn_credits(world.oracle, episode)
        earned = signal.earned(episode)
        assert earned.turns == tuple(credit.total(weights) for credit in credits)
        assert earned.entropy_drops == tuple(credit.entropy_drop for credit in credits)
        assert np.isclose(sum(earned.turns), sum(c.total(weights) for c in credits))


@pytest.mark.parametrize(
    ("task", "reward", "problem"),
    [
        ("titration", {"variant": "proxy", "proxy": "weak"}, "an evidence world"),
        ("rubric", {"variant": "proxy", "proxy": "eg"}, "no training reward 'eg'"),
        ("rubric", {"variant": "decoupled"}, "no explore and exploit phases"),
    ],
)
def test_a_reward_that_a_task_cannot_pay_is_refused_at_once(
    task: str, reward: dict[str, str], problem: str
) -> None:
    config = config_from({"task": task, "warmup": {"kind": "full"}, "reward": reward})
    with pytest.raises(InvalidArgument, match=problem):
        check_reward(load_task(task), config)
