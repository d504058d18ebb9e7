"""The gates before reinforcement learning."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest

from oracles.clinical import make_world
from oracles.evaluation import evaluate
from oracles.gates import MIN_SUPPORT, Check, Gate, gate_1, gate_2
from oracles.sample import Sample
from tests.oracles.hand_made import NamesOnly, row, sample

OWN = "support by the oracle's own high-acuity decision"
GAPS = {"diagnostics": 0.1611, "titration": 0.0749, "refill": 0.1711}


@functools.cache
def validation(name: str, policy: str, k: int = 1) -> Sample:
    world = make_world(name)
    episodes = evaluate(world, world.policy(policy), world.cases("validation"), k=k)
    return Sample(tuple(map(world.assess, episodes)), world.prevalence)


def failed(gate: Gate) -> set[str]:
    return {check.name for check in gate.checks if check.passed is False}


@pytest.mark.parametrize(("name", "gap"), GAPS.items())
def test_gate_1_passes_on_the_shipped_tasks_with_the_exact_gap(name: str, gap: float) -> None:
    gate = gate_1(make_world(name))
    assert gate.passed is True
    assert gate.checks[0].value == pytest.approx(gap, abs=5.1e-5)  # spec 1


@pytest.mark.parametrize(
    ("headroom", "passed"),
    [(None, None), ((0.3299, 0.3), False), ((0.3301, 0.3), True), ((0.3, 0.3), False)],
)
def test_gate_1_asks_for_more_than_one_questions_worth(
    headroom: tuple[float, float] | None, passed: bool | None
) -> None:
    assert gate_1(NamesOnly(headroom=headroom)).passed is passed


@pytest.mark.parametrize("name", GAPS)
def test_the_oracle_passes_gate_2_with_full_support(name: str) -> None:
    gate = gate_2(validation(name, "oracle"), make_world(name))
    assert gate.passed is True
    support = [check.value for check in gate.checks if check.name.startswith("support")]
    assert support == pytest.approx([1.0] * len(support))


@pytest.mark.parametrize(
    ("name", "fails"),
    [
        ("diagnostics", {OWN, "decision emergent_tx is sampled"}),
        ("refill", {OWN, "decision escalate_urgent is sampled"}),
        (
            "titration",
            {OWN, "decision full_intensity is sampled", "support, high_clot"},
        ),
    ],
)
def test_never_escalating_fails_gate_2_exactly_where_it_should(name: str, fails: set[str]) -> None:
    """In diagnostics and refill .12 and .11 of high-risk cases are oracle-grade without it."""
    assert failed(gate_2(validation(name, "never_escalate"), make_world(name))) == fails


@pytest.mark.parametrize("name", ["diagnostics", "refill"])
def test_a_residue_of_high_risk_cases_is_oracle_grade_without_the_emergency_decision(
    name: str,
) -> None:
    """notes, section 2: .117 and .111, exact; here on 120 cases."""
    gate = gate_2(validation(name, "never_escalate"), make_world(name))
    (high,) = (check for check in gate.checks if check.name == "support, high")
    assert high.value == pytest.approx(0.115, abs=0.06)


def test_one_decision_never_sampled_fails_gate_2_alone() -> None:
    world = make_world("diagnostics")
    rows = tuple(
        replace(r, decision="urgent_admit") if r.decision == "observe_serial" else r
        for r in validation("diagnostics", "oracle").rows
    )
    gate = gate_2(Sample(rows, world.prevalence), world)
    assert failed(gate) == {"decision observe_serial is sampled"}


def test_support_by_the_oracles_own_decision_weighs_groups_as_they_are() -> None:
    """Of the cases where the oracle escalates nine in ten are high-risk at prevalence."""
    world = make_world("diagnostics")
    rows = tuple(
        replace(r, high_acuity=False) if r.group == "high" else r
        for r in validation("diagnostics", "oracle").rows
    )
    assert sum(bool(r.high_acuity) for r in rows) == 1  # the one moderate case among them
    gate = gate_2(Sample(rows, world.prevalence), world)
    (own,) = (check for check in gate.checks if check.name == OWN)
    assert own.value == pytest.approx(0.55 / (0.55 + 102 * 0.06), abs=1e-6)
    assert own.passed is False


@pytest.mark.parametrize(("hits", "passed"), [(10, True), (9, False), (0, False), (100, True)])
def test_support_of_a_tenth_is_enough(hits: int, passed: bool) -> None:
    rows = [row(i, oracle_reward=0.0, reward=0.0 if i < hits else -1.0) for i in range(100)]
    check = _overall(gate_2(sample(rows), NamesOnly(prevalence={})))
    assert (check.value, check.threshold, check.passed) == (hits / 100, MIN_SUPPORT, passed)


def test_escalating_for_the_wrong_reasons_is_no_support_for_the_oracles_decision() -> None:
    rows = [
        row(i, oracle_high_acuity=True, high_acuity=True, oracle_reward=0.0, reward=-(i % 2))
        for i in range(100)
    ]
    checks = {check.name: check for check in gate_2(sample(rows), NamesOnly()).checks}
    assert checks[OWN].value == 0.5


def test_support_counts_a_case_once_however_many_rollouts_find_it() -> None:
    rows = [
        row(c, rollout=i, oracle_reward=0.0, reward=0.0 if c < 50 and i == 0 else -1.0)
        for c in range(100)
        for i in range(12)
    ]
    check = _overall(gate_2(sample(rows), NamesOnly(prevalence={})))
    assert (check.value, check.n_cases) == (0.5, 100)


@pytest.mark.parametrize("n", [0, 1, 29])
def test_few_cases_leave_gate_2_open(n: int) -> None:
    gate = gate_2(sample(row(i, oracle_reward=0.0) for i in range(n)), NamesOnly())
    assert gate.passed is None
    assert all(check.detail.startswith("SKIPPED") for check in gate.checks)


def test_a_small_group_leaves_gate_2_open_and_a_failing_check_still_fails_it() -> None:
    low = [row(i, oracle_reward=0.0) for i in range(100)]
    high = [row(100 + i, group="high", oracle_reward=0.0) for i in range(5)]
    assert gate_2(sample(low + high), NamesOnly()).passed is None
    bad = [replace(r, reward=-1.0) for r in low]
    assert gate_2(sample(bad + high), NamesOnly()).passed is False


def test_greedy_rollouts_do_not_count_for_support() -> None:
    rows = [
        row(i, oracle_reward=0.0, reward=0.0 if greedy else -1.0, greedy=greedy)
        for i in range(100)
        for greedy in (False, True)
    ]
    assert _overall(gate_2(sample(rows), NamesOnly(prevalence={}))).value == 0.0


def _overall(gate: Gate) -> Check:
    return gate.checks[0]
