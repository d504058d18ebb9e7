"""What a group of rollouts can learn from: the reward's spread before and after normalisation.

Dividing by the group's standard deviation gives every group with any spread the same weight, so
the signal of a collapsed checker does not vanish but turns into noise. Only the spread *before*
normalisation shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clinical_envs.checkedqa.rewards import GroupAdvantages, group_advantages
from oracles.reward_audit.findings import Finding, decide
from oracles.reward_audit.intervals import cluster_interval, ratio, share_interval
from oracles.reward_audit.phases import phases, stack
from oracles.reward_audit.records import Key, RewardRow
from oracles.reward_audit.rules import THIN_SIGNAL, ZERO_VARIANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Mean within-group standard deviation before and after normalisation, over scored groups."""

    before: float | None
    after: float | None
    zero_variance: float | None
    groups: int
    unscored: int


Groups = dict[tuple[Key, int], GroupAdvantages]


def reward_groups(values: Sequence[tuple[Key, int, float | None]]) -> Groups:
    """Advantages of each group (prompt, step) of the values (prompt, step, reward)."""
    rewards: dict[tuple[Key, int], list[float | None]] = {}
    for prompt, step, value in values:
        rewards.setdefault((prompt, step), []).append(value)
    return {key: group_advantages(group) for key, group in rewards.items()}


def spread(groups: Groups) -> Spread:
    """Summarise groups; those with fewer than two scored rewards have no spread and are left out.

    >>> spread(reward_groups([("q", 0, r) for r in (0.5, 0.5, None)])).zero_variance
    1.0
    """
    scored = [group for group in groups.values() if group.spread is not None]
    informative = sum(group.informative for group in scored)
    n = len(scored)
    return Spread(
        before=float(np.mean([group.spread for group in scored])) if n else None,
        after=informative / n if n else None,
        zero_variance=1 - informative / n if n else None,
        groups=n,
        unscored=sum(group.unscored for group in groups.values()),
    )


def audit_spread(rows: Sequence[RewardRow]) -> list[Finding]:
    """Groups without variance, and a multiplier whose raw spread is too thin, in the late phase."""
    late = phases(row.step for row in rows).late
    recent = [row for row in rows if row.step in late]
    rewards = reward_groups([(row.prompt, row.step, row.reward) for row in recent])
    phis = reward_groups([(row.prompt, row.step, row.phi) for row in recent])
    of_reward, of_phi = _per_prompt(rewards), _per_prompt(phis)
    mean_phi = [row.phi for row in recent if row.phi is not None]
    phi_evidence = f"phi mean {np.mean(mean_phi):.3f}, " if mean_phi else ""
    return [
        decide(
            ZERO_VARIANCE,
            share_interval(of_reward[:, 0], of_reward[:, 2]),
            prompts=len(of_reward),
            evidence="reward: " + _describe(spread(rewards)),
        ),
        decide(
            THIN_SIGNAL,
            cluster_interval(of_phi[:, 1:], ratio),
            prompts=len(of_phi),
            evidence=phi_evidence + _describe(spread(phis)),
        ),
    ]


def _per_prompt(groups: Groups) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Per prompt: groups without variance, summed spread, groups; scored groups only."""
    sums: dict[Key, tuple[float, float, float]] = {}
    for (prompt, _), group in groups.items():
        if group.spread is not None:
            flat, total, count = sums.get(prompt, (0.0, 0.0, 0.0))
            sums[prompt] = (flat + (not group.informative), total + group.spread, count + 1)
    return stack(sums, 3)


def _describe(found: Spread) -> str:
    if found.before is None or found.zero_variance is None:
        return f"no group with two scored values, {found.unscored} values unscored"
    return (
        f"within-group std {found.before:.4f} before and {found.after:.3f} after normalisation, "
        f"{found.zero_variance:.3f} of {found.groups} groups without variance, "
        f"{found.unscored} values unscored"
    )
