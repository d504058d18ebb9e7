"""The checker's multiplier, the reward it makes, and what a group of rollouts learns from it.

`R = r_base * phi`. The published summary of arXiv 2605.25988 says only that a multiplier is made
of the three labels; its form here is ours, documented and open to sweeps.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clinical_envs.checkedqa.checkers import Check, Label
from clinical_envs.errors import InvalidArgument

_UNSPACED = "\u3040-\u30ff\u3400-\u9fff"  # kana and Chinese characters: one token each
_TOKEN = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")

_SAME_REWARD = 1e-9
"""Rewards this close to their group's mean are equal: the difference is rounding, not signal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phi:
    """`clip(phi_min + (1 - phi_min) (a support - b contradict + n neutral), phi_min, 1)`.

    `support`, `neutral` and `contradict` are shares of the answer's claims.

    Raises:
        InvalidArgument: `phi_min` outside [0, 1] or a coefficient that is not finite.
    """

    phi_min: float = 0.5
    a: float = 1.0
    b: float = 1.0
    n: float = 0.0

    def __post_init__(self) -> None:
        finite = all(math.isfinite(value) for value in (self.a, self.b, self.n))
        if not 0 <= self.phi_min <= 1 or not finite:
            raise InvalidArgument(f"{self}: give phi_min in [0, 1] and finite a, b, n")

    def of_shares(
        self, support: ArrayLike, neutral: ArrayLike, contradict: ArrayLike
    ) -> NDArray[np.float64]:
        """Phi of shares, elementwise; NaN where a share is NaN.

        >>> float(Phi().of_shares(0.5, 0.25, 0.25))
        0.625
        """
        weighted = (
            self.a * np.asarray(support, dtype=np.float64)
            + self.n * np.asarray(neutral, dtype=np.float64)
            - self.b * np.asarray(contradict, dtype=np.float64)
        )
        return np.clip(self.phi_min + (1 - self.phi_min) * weighted, self.phi_min, 1.0)

    def of_checks(self, checks: Sequence[Check | None]) -> float | None:
        """Phi of an answer's claims: `phi_min` without claims, unscored with an unscored claim.

        Leaving a failed check out would pay for claims that make the checker fail.

        >>> Phi().of_checks([]), Phi().of_checks([None])
        (0.5, None)
        """
        return self.of_labels([None if check is None else check.label for check in checks])

    def of_labels(self, labels: Sequence[Label | None]) -> float | None:
        """Phi of the labels of an answer's claims; as `of_checks`."""
        if None in labels:
            return None
        if not labels:
            return self.phi_min
        support, neutral, contradict = (labels.count(label) / len(labels) for label in Label)
        return float(self.of_shares(support, neutral, contradict))


def checked_reward(base: float | None, phi: float | None) -> float | None:
    """`R = r_base * phi`; unscored if either factor is (`None` or NaN).

    >>> checked_reward(0.8, 0.625), checked_reward(0.8, None)
    (0.5, None)
    """
    if base is None or phi is None or math.isnan(base) or math.isnan(phi):
        return None
    return base * phi


def token_f1(answer: str, reference: str) -> float:
    """`2 PR / (P + R)` of the tokens that answer and reference share, counted with repeats.

    Tokens are lower-case runs of letters and digits; scripts without spaces count by character.
    An answer without tokens scores 0.

    >>> token_f1("Aspirin, daily", "daily aspirin 75 mg")
    0.6666666666666666

    Raises:
        InvalidArgument: the reference has no tokens.
    """
    given, wanted = (Counter(_TOKEN.findall(text.lower())) for text in (answer, reference))
    if not wanted:
        raise InvalidArgument(f"the reference {reference!r} has no tokens; leave the question out")
    return 2 * (given & wanted).total() / (given.total() + wanted.total())


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAdvantages:
    """Advantages of one group, and what the group says about its own signal.

    `values` is NaN where the reward is unscored. `spread` is the rewards' standard deviation
    before normalisation (`None` below two scored rewards); a group without spread has advantages
    0 and should be left out of the update, or it trains on the KL term alone.
    """

    values: NDArray[np.float64]
    spread: float | None
    unscored: int

    @property
    def informative(self) -> bool:
        """Whether the group has any spread to learn from."""
        return self.spread is not None and self.spread > 0


def group_advantages(rewards: Sequence[float | None]) -> GroupAdvantages:
    """`normalise` of one group, with the counts that belong beside it.

    >>> group_advantages([0.5] * 7 + [0.625]).values.round(3)[[0, 7]].tolist()
    [-0.378, 2.646]

    Raises:
        InvalidArgument: a reward is infinite.
    """
    values = np.array([math.nan if r is None else r for r in rewards], dtype=np.float64)
    advantages, spread = normalise(values)
    return GroupAdvantages(
        values=advantages,
        spread=None if np.isnan(spread) else float(spread),
        unscored=int(np.isnan(values).sum()),
    )


def normalise(
    rewards: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`A_i = (R_i - mean) / std` over the scored rewards of each group, population std.

    Args:
        rewards: shape (..., group), NaN where unscored.

    Returns:
        Advantages of the same shape, NaN where unscored and 0 in a group without spread; and the
        std of each group before normalisation, NaN with fewer than two scored rewards.

    Raises:
        InvalidArgument: a reward is infinite.
    """
    if np.isinf(rewards).any():
        raise InvalidArgument("a reward is infinite; mark it unscored (NaN) if it has no value")
    scored = ~np.isnan(rewards)
    number = scored.sum(axis=-1, keepdims=True)
    filled = np.where(scored, rewards, 0.0)
    deviations = np.where(
        scored, filled - filled.sum(axis=-1, keepdims=True) / np.maximum(number, 1), 0.0
    )
    equal = np.abs(deviations).max(axis=-1, keepdims=True, initial=0.0) <= _SAME_REWARD
    variance = (deviations**2).sum(axis=-1, keepdims=True) / np.maximum(number, 1)
    std = np.where(equal, 0.0, np.sqrt(variance))
    advantages = np.where(equal, 0.0, deviations / np.where(equal, 1.0, std))
    spread = np.where(number > 1, std, np.nan)
    return np.where(scored, advantages, np.nan), spread[..., 0]
