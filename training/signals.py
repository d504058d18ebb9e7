"""What the turns of a finished episode earn in training: credits of the oracle, or a proxy.

A signal is chosen by `reward.variant`; the decoupled variant pays its phases by itself
(`training.rollouts`). Nothing of it reaches evaluation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from clinical_envs.episode import Episode
from clinical_envs.errors import InvalidArgument
from clinical_envs.simulator import Commit
from clinical_envs.task import Task
from clinical_envs.verifier import verify
from oracles.clinical import ClinicalWorld
from oracles.oracle import Oracle
from training.config import Config
from training.proxies import Proxy, make_proxy
from training.rewards import RewardWeights, turn_credits
from training.world_words import speaks_findings


@dataclass(frozen=True, slots=True, kw_only=True)
class Earned:
    """What each turn earned, NaN where it is unscored. entropy_drops: what each turn revealed."""

    turns: tuple[float, ...]
    entropy_drops: tuple[float, ...] = ()


class Signal(Protocol):
    """Pays the turns of an episode."""

    def earned(self, episode: Episode) -> Earned:
        """One number a turn; they sum to the reward that advantages compare."""
        ...


@dataclass(frozen=True, slots=True)
class Credits:
    """The outcome and the oracle's credits, weighted (`training.rewards`)."""

    oracle: Oracle
    weights: RewardWeights

    def earned(self, episode: Episode) -> Earned:
        """Credits of every turn."""
        credits = turn_credits(self.oracle, episode)
        return Earned(
            turns=tuple(credit.total(self.weights) for credit in credits),
            entropy_drops=tuple(credit.entropy_drop for credit in credits),
        )


@dataclass(frozen=True, slots=True)
class ProxyPay:
    """A proxy reward at the last turn; every charged turn pays its own cost."""

    task: Task
    proxy: Proxy

    def earned(self, episode: Episode) -> Earned:
        """Costs, and the proxy on top at the end."""
        turns = [
            0.0 if isinstance(action, Commit) else -self.task.question_cost
            for action in verify(self.task, episode).actions
        ]
        paid = self.proxy.reward(episode)
        turns[-1] += math.nan if paid is None else paid
        return Earned(turns=tuple(turns))


def make_signal(world: ClinicalWorld, config: Config) -> Signal:
    """The signal of a configuration.

    Raises:
        InvalidArgument: as `check_reward`.
    """
    check_reward(world.task, config)
    reward = config.reward
    if reward.proxy is not None:
        return ProxyPay(world.task, make_proxy(world.task, reward.proxy))
    weights = RewardWeights(
        outcome=reward.outcome,
        entropy=reward.entropy,
        regret=reward.regret,
        decision_change=reward.decision_change,
        sufficiency=reward.sufficiency,
        clip_entropy=reward.clip_entropy,
    )
    return Credits(world.oracle, weights)


def check_reward(task: Task, config: Config) -> None:
    """Refuse a reward that a task cannot pay, before anything is loaded.

    Raises:
        InvalidArgument: the task has no proxy of that name, no two phases, or no words of its own
            that a menu could stand for.
    """
    if config.reward.proxy is not None:
        make_proxy(task, config.reward.proxy)
    if config.model.menu and speaks_findings(task):
        raise InvalidArgument(
            f"model.menu: {task.name} has no words of its own, it speaks the protocol of findings "
            "anyway; set model.menu=false"
        )
    if config.reward.variant == "decoupled" and not speaks_findings(task):
        raise InvalidArgument(
            f"reward.variant: {task.name} has a dialogue of its own, with no explore and exploit "
            "phases; choose another variant"
        )
