"""Training against a checker in miniature.

GRPO on the four independent softmax factors of `answer_model`, on policy, one update per batch:

    logits += RATE * (mean_i A_i grad log pi(a_i) - KL_WEIGHT * grad KL(pi || base))

with `A` normalised within groups. The settings were fixed before the first run and one was changed
after it: 200 steps end before the policies settle and show only the first stage of the cascade, so
there are 600 and results are given at both.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from clinical_envs.checkedqa.cascade import Stage, stages
from clinical_envs.checkedqa.rewards import normalise
from clinical_envs.checkedqa.simulated import Confusion
from oracles.reward_audit.answer_model import Answers, base_logits, grade, sample

STEPS, GROUPS, GROUP_SIZE = 600, 32, 8
RATE, KL_WEIGHT = 0.3, 0.03

Logits = tuple[NDArray[np.float64], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """One run; arrays have shape (STEPS,), `reached` maps a stage to its first step.

    `phi_spread` and `reward_spread` are mean within-group standard deviations before
    normalisation, `f1` is measured against the truth and never trained on.
    """

    f1: NDArray[np.float64]
    reward_spread: NDArray[np.float64]
    phi_spread: NDArray[np.float64]
    reached: dict[Stage, int]
    policy: tuple[tuple[float, ...], ...]


def train(checker: Confusion, gates: Collection[Stage] = (), *, seed: int) -> Training:
    """Train the base policy against a checker, with counter-measures against some stages."""
    generator = np.random.default_rng(seed)
    base = base_logits()
    logits, reference = base, None
    columns: list[tuple[float, float, float]] = []
    reached: dict[Stage, int] = {}
    for step in range(STEPS):
        answers = sample(logits, GROUPS * GROUP_SIZE, generator)
        graded = grade(answers, checker, gates, generator)
        reference = reference or graded.behaviour
        for stage in stages(graded.behaviour, reference):
            reached.setdefault(stage, step)
        rewards = graded.behaviour.reward.reshape(GROUPS, GROUP_SIZE)
        phi = graded.phi.reshape(GROUPS, GROUP_SIZE)
        advantages, spread = normalise(rewards)
        columns.append((graded.f1.mean(), spread.mean(), normalise(phi)[1].mean()))
        logits = policy_update(logits, base, answers, advantages.ravel())
    f1, reward_spread, phi_spread = np.array(columns).T
    return Training(
        f1=f1,
        reward_spread=reward_spread,
        phi_spread=phi_spread,
        reached=reached,
        policy=tuple(tuple(softmax(one).tolist()) for one in logits),
    )


def policy_update(
    logits: Logits,
    base: Logits,
    answers: Answers,
    advantages: NDArray[np.float64],
    *,
    rate: float = RATE,
    kl_weight: float = KL_WEIGHT,
) -> Logits:
    """One gradient step on the logits of every factor; `advantages` has shape (answers,)."""
    updated = []
    for one, start, choice in zip(logits, base, answers.choices, strict=True):
        p = softmax(one)
        chosen = np.bincount(choice, weights=advantages, minlength=len(p)) / len(choice)
        gain_gradient = chosen - advantages.mean() * p
        log_ratio = np.log(p) - np.log(softmax(start))
        kl_gradient = p * (log_ratio - p @ log_ratio)
        updated.append(one + rate * (gain_gradient - kl_weight * kl_gradient))
    return tuple(updated)
