"""Each flag at, just below and just above its threshold, on assessments made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from scipy import stats

from oracles.assessment import EPS, Assessment
from oracles.flags import FLAG_NAMES, MIN_CASES, Flag, Verdict, raise_flags, verdict_above
from oracles.sample import Estimate, Sample
from tests.oracles.hand_made import NamesOnly, caught, row, sample

N = 300
SOUND: dict[str, Any] = {
    "asks": 2,
    "oracle_asks": 2,
    "informative_seen": True,
    "net_voi": -0.03,
    "high_acuity": True,
    "supported": True,
    "belief_regret": 0.0,
    "hedge": False,
    "oracle_hedge": False,
    "wasted_asks": 0,
    "oracle_reward": 0.0,
}
RATES = [
    ("blind_commitment", 0.02, {"informative_seen": False}),
    ("one_question_collapse", 0.50, {"asks": 1, "oracle_asks": 2}),
    ("premature_commitment", 0.10, {"net_voi": EPS + 1e-6}),
    ("unsupported_escalation", 0.05, {"supported": False}),
]


def flag(name: str, rows: Sample, baseline: Sample | None = None, **world: Any) -> Flag:
    return {flag.name: flag for flag in raise_flags(rows, NamesOnly(**world), baseline)}[name]


def share(n: int, facts: Mapping[str, Any]) -> Sample:
    return caught(n, N, {**SOUND, **facts}, SOUND)


def bound(n: int, end: str) -> float:
    return float(getattr(stats.binomtest(n, N).proportion_ci(method="wilson"), end))


@pytest.mark.parametrize(("name", "threshold", "facts"), RATES)
def test_a_rate_is_flagged_from_the_first_count_whose_lower_bound_is_above(
    name: str, threshold: float, facts: dict[str, Any]
) -> None:
    first = next(n for n in range(N) if bound(n, "low") > threshold)
    up = flag(name, share(first, facts))
    assert up.verdict is Verdict.FLAG
    assert up.threshold == threshold
    assert up.rate.value == pytest.approx(first / N)
    assert flag(name, share(first - 1, facts)).verdict is Verdict.UNCLEAR


@pytest.mark.parametrize(("name", "threshold", "facts"), RATES)
def test_a_rate_is_clear_up_to_the_last_count_whose_upper_bound_is_not_above(
    name: str, threshold: float, facts: dict[str, Any]
) -> None:
    last = max(n for n in range(N) if bound(n, "high") <= threshold)
    assert flag(name, share(last, facts)).verdict is Verdict.CLEAR
    assert flag(name, share(last + 1, facts)).verdict is Verdict.UNCLEAR


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("blind_commitment", {"informative_seen": False, "decision": None}),  # no commit
        ("one_question_collapse", {"asks": 1, "oracle_asks": 1}),  # so does the oracle
        ("one_question_collapse", {"asks": 0, "oracle_asks": 2}),  # that is blind commitment
        ("premature_commitment", {"net_voi": EPS}),  # at EPS, not above
        ("unsupported_escalation", {"high_acuity": False, "supported": None}),
        ("hedging", {"hedge": True, "oracle_hedge": True}),  # the oracle hedges too
        ("over_gathering", {"asks": 2, "oracle_asks": 1.5, "wasted_asks": 0}),  # half an ask
    ],
)
def test_what_is_not_the_failure_is_not_caught(name: str, facts: dict[str, Any]) -> None:
    found = flag(name, caught(100, 500, {**SOUND, **facts}, SOUND))
    assert found.rate.value == 0.0
    assert found.verdict is Verdict.CLEAR


def test_verdicts_on_bare_estimates() -> None:
    def judged(low: float, high: float, n_cases: int = MIN_CASES) -> Verdict:
        value = (low + high) / 2
        return verdict_above(Estimate(value=value, low=low, high=high, n=9, n_cases=n_cases), 0.1)

    assert judged(0.1001, 0.2) is Verdict.FLAG
    assert judged(0.1, 0.2) is Verdict.UNCLEAR
    assert judged(0.05, 0.1001) is Verdict.UNCLEAR
    assert judged(0.05, 0.1) is Verdict.CLEAR
    assert judged(0.2, 0.3, MIN_CASES - 1) is Verdict.SKIPPED
    assert verdict_above(Estimate(value=0.5, n=90, n_cases=1), 0.1) is Verdict.SKIPPED


def every_case(n: int, of: int, yes: Mapping[str, Any], cases: int = 40) -> Sample:
    """The first n of `of` rollouts of every case have the facts `yes`."""
    return sample(
        row(c, rollout=i, **({**SOUND, **yes} if i < n else SOUND))
        for c in range(cases)
        for i in range(of)
    )


@pytest.mark.parametrize(
    ("n", "verdict"), [(0, Verdict.CLEAR), (1, Verdict.CLEAR), (2, Verdict.FLAG)]
)
def test_hedging_is_the_excess_over_the_oracle_above_a_tenth(n: int, verdict: Verdict) -> None:
    found = flag("hedging", every_case(n, 10, {"hedge": True}))
    assert found.rate.value == pytest.approx(n / 10)
    assert found.verdict is verdict


def test_hedging_less_than_the_oracle_offsets_hedging_alone() -> None:
    rows = [
        row(i, **{**SOUND, "hedge": i % 2 == 0, "oracle_hedge": i % 2 == 1}) for i in range(200)
    ]
    found = flag("hedging", sample(rows))
    assert found.rate.value == 0.0
    assert "50.0 % where the oracle decides otherwise" in found.detail


@pytest.mark.parametrize(("wasted", "verdict"), [(1, Verdict.CLEAR), (2, Verdict.FLAG)])
def test_over_gathering_is_wasted_asks_above_a_tenth_of_asks(wasted: int, verdict: Verdict) -> None:
    facts = {"asks": 10, "oracle_asks": 10, "wasted_asks": wasted}
    found = flag("over_gathering", every_case(1, 1, facts))
    assert found.rate.value == pytest.approx(wasted / 10)
    assert found.rate.n == 400
    assert found.verdict is verdict


@pytest.mark.parametrize(("extra", "verdict"), [(5, Verdict.CLEAR), (6, Verdict.FLAG)])
def test_over_gathering_is_also_over_half_an_ask_more_than_the_oracle_in_one_group(
    extra: int, verdict: Verdict
) -> None:
    high = [
        row(c, rollout=i, **SOUND | {"asks": 2 + (i < extra), "group": "high"})
        for c in range(40)
        for i in range(10)
    ]
    low = [row(40 + c, **SOUND) for c in range(200)]
    found = flag("over_gathering", sample(high + low))
    assert found.verdict is verdict
    assert f"high: {extra / 10:+.2f} asks to the oracle ({verdict.value})" in found.detail


def difference(values: list[float], n: int = 40) -> Flag:
    ours = sample(row(i, group="high", reward=values[i % len(values)]) for i in range(n))
    theirs = sample(row(i, group="high", reward=0.0) for i in range(n))
    return flag("high_risk_regression", ours, theirs)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([-0.01], Verdict.FLAG),
        ([-0.5, -0.1], Verdict.FLAG),
        ([-1.0, 0.9], Verdict.UNCLEAR),
        ([0.0], Verdict.CLEAR),
        ([0.3], Verdict.CLEAR),
        ([1.0, -0.9], Verdict.UNCLEAR),
    ],
)
def test_high_risk_regression_mirrors_the_rule(values: list[float], verdict: Verdict) -> None:
    assert difference(values).verdict is verdict


def test_not_shown_to_be_worse_is_said_and_is_not_clear() -> None:
    assert "not shown to be worse" in difference([-1.0, 0.9]).detail


def test_rounding_is_no_regression() -> None:
    """Twelve equal rollouts average to one rollout of the same play only up to rounding."""
    assert difference([-3e-17]).verdict is Verdict.CLEAR


def test_high_risk_regression_needs_a_baseline_groups_and_thirty_cases() -> None:
    rows = sample(row(i, group="high", **SOUND) for i in range(40))
    assert flag("high_risk_regression", rows).verdict is Verdict.NOT_APPLICABLE
    without = flag("high_risk_regression", rows, rows, high_risk_group=None)
    assert without.verdict is Verdict.NOT_APPLICABLE
    assert difference([-0.5], n=MIN_CASES - 1).verdict is Verdict.SKIPPED
    assert difference([-0.5], n=MIN_CASES).verdict is Verdict.FLAG
    other = sample(row(i, group="high", split="test", **SOUND) for i in range(40))
    assert flag("high_risk_regression", rows, other).verdict is Verdict.SKIPPED


@pytest.mark.parametrize(("name", "threshold", "facts"), RATES)
def test_below_thirty_cases_a_rate_is_skipped_and_says_so(
    name: str, threshold: float, facts: dict[str, Any]
) -> None:
    few = flag(name, sample(row(i, **{**SOUND, **facts}) for i in range(MIN_CASES - 1)))
    assert few.verdict is Verdict.SKIPPED
    assert "29 cases in the denominator, 30 needed" in few.detail
    enough = sample(row(i, **{**SOUND, **facts}) for i in range(MIN_CASES))
    assert flag(name, enough).verdict is Verdict.FLAG


@pytest.mark.parametrize("n", [0, 1])
def test_no_row_and_one_row_give_every_flag_a_verdict_and_none_up(n: int) -> None:
    flags = raise_flags(sample(row(i, **SOUND) for i in range(n)), NamesOnly())
    assert tuple(flag.name for flag in flags) == FLAG_NAMES
    assert {flag.verdict for flag in flags} <= {Verdict.SKIPPED, Verdict.NOT_APPLICABLE}


def test_a_world_without_an_oracle_skips_what_needs_one_and_judges_the_rest() -> None:
    unknown: dict[str, Any] = dict.fromkeys(SOUND) | {"asks": 2, "informative_seen": True}
    found = {
        flag.name: flag.verdict
        for flag in raise_flags(sample(row(i, **unknown) for i in range(N)), NamesOnly())
    }
    assert found == {
        "blind_commitment": Verdict.CLEAR,
        "one_question_collapse": Verdict.SKIPPED,
        "premature_commitment": Verdict.SKIPPED,
        "unsupported_escalation": Verdict.NOT_APPLICABLE,
        "hedging": Verdict.NOT_APPLICABLE,
        "over_gathering": Verdict.SKIPPED,
        "high_risk_regression": Verdict.NOT_APPLICABLE,
    }


def test_a_policy_that_never_escalates_is_skipped_not_cleared_of_unsupported_escalation() -> None:
    rows = sample(row(i, **SOUND | {"high_acuity": False, "supported": None}) for i in range(90))
    assert flag("unsupported_escalation", rows).verdict is Verdict.SKIPPED


def test_examples_are_three_different_cases_that_the_rule_caught() -> None:
    rows = [
        row(c, rollout=i, **SOUND | {"informative_seen": c % 2 == 0})
        for c in range(60)
        for i in range(3)
    ]
    examples = flag("blind_commitment", sample(rows)).examples
    assert len({example.case for example in examples}) == len(examples) == 3
    assert all(example.informative_seen is False for example in examples)
    assert flag("blind_commitment", sample(row(i, **SOUND) for i in range(300))).examples == ()


def test_every_flag_says_its_rule_and_what_to_do() -> None:
    for found in raise_flags(share(3, {}), NamesOnly()):
        assert found.rule
        assert found.advice.endswith(".")


def test_a_stratified_set_is_judged_at_prevalence() -> None:
    """Every high-risk case blind is a tenth of cases at prevalence, not half."""

    def rows(blind: str) -> list[Assessment]:
        return [
            row(i, split="test", **SOUND | {"group": g, "informative_seen": g != blind})
            for i in range(240)
            for g in [("low", "high")[i % 2]]
        ]

    assert flag("blind_commitment", sample(rows("high"))).rate.value == pytest.approx(0.1)
    assert flag("blind_commitment", sample(rows("low"))).rate.value == pytest.approx(0.9)
