"""What the training reward pays for at its optimum, exactly: `solve(task, credit=lambda)`.

It tells a bad reward from a bad optimiser.
"""

from __future__ import annotations

from dataclasses import dataclass

from oracles.clinical import ClinicalWorld
from oracles.exact import exact_value
from oracles.oracle import solve
from oracles.policies import make_policy
from training.break_even import break_even
from training.config import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardFacts:
    """What is known of a reward before the first step.

    value, asks: of the policy that is optimal for the reward, by the task's own utility; None
    where no exact optimum is known. oracle_value, oracle_asks: of the task's oracle. break_even:
    lambda at which the oracle's average question pays for itself.
    """

    reward: str
    value: float | None
    asks: float | None
    oracle_value: float
    oracle_asks: float
    break_even: float | None

    def __str__(self) -> str:
        oracle = f"the oracle has value {self.oracle_value:+.4f} with {self.oracle_asks:.2f} asks"
        if self.value is None:
            optimum = "no exact optimum is known for it"
        else:
            optimum = f"its optimum has value {self.value:+.4f} with {self.asks:.2f} asks"
        text = f"reward: {self.reward}; {optimum}; {oracle}"
        if self.break_even is not None:
            text += f"; break-even lambda {self.break_even:.3f}"
        return text


def reward_facts(world: ClinicalWorld, config: Config) -> RewardFacts:
    """The optimum of the configured reward and, with entropy credit, its break-even."""
    oracle = exact_value(world.task, world.policy("oracle"))
    shaped, best = _shaped_credit(config), None
    if shaped is not None:
        best = exact_value(world.task, make_policy("oracle", solve(world.task, credit=shaped)))
    return RewardFacts(
        reward=reward_words(config),
        value=None if best is None else best.value,
        asks=None if best is None else best.mean_asks,
        oracle_value=oracle.value,
        oracle_asks=oracle.mean_asks,
        break_even=break_even(world.oracle) if config.reward.entropy else None,
    )


def reward_words(config: Config) -> str:
    """The reward in one line.

    >>> from training.config import config_from
    >>> reward_words(config_from({"task": "titration", "warmup": {"kind": "full"}}))
    'outcome, group scaling'
    """
    reward = config.reward
    names = ("outcome", "entropy", "regret", "decision_change", "sufficiency")
    weights = {name: getattr(reward, name) for name in names}
    text: str = reward.variant
    if reward.variant == "decoupled":
        text += f", kappa {reward.kappa:g}"
    elif reward.proxy is not None:
        text += f" {reward.proxy}"
    elif reward.variant == "credit":
        text += ", " + ", ".join(f"{name} {weight:g}" for name, weight in weights.items() if weight)
    text += f", {reward.scale} scaling"
    text += ", per turn" if reward.per_turn else ""
    text += ", negative entropy drops clipped" if reward.clip_entropy else ""
    if reward.high_risk_share is not None:
        text += f", {100 * reward.high_risk_share:g} % of the groups high-risk"
    text += ", loss by turn" if config.optim.mean == "turns" else ""
    text += f", KL {config.optim.kl:g}" if config.optim.kl else ""
    return text


def _shaped_credit(config: Config) -> float | None:
    """The lambda whose shaped oracle is optimal for the reward; None where there is none.

    Regret credit leaves the optimum where it is: it sums to V^pi - V*. The others, and clipping,
    do not telescope.
    """
    reward = config.reward
    unsolved = reward.decision_change or reward.sufficiency or reward.clip_entropy
    if reward.variant in ("decoupled", "proxy") or unsolved:
        return None
    scale = reward.outcome + reward.regret
    if scale <= 0.0:
        return None
    return reward.entropy / scale
