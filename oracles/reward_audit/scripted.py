"""Scripted runs: a healthy one, and one for each failure the audit must find.

Each run has 40 prompts and five checkpoints 25 steps apart, with judgments (four presence and two
absence criteria a prompt, a panel of three), checks (eight rollouts of about four claims) and
rewards. A failure changes one thing; everything else stays healthy. Drawn from an explicit seed.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from clinical_envs.checkedqa.cascade import FEW_CLAIMS
from clinical_envs.checkedqa.checkers import LABELS, Label
from clinical_envs.checkedqa.rewards import Phi
from clinical_envs.checkedqa.simulated import MODERATE, TYPICAL_MIX, Confusion, Row
from clinical_envs.rubric.verifiers import Leniency
from oracles.reward_audit.records import CheckRow, JudgmentRow, Log, RewardRow

PROMPTS, CHECKPOINTS, SPACING, ROLLOUTS = 40, 5, 25, 8
PRESENCE, ABSENCE = 4, 2


class Failure(StrEnum):
    """What a scripted run does wrong; the value is the rule that must flag it."""

    COLLAPSE = "neutral_collapse"
    SATURATION = "saturation"
    UNINFORMATIVE = "uninformative_checker"
    EXPLOITATION = "exploitation_rise"
    PRESENCE_GAMING = "presence_gaming"
    OVEROPTIMISATION = "stopping_regret"
    ULTRA_SHORT = "ultra_short"
    SEARCH_AVOIDANCE = "search_avoidance"
    LANGUAGE_SWITCH = "language_switch"


_NEUTRAL = Confusion(
    name="always neutral",
    entail=(0.001, 0.998, 0.001),
    neutral=(0.001, 0.998, 0.001),
    contradict=(0.001, 0.998, 0.001),
    off_form=(0.001, 0.998, 0.001),
)
_ENTAIL = Confusion(
    name="always entail",
    entail=(0.99, 0.01, 0.00),
    neutral=(0.99, 0.01, 0.00),
    contradict=(0.98, 0.01, 0.01),
    off_form=(0.99, 0.01, 0.00),
)
_SHARES: Row = (0.54, 0.30, 0.16)
_RANDOM = Confusion(
    name="random", entail=_SHARES, neutral=_SHARES, contradict=_SHARES, off_form=_SHARES
)
_CHECKERS: dict[Failure | None, Confusion] = {
    Failure.COLLAPSE: _NEUTRAL,
    Failure.SATURATION: _ENTAIL,
    Failure.UNINFORMATIVE: _RANDOM,
}


def scripted_run(failure: Failure | None, seed: int) -> Log:
    """The rows of one run; `None` is the healthy one."""
    generator = np.random.default_rng(seed)
    log = Log()
    for checkpoint in range(CHECKPOINTS):
        progress = checkpoint / (CHECKPOINTS - 1)
        for prompt in range(PROMPTS):
            step = checkpoint * SPACING
            _add_judgments(log, failure, step, prompt, progress, seed)
            _add_rollouts(log, failure, step, prompt, progress, generator)
    return log


def _add_judgments(
    log: Log, failure: Failure | None, step: int, prompt: int, progress: float, seed: int
) -> None:
    """Criteria have fixed difficulties: those below the answer's quality are met in truth.

    An exploiting policy also gains credit for criteria that are not met; one that games presence
    meets presence criteria faster and absence criteria slower.
    """
    generator = np.random.default_rng((seed, prompt))
    difficulty = generator.random(PRESENCE + ABSENCE)
    gap = generator.random(PRESENCE + ABSENCE)
    noise = np.random.default_rng((seed, prompt, step))
    for criterion in range(PRESENCE + ABSENCE):
        presence = criterion < PRESENCE
        quality = 0.30 + 0.30 * progress
        if failure is Failure.PRESENCE_GAMING:
            quality = 0.30 + (0.45 if presence else -0.05) * progress
        met = bool(difficulty[criterion] < quality)
        exploited = failure is Failure.EXPLOITATION and gap[criterion] < 0.6 * progress**2
        votes = [met ^ bool(noise.random() < 0.01) for _ in range(3)]
        verdict = bool(met or exploited) ^ bool(noise.random() < 0.02)
        log.add(
            JudgmentRow(
                step=step,
                prompt=prompt,
                criterion=criterion,
                training=verdict,
                panel=list(votes),
                demand="presence" if presence else "absence",
                cause=Leniency.MISSING_CONJUNCT if verdict and not met else None,
            )
        )


def _add_rollouts(
    log: Log,
    failure: Failure | None,
    step: int,
    prompt: int,
    progress: float,
    generator: np.random.Generator,
) -> None:
    """Checks and rewards of one group."""
    drifted = progress > 0.5
    for rollout in range(ROLLOUTS):
        claims = int(generator.integers(3, 6))
        if failure is Failure.ULTRA_SHORT and drifted and generator.random() < 0.9:
            claims = FEW_CLAIMS
        truth = generator.choice(len(LABELS), size=claims, p=TYPICAL_MIX)
        verdicts = _CHECKERS.get(failure, MODERATE).draw(truth, False, generator)
        for claim in range(claims):
            log.add(
                CheckRow(
                    step=step,
                    prompt=prompt,
                    rollout=rollout,
                    claim=claim,
                    verdict=LABELS[int(verdicts[claim])],
                    truth=LABELS[int(truth[claim])],
                )
            )
        phi = float(Phi().of_shares(*(np.bincount(verdicts, minlength=3) / claims)))
        base = 0.5 + 0.2 * progress + float(generator.normal(0, 0.02))
        skips = failure is Failure.SEARCH_AVOIDANCE and drifted and generator.random() < 0.98
        foreign = failure is Failure.LANGUAGE_SWITCH and drifted
        lost = progress if failure is Failure.OVEROPTIMISATION and drifted else 0.0
        log.add(
            RewardRow(
                step=step,
                prompt=prompt,
                rollout=rollout,
                reward=base * phi,
                reference=base - 0.3 * lost,
                phi=phi,
                self_gap=-0.5 + 0.2 * progress - 0.4 * lost,
                claims=claims,
                incorrect_claims=int((truth == LABELS.index(Label.CONTRADICT)).sum()),
                length=float(30 * claims + generator.integers(20)),
                searches=0 if skips else int(generator.integers(1, 4)),
                foreign_share=0.6 if foreign else float(generator.random() * 0.02),
            )
        )
