"""Eligibility before reinforcement learning: is there anything to learn, and can it be found?

    gate 1  V* - max_a E[U(a)]                       what adaptive asking is worth, exact
    gate 2  P(some of k rollouts is oracle-grade)    of the initial policy, by risk group

Without headroom a policy has nothing to gain from asking; without support no reward reaches the
actions that would have to be learned.
"""

from __future__ import annotations

from dataclasses import dataclass

from oracles.assessment import EPS, Assessment
from oracles.flags import MIN_CASES, Verdict
from oracles.metrics import measure
from oracles.sample import Estimate, Sample
from oracles.world import World

MIN_SUPPORT = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of a gate. passed: None where the sample cannot carry it."""

    name: str
    value: float | None
    threshold: float
    passed: bool | None
    n_cases: int
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A gate passes when no check fails and none that was needed is missing."""

    name: str
    question: str
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool | None:
        """False when a check failed, None when one could not be made, else True."""
        results = [check.passed for check in self.checks]
        if False in results:
            return False
        return None if None in results else True


def gate_1(world: World) -> Gate:
    """Adaptive headroom: V* above the best constant decision by more than one question's worth."""
    question = "Is adaptive asking worth more than the best decision without asking?"
    if world.headroom is None:
        check = Check(
            name="best-constant gap",
            value=None,
            threshold=EPS,
            passed=None,
            n_cases=0,
            detail="the world has no oracle",
        )
        return Gate(name="gate 1: adaptive headroom", question=question, checks=(check,))
    optimal, constant = world.headroom
    check = Check(
        name="best-constant gap",
        value=optimal - constant,
        threshold=EPS,
        passed=optimal - constant > EPS,
        n_cases=0,
        detail=f"exact: oracle {optimal:+.4f}, best constant {constant:+.4f}",
    )
    return Gate(name="gate 1: adaptive headroom", question=question, checks=(check,))


def gate_2(sample: Sample, world: World) -> Gate:
    """Latent support of a policy, overall, by risk group, and of each decision the oracle uses."""
    sampled = sample.where(lambda row: not row.greedy)
    checks = [_support("support, overall", sampled, world)]
    checks += [
        _support(f"support, {group}", _group(sampled, group), world) for group in world.prevalence
    ]
    checks += _high_acuity_support(sampled)
    checks += _sampled_decisions(sampled, world)
    return Gate(
        name="gate 2: latent support",
        question="Does the policy already find what the oracle would reward, in every risk group?",
        checks=tuple(checks),
    )


def _support(name: str, sample: Sample, world: World) -> Check:
    metrics = measure(sample, world)
    floor = metrics.chance_floor.value
    detail = "" if floor is None else f"guessing reaches {floor:.3f} with k = {metrics.k}"
    return _check(name, metrics.support_at_k, detail)


def _high_acuity_support(sample: Sample) -> list[Check]:
    """Among cases where the oracle commits a high-acuity decision: a rollout that does, and is
    oracle-grade.
    """  # noqa: D205
    if all(row.oracle_high_acuity is None for row in sample.rows):
        return []
    found = {row.case for row in sample.rows if row.high_acuity and row.oracle_grade}
    # weights are those of the whole set: the relevant cases have another mix of risk groups
    estimate = _first_rows(sample).share(
        lambda row: row.case in found, of=lambda row: bool(row.oracle_high_acuity)
    )
    return [_check("support by the oracle's own high-acuity decision", estimate, "")]


def _sampled_decisions(sample: Sample, world: World) -> list[Check]:
    if world.oracle_decisions is None:
        return []
    checks = []
    for name, rate in world.oracle_decisions.items():
        if rate <= 0.0:
            continue
        share = sample.share(lambda row, name=name: row.decision == name)  # type: ignore[misc]
        checks.append(
            Check(
                name=f"decision {name} is sampled",
                value=share.value,
                threshold=0.0,
                passed=None if share.value is None else share.value > 0.0,
                n_cases=share.n_cases,
                detail=f"the oracle uses it in {100 * rate:.1f} % of episodes",
            )
        )
    return checks


def _check(name: str, estimate: Estimate, detail: str) -> Check:
    enough = estimate.value is not None and estimate.n_cases >= MIN_CASES
    if not enough:
        detail = f"{Verdict.SKIPPED.value}: {estimate.n_cases} cases, {MIN_CASES} needed"
    return Check(
        name=name,
        value=estimate.value,
        threshold=MIN_SUPPORT,
        passed=estimate.value >= MIN_SUPPORT if enough and estimate.value is not None else None,
        n_cases=estimate.n_cases,
        detail=detail,
    )


def _group(sample: Sample, group: str) -> Sample:
    return sample.where(lambda row: row.group == group)


def _first_rows(sample: Sample) -> Sample:
    first: dict[str, Assessment] = {}
    for row in sample.rows:
        first.setdefault(row.case, row)
    return Sample(tuple(first.values()), sample.prevalence)
