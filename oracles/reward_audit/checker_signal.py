"""What a checker says about a policy's claims: shares, entropy, bands, and whether it is informed.

Strength belongs to the pair of policy and checker: the same checker supports 54 % of one policy's
claims and 85 % of another's (arXiv 2605.25988), so every figure is per pair. Accuracy on
annotated pairs is shown beside because it does not predict collapse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import entropy

from clinical_envs.checkedqa.checkers import LABELS
from oracles.reward_audit.findings import Finding, decide
from oracles.reward_audit.intervals import Totals, cluster_interval, share_interval
from oracles.reward_audit.phases import phases, stack
from oracles.reward_audit.records import CheckRow, Key
from oracles.reward_audit.rules import NEUTRAL_COLLAPSE, NO_SUPPORT, SATURATION, UNINFORMATIVE

Band = Literal["collapsed", "low", "moderate", "strong", "saturated", "between bands"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """Verdict shares over scored claims, their entropy in nats, and the band of strength."""

    support: float
    neutral: float
    contradict: float
    entropy: float
    band: Band
    scored: int
    unscored: int


def signal(rows: Sequence[CheckRow]) -> Signal | None:
    """Statistics of the verdicts; `None` if no claim is scored."""
    counts = np.array([sum(row.verdict is label for row in rows) for label in LABELS])
    scored = int(counts.sum())
    if not scored:
        return None
    support, neutral, contradict = (float(share) for share in counts / scored)
    return Signal(
        support=support,
        neutral=neutral,
        contradict=contradict,
        entropy=float(entropy(counts)),
        band=band(support, neutral),
        scored=scored,
        unscored=len(rows) - scored,
    )


def band(support: float, neutral: float) -> Band:
    """The band of strength of a pair's shares; the limits are ours.

    Collapsed: neutral >= .97 or support <= .01. Low: < .10, moderate: .40 to .70, strong: >= .80,
    saturated: > .95 of support.

    >>> band(0.54, 0.30), band(0.86, 0.10), band(0.0, 0.97), band(0.75, 0.2)
    ('moderate', 'strong', 'collapsed', 'between bands')
    """
    if neutral >= NEUTRAL_COLLAPSE.limit or support <= NO_SUPPORT.limit:
        return "collapsed"
    if support > SATURATION.limit:
        return "saturated"
    if support < 0.10:
        return "low"
    if 0.40 <= support <= 0.70:
        return "moderate"
    return "strong" if support >= 0.80 else "between bands"


def informedness(confusion: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over labels j of `P(verdict j | truth j) - P(verdict j | truth not j)` (Youden's J).

    0 for a checker that ignores the truth, 1 for a perfect one. Labels that no claim has are left
    out; NaN where fewer than two are left. Takes counts of shape (..., k, k), truth by verdict.
    """
    of_truth = confusion.sum(axis=-1)
    hits = np.diagonal(confusion, axis1=-2, axis2=-1)
    others = of_truth.sum(axis=-1, keepdims=True) - of_truth
    false_hits = confusion.sum(axis=-2) - hits
    with np.errstate(invalid="ignore", divide="ignore"):
        youden = hits / of_truth - false_hits / others
        defined = ~np.isnan(youden)
        mean: NDArray[np.float64] = np.where(defined, youden, 0.0).sum(axis=-1) / np.where(
            defined.any(axis=-1), defined.sum(axis=-1), np.nan
        )
    return mean


def audit_signal(pair: str, rows: Sequence[CheckRow]) -> list[Finding]:
    """Collapse, saturation and lack of information in the late phase of one policy-checker pair."""
    late = phases(row.step for row in rows).late
    recent = [row for row in rows if row.step in late]
    sums: dict[Key, NDArray[np.float64]] = {}
    for row in recent:
        if row.verdict is not None:
            counts = sums.setdefault(row.prompt, np.zeros(len(LABELS)))
            counts[LABELS.index(row.verdict)] += 1
    support, neutral, contradict = stack({p: list(c) for p, c in sums.items()}, len(LABELS)).T
    total = support + neutral + contradict
    evidence = _describe(signal(recent))
    findings = [
        decide(
            rule, share_interval(hits, total), prompts=len(sums), evidence=evidence, subject=pair
        )
        for rule, hits in (
            (NEUTRAL_COLLAPSE, neutral),
            (NO_SUPPORT, support),
            (SATURATION, support),
        )
    ]
    return [*findings, _audit_information(pair, recent)]


def _audit_information(pair: str, rows: Sequence[CheckRow]) -> Finding:
    k = len(LABELS)
    sums: dict[Key, NDArray[np.float64]] = {}
    for row in rows:
        if row.verdict is not None and row.truth is not None:
            counts = sums.setdefault(row.prompt, np.zeros((k, k)))
            counts[LABELS.index(row.truth), LABELS.index(row.verdict)] += 1
    per_prompt = stack({prompt: list(counts.ravel()) for prompt, counts in sums.items()}, k * k)

    def statistic(totals: Totals) -> NDArray[np.float64]:
        return informedness(totals.reshape(*totals.shape[:-1], k, k))

    confusion = per_prompt.sum(axis=0).reshape(k, k)
    evidence = "no annotated claims"
    if confusion.sum():
        accuracy = float(np.trace(confusion) / confusion.sum())
        evidence = f"accuracy {accuracy:.3f} on {int(confusion.sum())} annotated claims"
    return decide(
        UNINFORMATIVE,
        cluster_interval(per_prompt, statistic),
        prompts=len(sums),
        evidence=evidence,
        subject=pair,
    )


def _describe(found: Signal | None) -> str:
    if found is None:
        return "no claim is scored"
    return (
        f"support {found.support:.3f}, neutral {found.neutral:.3f}, contradiction "
        f"{found.contradict:.3f}, entropy {found.entropy:.3f} nats, band {found.band}, "
        f"{found.scored} claims, {found.unscored} unscored"
    )
