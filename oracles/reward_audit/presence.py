"""Presence against absence: criteria that ask for something and criteria that forbid something.

An answer satisfies more presence criteria by saying more, right or wrong; only absence criteria
resist. Satisfaction is the share of credit the training verifier gives, per prompt and demand; a
prompt without criteria of a demand is unscored there and skipped. Source: arXiv 2605.12474.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from clinical_envs.rubric.scoring import credit
from oracles.reward_audit.findings import Finding, decide
from oracles.reward_audit.intervals import Totals, cluster_interval
from oracles.reward_audit.phases import phases
from oracles.reward_audit.records import Demand, JudgmentRow, Key
from oracles.reward_audit.rules import PRESENCE_GAMING


def satisfaction(
    rows: Sequence[JudgmentRow], demand: Demand, steps: Collection[int]
) -> dict[Key, float]:
    """Share of scored criteria of this demand that are credited, per prompt that has any."""
    credits: dict[Key, list[bool]] = {}
    for row in rows:
        given = credit(row.weight, row.training)
        if row.demand == demand and row.step in steps and given is not None:
            credits.setdefault(row.prompt, []).append(given)
    return {prompt: sum(given) / len(given) for prompt, given in credits.items()}


def audit_presence(verifier: str, rows: Sequence[JudgmentRow]) -> Finding:
    """Whether presence criteria are gained while absence criteria are not."""
    phase = phases(row.step for row in rows)
    cells = [
        satisfaction(rows, demand, steps)
        for demand in ("presence", "absence")
        for steps in (phase.early, phase.late)
    ]
    prompts = list(dict.fromkeys(prompt for cell in cells for prompt in cell))
    values = np.array([[cell.get(prompt, np.nan) for cell in cells] for prompt in prompts])
    values = values.reshape(len(prompts), len(cells))
    sums = np.column_stack([np.nan_to_num(values), ~np.isnan(values)])
    interval = cluster_interval(sums, _gain_difference) if phase.differ else None
    means = [f"{np.mean(list(cell.values())):.3f}" if cell else "none" for cell in cells]
    counts = [len(cell) for cell in cells]
    return decide(
        PRESENCE_GAMING,
        interval,
        prompts=len(prompts),
        evidence=(
            f"presence {means[0]} -> {means[1]} ({counts[0]} and {counts[1]} prompts), "
            f"absence {means[2]} -> {means[3]} ({counts[2]} and {counts[3]})"
        ),
        subject=verifier,
    )


def _gain_difference(totals: Totals) -> NDArray[np.float64]:
    """(presence late - early) - (absence late - early), from four sums and four counts."""
    means = totals[..., :4] / totals[..., 4:]
    gain: NDArray[np.float64] = (means[..., 1] - means[..., 0]) - (means[..., 3] - means[..., 2])
    return gain
