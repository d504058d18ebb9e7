"""A finding: one rule, its verdict, the interval behind it, and what to do about it.

A flag is up if the whole 95 % interval lies on the bad side of the limit, and down (CLEAR) if it
lies on the good side; an interval across the limit is UNCLEAR, and too few prompts are SKIPPED.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from oracles.reward_audit.intervals import Interval

MIN_PROMPTS = 20
"""Below this many prompts a cluster bootstrap has too few clusters to be trusted."""


class Status(StrEnum):
    """The verdict of a finding."""

    FLAG = "FLAG"
    CLEAR = "CLEAR"
    UNCLEAR = "UNCLEAR"
    SKIPPED = "SKIPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A threshold on a statistic: values beyond `limit`, on the side `bad`, are a failure."""

    name: str
    statistic: str
    limit: float
    bad: Literal["above", "below"]
    prescription: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a rule says about a subject (a verifier, a checker-policy pair, or the whole run).

    `value`, `low` and `high` are `None` if SKIPPED; `n` counts prompts; `prescription` is empty
    unless the flag is up.
    """

    rule: str
    subject: str
    verdict: Status
    value: float | None
    low: float | None
    high: float | None
    n: int
    evidence: str
    prescription: str


def decide(
    rule: Rule, interval: Interval | None, *, prompts: int, evidence: str, subject: str = "run"
) -> Finding:
    """Turn an interval into a finding; `None` is an undefined statistic.

    >>> rule = Rule(name="r", statistic="share", limit=0.5, bad="above", prescription="stop")
    >>> decide(rule, Interval(0.7, 0.6, 0.8), prompts=50, evidence="").verdict
    <Status.FLAG: 'FLAG'>
    """
    if prompts < MIN_PROMPTS or interval is None:
        why = (
            f"{prompts} prompts, {MIN_PROMPTS} needed"
            if prompts < MIN_PROMPTS
            else "the statistic is undefined on these rows"
        )
        return Finding(
            rule=rule.name,
            subject=subject,
            verdict=Status.SKIPPED,
            value=None,
            low=None,
            high=None,
            n=prompts,
            evidence=f"{why}; {evidence}" if evidence else why,
            prescription="",
        )
    above, below = interval.low > rule.limit, interval.high < rule.limit
    flagged, cleared = (above, below) if rule.bad == "above" else (below, above)
    verdict = Status.FLAG if flagged else Status.CLEAR if cleared else Status.UNCLEAR
    return Finding(
        rule=rule.name,
        subject=subject,
        verdict=verdict,
        value=interval.value,
        low=interval.low,
        high=interval.high,
        n=prompts,
        evidence=f"{rule.statistic}, limit {rule.limit:g}; {evidence}",
        prescription=rule.prescription if flagged else "",
    )
