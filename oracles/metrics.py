"""What a policy is worth on a set of cases: overall, by risk group and by family."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from oracles.assessment import Assessment
from oracles.sample import Column, Estimate, Sample, successes, unbiased_all, unbiased_any
from oracles.world import World

K = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """One row of the tables; None where the world or the sample cannot give it.

    support_at_k, pass_pow_k: some / all of k rollouts of a case oracle-grade, by the unbiased
    estimators where a case has more than k. chance_floor: of support_at_k, for committing at once
    to a uniformly drawn decision k times, 1 - (1 - share of oracle-grade commits)^k a case.
    unscored: episodes that ended in an infrastructure error.
    """

    value: Estimate
    regret: Estimate
    oracle_gap: Estimate
    support_at_k: Estimate
    chance_floor: Estimate
    pass_pow_k: Estimate
    greedy_value: Estimate
    mean_asks: Estimate
    one_ask_rate: Estimate
    parse_failure_rate: Estimate
    decisions: dict[str, float]
    supported_escalation_rate: Estimate
    unsupported_escalation_rate: Estimate
    n_cases: int
    n_episodes: int
    k: int | None
    expected_value: bool


def measure(sample: Sample, world: World) -> Metrics:
    """Metrics of a sample; sampled rollouts and greedy ones are kept apart."""
    sampled = sample.where(lambda row: not row.greedy)
    greedy = sample.where(lambda row: row.greedy)
    by_case = _rows_by_case(sampled)
    k = min((len(rows) for rows in by_case.values()), default=0) or None
    return Metrics(
        value=sampled.mean(lambda row: row.reward),
        regret=sampled.mean(lambda row: row.regret),
        oracle_gap=sampled.mean(lambda row: row.oracle_gap),
        support_at_k=_by_case(sampled, by_case, lambda rows: _of_k(rows, k, unbiased_any)),
        chance_floor=_by_case(sampled, by_case, lambda rows: _floor(rows[0], k)),
        pass_pow_k=_by_case(sampled, by_case, lambda rows: _of_k(rows, k, unbiased_all)),
        greedy_value=greedy.mean(lambda row: row.reward),
        mean_asks=sampled.mean(lambda row: row.asks),
        one_ask_rate=sampled.share(lambda row: row.asks == 1),
        parse_failure_rate=sampled.ratio(lambda row: row.invalid_turns, lambda row: row.turns),
        decisions=_decisions(sampled, world),
        supported_escalation_rate=sampled.share(_escalation(supported=True)),
        unsupported_escalation_rate=sampled.share(_escalation(supported=False)),
        n_cases=len(sampled.cases),
        n_episodes=len(sampled.rows),
        k=k,
        expected_value=any(row.expected for row in sampled.rows),
    )


def breakdown(sample: Sample, world: World) -> dict[str, Any]:
    """Metrics overall and under `groups` and `families`, as plain data for JSON."""
    groups = {g: _plain(measure(_group(sample, g), world)) for g in world.prevalence}
    families = {f: _plain(measure(_family(sample, f), world)) for f in world.families}
    return _plain(measure(sample, world)) | {"groups": groups, "families": families}


def point(metrics: Metrics) -> dict[str, Any]:
    """Values without their intervals."""
    return {
        name: value.value if isinstance(value, Estimate) else value
        for name, value in ((field, getattr(metrics, field)) for field in Metrics.__slots__)
    }


def _plain(metrics: Metrics) -> dict[str, Any]:
    intervals = {
        field: asdict(value)
        for field in Metrics.__slots__
        if isinstance(value := getattr(metrics, field), Estimate)
    }
    return point(metrics) | {"intervals": intervals}


def _group(sample: Sample, group: str) -> Sample:
    return sample.where(lambda row: row.group == group)


def _family(sample: Sample, family: str) -> Sample:
    return sample.where(lambda row: row.family == family)


def _rows_by_case(sample: Sample) -> dict[str, list[Assessment]]:
    by_case: dict[str, list[Assessment]] = {}
    for row in sample.rows:
        by_case.setdefault(row.case, []).append(row)
    return by_case


def _by_case(
    sample: Sample,
    by_case: dict[str, list[Assessment]],
    value: Callable[[list[Assessment]], float | None],
) -> Estimate:
    """Share over cases of one number in [0, 1] a case, carried by its first row."""
    first = {id(rows[0]): value(rows) for rows in by_case.values()}
    return sample.where(lambda row: id(row) in first).share(lambda row: first[id(row)])


def _of_k(
    rows: list[Assessment], k: int | None, estimator: Callable[[int, int, int], float]
) -> float | None:
    n, c = successes(rows)
    return None if k is None or n < k else estimator(n, c, k)


def _floor(row: Assessment, k: int | None) -> float | None:
    if row.guess_share is None or k is None:
        return None
    return 1.0 - (1.0 - row.guess_share) ** k


def _decisions(sample: Sample, world: World) -> dict[str, float]:
    names: Iterable[str] = (*world.decisions, "no_decision")
    shares = {name: sample.share(_commits_to(name)).value for name in names}
    return {name: share for name, share in shares.items() if share is not None}


def _commits_to(name: str) -> Column:
    return lambda row: (row.decision or "no_decision") == name


def _escalation(*, supported: bool) -> Column:
    def column(row: Assessment) -> bool | None:
        if row.high_acuity is None:
            return None
        return row.high_acuity and row.supported is supported

    return column
