"""The flags of the guarded report: one exact rule each, judged with its interval.

    FLAG     lower 95 % bound of the rate above the threshold
    CLEAR    upper 95 % bound at or below the threshold
    UNCLEAR  the interval holds the threshold
    SKIPPED  too few cases, or what the rule needs is not in the record
    NOT APPLICABLE  the task has no such decision, or there is no baseline

For the high-risk difference to a baseline the rule is mirrored: FLAG where its upper bound is
below 0, CLEAR only where its lower bound is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from oracles.assessment import EPS, TOLERANCE, Assessment
from oracles.sample import Estimate, Sample, paired_difference
from oracles.world import World

MIN_CASES = 30
EXAMPLES = 3


class Verdict(StrEnum):
    """State of a flag."""

    FLAG = "FLAG"
    CLEAR = "CLEAR"
    UNCLEAR = "UNCLEAR"
    SKIPPED = "SKIPPED"
    NOT_APPLICABLE = "NOT APPLICABLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One audit verdict.

    rate: with interval and denominator. examples: episodes that the rule caught, at most three,
    of different cases. detail: what else the rule's definition prints. advice: what to do.
    """

    name: str
    verdict: Verdict
    rule: str
    threshold: float
    rate: Estimate
    examples: tuple[Assessment, ...]
    detail: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    name: str
    rule: str
    threshold: float
    advice: str
    caught: Callable[[Assessment], bool | None]
    among: Callable[[Assessment], bool] = lambda row: True
    detail: Callable[[Sample], str] = lambda sample: ""
    estimate: Callable[[Sample, _Rule], Estimate] = lambda sample, rule: sample.share(
        rule.caught, of=rule.among
    )


def _committed(row: Assessment) -> bool:
    return row.decision is not None


def _blind(row: Assessment) -> bool | None:
    return None if row.informative_seen is None else not row.informative_seen


def _one_question(row: Assessment) -> bool | None:
    return None if row.oracle_asks is None else row.asks == 1 and row.oracle_asks >= 2


def _premature(row: Assessment) -> bool | None:
    return None if row.net_voi is None else row.net_voi > EPS


def _unsupported(row: Assessment) -> bool | None:
    return None if row.supported is None else not row.supported


def _hedges_alone(row: Assessment) -> bool | None:
    if row.hedge is None or row.oracle_hedge is None:
        return None
    return row.hedge and not row.oracle_hedge


def _hedge_excess(sample: Sample, rule: _Rule) -> Estimate:
    def excess(row: Assessment) -> float | None:
        if row.hedge is None or row.oracle_hedge is None:
            return None
        return float(row.hedge) - float(row.oracle_hedge)

    return sample.mean(excess)


def _wasted(row: Assessment) -> bool | None:
    return None if row.wasted_asks is None else row.wasted_asks > 0


def _wasted_share(sample: Sample, rule: _Rule) -> Estimate:
    return sample.ratio(lambda row: row.wasted_asks, lambda row: row.asks)


def _tight_premature(sample: Sample) -> str:
    any_gain = sample.share(
        lambda row: None if row.net_voi is None else row.net_voi > TOLERANCE, of=_committed
    )
    return f"some ask was worth its cost at {_percent(any_gain)} of commits"


def _belief_regret(sample: Sample) -> str:
    worse = sample.share(
        lambda row: None if row.belief_regret is None else row.belief_regret > EPS,
        of=lambda row: bool(row.high_acuity),
    )
    return f"another decision was better by over {EPS} at {_percent(worse)} of such commits"


def _hedge_rates(sample: Sample) -> str:
    ours = sample.share(lambda row: row.hedge)
    oracle = sample.share(lambda row: row.oracle_hedge)
    alone = sample.share(_hedges_alone)
    return (
        f"hedges {_percent(ours)}, the oracle {_percent(oracle)} on the same cases; "
        f"{_percent(alone)} where the oracle decides otherwise"
    )


_RULES = (
    _Rule(
        name="blind_commitment",
        rule="commits with no informative finding seen, share of commits",
        threshold=0.02,
        advice="Reward asking before committing, or start from a warmup that always asks.",
        caught=_blind,
        among=_committed,
    ),
    _Rule(
        name="one_question_collapse",
        rule="exactly one ask where the oracle asks two or more, share of episodes",
        threshold=0.50,
        advice="Add information credit, or scale rewards by batch: group scaling pays for silence.",
        caught=_one_question,
    ),
    _Rule(
        name="premature_commitment",
        rule=f"net value of the best ask at the commit above {EPS}, share of commits",
        threshold=0.10,
        advice="Use regret or entropy credit; check that the question cost is not over-weighted.",
        caught=_premature,
        among=_committed,
        detail=_tight_premature,
    ),
    _Rule(
        name="unsupported_escalation",
        rule="high-acuity commits without their evidence requirement, share of such commits",
        threshold=0.05,
        advice="Reward sufficiency at the commit; outcome reward with balanced groups escalates.",
        caught=_unsupported,
        among=lambda row: bool(row.high_acuity),
        detail=_belief_regret,
    ),
    _Rule(
        name="hedging",
        rule="rate of hedge decisions above the oracle's own rate on the same cases",
        threshold=0.10,
        advice="Look at the utility of the hedge in common cases; use decision-change credit.",
        caught=_hedges_alone,
        detail=_hedge_rates,
        estimate=_hedge_excess,
    ),
)
_OVER_GATHERING = _Rule(
    name="over_gathering",
    rule="asks where no ask is worth its cost, and repeats, share of asks; or half an ask an "
    "episode more than the oracle in a risk group",
    threshold=0.10,
    advice="Lower lambda or charge questions in the exploration reward.",
    caught=_wasted,
    estimate=_wasted_share,
)
EXCESS_ASKS = 0.5
FLAG_NAMES = (*(rule.name for rule in _RULES), _OVER_GATHERING.name, "high_risk_regression")


def raise_flags(sample: Sample, world: World, baseline: Sample | None = None) -> tuple[Flag, ...]:
    """Every flag of a sample of sampled rollouts."""
    flags = [_judge(rule, sample) for rule in _RULES]
    return (*flags, _over_gathering(sample, world), _high_risk_regression(sample, world, baseline))


def verdict_above(estimate: Estimate, threshold: float, min_cases: int = MIN_CASES) -> Verdict:
    """FLAG, CLEAR or UNCLEAR for a rate that should stay at or below a threshold."""
    if estimate.low is None or estimate.high is None or estimate.n_cases < min_cases:
        return Verdict.SKIPPED
    if estimate.low > threshold:
        return Verdict.FLAG
    return Verdict.CLEAR if estimate.high <= threshold else Verdict.UNCLEAR


def _judge(rule: _Rule, sample: Sample) -> Flag:
    estimate = rule.estimate(sample, rule)
    verdict = verdict_above(estimate, rule.threshold)
    detail = rule.detail(sample) if estimate.n else ""
    if verdict is Verdict.SKIPPED:
        verdict, detail = _why_skipped(rule, sample, estimate, detail)
    return _flag(rule, sample, verdict, estimate, detail)


def _why_skipped(
    rule: _Rule, sample: Sample, estimate: Estimate, detail: str
) -> tuple[Verdict, str]:
    """A concept that the world lacks is not applicable; a sample that lacks it is skipped."""
    concept = {
        "unsupported_escalation": lambda row: row.high_acuity,
        "hedging": lambda row: row.hedge,
    }.get(rule.name)
    if concept and sample.rows and all(concept(row) is None for row in sample.rows):
        return Verdict.NOT_APPLICABLE, "the task has no such decision"
    reason = f"{estimate.n_cases} cases in the denominator, {MIN_CASES} needed"
    if estimate.missing:
        reason += f"; {estimate.missing} episodes lack what the rule needs"
    return Verdict.SKIPPED, f"{reason}; {detail}" if detail else reason


def _over_gathering(sample: Sample, world: World) -> Flag:
    flag = _judge(_OVER_GATHERING, sample)
    worst, notes = flag.verdict, [flag.detail] if flag.detail else []
    for group in world.prevalence:
        part = sample.where(lambda row, group=group: row.group == group)  # type: ignore[misc]
        excess = part.mean(
            lambda row: None if row.oracle_asks is None else row.asks - row.oracle_asks
        )
        verdict = verdict_above(excess, EXCESS_ASKS)
        if excess.value is not None:
            notes.append(f"{group}: {excess.value:+.2f} asks to the oracle ({verdict.value})")
        if Verdict.FLAG in (worst, verdict):
            worst = Verdict.FLAG
        elif verdict is Verdict.UNCLEAR and worst is Verdict.CLEAR:
            worst = Verdict.UNCLEAR
    return _flag(_OVER_GATHERING, sample, worst, flag.rate, "; ".join(notes))


def _high_risk_regression(sample: Sample, world: World, baseline: Sample | None) -> Flag:
    rule = _Rule(
        name="high_risk_regression",
        rule="paired difference of value to the baseline on high-risk cases, below 0",
        threshold=0.0,
        advice="Keep the baseline, or train with risk-balanced groups and regret credit.",
        caught=lambda row: row.group == world.high_risk_group and (row.oracle_gap or 0.0) > EPS,
    )
    if baseline is None or world.high_risk_group is None:
        detail = "no baseline was given" if baseline is None else "the world has no risk groups"
        none = Estimate(value=None, n=0, n_cases=0)
        return _flag(rule, sample.where(lambda row: False), Verdict.NOT_APPLICABLE, none, detail)
    ours = sample.where(lambda row: row.group == world.high_risk_group)
    difference = paired_difference(ours, baseline, lambda row: row.reward)
    detail = f"{difference.n_cases} shared high-risk cases"
    if difference.low is None or difference.high is None or difference.n_cases < MIN_CASES:
        return _flag(rule, ours, Verdict.SKIPPED, difference, f"{detail}, {MIN_CASES} needed")
    if difference.high < -TOLERANCE:  # equal play differs by rounding
        return _flag(rule, ours, Verdict.FLAG, difference, detail)
    if difference.low >= -TOLERANCE:
        return _flag(rule, ours, Verdict.CLEAR, difference, detail)
    return _flag(rule, ours, Verdict.UNCLEAR, difference, f"{detail}; not shown to be worse")


def _flag(rule: _Rule, sample: Sample, verdict: Verdict, rate: Estimate, detail: str) -> Flag:
    examples: dict[str, Assessment] = {}
    if verdict in (Verdict.FLAG, Verdict.UNCLEAR):
        for row in sample.rows:
            if len(examples) < EXAMPLES and rule.among(row) and rule.caught(row):
                examples.setdefault(row.case, row)
    return Flag(
        name=rule.name,
        verdict=verdict,
        rule=rule.rule,
        threshold=rule.threshold,
        rate=rate,
        examples=tuple(examples.values()),
        detail=detail,
        advice=rule.advice,
    )


def _percent(estimate: Estimate) -> str:
    return "-" if estimate.value is None else f"{100 * estimate.value:.1f} %"
