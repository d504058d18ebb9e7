"""The hard inputs of checked question answering, one row each: input, outcome."""

from __future__ import annotations

import math
from typing import Any
from zlib import crc32

import pytest

from clinical_envs.checkedqa.cascade import FOREIGN_SHARE, foreign_share
from clinical_envs.checkedqa.checkers import CachedChecker, Check, Label, RuleChecker, check_claims
from clinical_envs.checkedqa.claims import claims
from clinical_envs.checkedqa.rewards import Phi, checked_reward, group_advantages, token_f1
from oracles.reward_audit.audit import audit_reward
from oracles.reward_audit.checker_signal import signal
from oracles.reward_audit.findings import Status
from oracles.reward_audit.records import CheckRow, Log, RewardRow
from tests.judges.scripted import Messages, Scripted, down, verdicts
from training.judges.asking import Judge
from training.judges.checkers import JudgeChecker
from training.judges.claims import check_answers
from training.judges.files import Cited

SAID = {
    Label.ENTAIL: verdicts(True, False),
    Label.NEUTRAL: verdicts(False, False),
    Label.CONTRADICT: verdicts(False, True),
}
EVIDENCE = "Drug X at 5 mg reduced blood pressure in adults."
GOLD = "Drug X reduces blood pressure. It does so in adults."
ENGLISH, KOREAN = "Does drug X help?", "아스피린이 도움이 됩니까?"


def checker(script: Any, name: str = "m") -> JudgeChecker:
    return JudgeChecker(Judge(Scripted(script), name))


def answers(policy: str = "base", supported: float = 0.5) -> list[Cited]:
    """Forty prompts of ten claims, a share of which the passage supports, in turns."""
    truth = [Label.ENTAIL if i < 10 * supported else Label.CONTRADICT for i in range(10)]
    return [
        Cited(
            prompt=prompt,
            policy=policy,
            answer="-",
            claims=[f"claim {prompt}-{i} {label}" for i, label in enumerate(truth)],
            truth=truth,
            passages=[EVIDENCE],
        )
        for prompt in range(40)
    ]


def flags(script: Any) -> set[str]:
    log = Log()
    for row in check_answers(answers(), checker(script)):
        if isinstance(row, CheckRow):
            log.add(row)
    return {one.rule for one in audit_reward(log) if one.verdict is Status.FLAG}


def perfect(messages: Messages) -> str:
    """The judge that knows."""
    shown = messages[0]["content"]
    return SAID[next(label for label in Label if f" {label}\n[end of claim" in shown)]


def at_random(messages: Messages) -> str:
    """One of the three, by the claim alone: answers are judged by threads, in any order."""
    return list(SAID.values())[crc32(messages[0]["content"].encode()) % len(SAID)]


COLLAPSED = {"neutral_collapse", "no_support", "uninformative_checker"}
SATURATED = {"saturation", "uninformative_checker"}


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (lambda _: SAID[Label.NEUTRAL], COLLAPSED),
        (lambda _: SAID[Label.ENTAIL], SATURATED),
        (at_random, {"uninformative_checker"}),
        (perfect, set()),
    ],
    ids=["always NEUTRAL", "always ENTAIL", "random", "perfect"],
)
def test_a_judge_that_says_one_thing_or_anything_is_named_for_what_it_is(
    script: Any, expected: set[str]
) -> None:
    assert flags(script) == expected


def verdicts_of(stated: list[str]) -> list[CheckRow]:
    """What the judge that knows says of these claims."""
    given = Cited(prompt=0, answer="-", claims=stated, passages=[EVIDENCE])
    rows = check_answers([given], checker(perfect))
    return [row for row in rows if isinstance(row, CheckRow)]


@pytest.mark.parametrize(
    ("of_policy", "band"),
    [(["c NEUTRAL"] * 20, "collapsed"), (["c ENTAIL"] * 12 + ["c NEUTRAL"] * 8, "moderate")],
)
def test_the_signal_of_a_checker_collapses_at_unchanged_held_out_accuracy(
    of_policy: list[str], band: str
) -> None:
    held_out = verdicts_of([f"c {label}" for label in Label])
    assert [row.verdict for row in held_out] == list(Label)  # accuracy 1, whatever the policy
    found = signal(verdicts_of(of_policy))
    assert found is not None
    assert found.band == band


@pytest.mark.parametrize(
    ("question", "answer", "foreign"),
    [
        (ENGLISH, "是的，它有效", True),
        (ENGLISH, "네, 효과가 있습니다", True),
        (ENGLISH, "abcdefg是的有", True),  # 30 % Chinese
        (ENGLISH, "Yes, via TNF-α", False),
        (KOREAN, "네, 도움이 됩니다", False),
        (KOREAN, "Yes, it helps", True),
    ],
)
def test_the_language_gate_follows_the_questions_language(
    question: str, answer: str, foreign: bool
) -> None:
    given = Cited(prompt=0, question=question, answer=answer, passages=[EVIDENCE])
    (*_, reward) = check_answers([given], RuleChecker())
    assert isinstance(reward, RewardRow)
    assert reward.foreign_share == foreign_share(question, answer)
    assert (reward.foreign_share > FOREIGN_SHARE) == foreign


def test_a_correct_answer_without_a_search_has_no_more_phi_than_silence_and_is_flagged() -> None:
    base = token_f1(GOLD, GOLD)
    lenient = checker(lambda _: SAID[Label.ENTAIL])
    closed = Phi().of_checks(check_claims(lenient, claims(GOLD), []))
    assert (base, closed, checked_reward(base, closed)) == (1.0, Phi().of_checks([]), 0.5)
    rows = [
        RewardRow(
            step=step,
            prompt=prompt,
            rollout=0,
            reward=checked_reward(base if step else 0.5, closed),
            searches=0.0 if step else 2.0,
        )
        for step in (0, 25)
        for prompt in range(60)
    ]
    flagged = {one.rule for one in audit_reward(Log(rewards=rows)) if one.verdict is Status.FLAG}
    assert "search_avoidance" in flagged


@pytest.mark.parametrize(
    ("claim", "label"),
    [
        ("There is no evidence that drug X does not reduce blood pressure in adults", "NEUTRAL"),
        ("Drug X at 5 g reduced blood pressure in adults", "CONTRADICT"),
        ("Drug X at 0.005 g reduced blood pressure in adults", "ENTAIL"),
        ("Drug X at 5 mg reduced blood pressure in mice", "NEUTRAL"),
        ("Drug X at 5 mg may have reduced blood pressure in adults", "ENTAIL"),
    ],
)
def test_negation_units_subgroups_and_hedges(claim: str, label: str) -> None:
    assert RuleChecker().check(claim, EVIDENCE).label == label
    hedged = "Drug X at 5 mg may have reduced blood pressure in adults."
    firm = "Drug X at 5 mg reduced blood pressure in adults"
    assert RuleChecker().check(firm, hedged).label is Label.NEUTRAL


def test_a_group_of_equal_rewards_one_stray_and_one_timeout() -> None:
    equal = group_advantages([0.5] * 8)
    assert (equal.values.tolist(), equal.informative) == ([0.0] * 8, False)  # no update on KL alone
    stray = group_advantages([0.5] * 7 + [0.625])
    assert stray.values.round(2).tolist() == [-0.38] * 7 + [2.65]
    (*_, timed_out) = check_answers(
        [Cited(prompt=0, answer=GOLD, passages=[EVIDENCE], base=0.6)], checker([down()] * 2)
    )
    assert isinstance(timed_out, RewardRow)
    group = group_advantages([0.5, 0.7, 0.5, timed_out.reward])
    assert math.isnan(group.values[3])
    assert group.unscored == 1
    assert group.values[:3].sum() == pytest.approx(0)


def test_two_policies_with_one_checker_have_their_own_findings() -> None:
    log = Log()
    for policy, supported in (("one", 0.5), ("two", 1.0)):
        for row in check_answers(answers(policy, supported), checker(perfect)):
            log.add(row)
    flagged = {(one.subject, one.rule) for one in audit_reward(log) if one.verdict is Status.FLAG}
    assert ("two / judge-1(m)", "saturation") in flagged
    assert not any(subject.startswith("one /") for subject, _ in flagged)


def test_strength_belongs_to_the_pair_of_policy_and_checker() -> None:
    """One checker: 54 % of one policy's claims have its support, 85.3 % of the other's."""
    bands = {}
    for policy, supported in (("base", 540), ("trained", 853)):
        stated = ["c ENTAIL"] * supported + ["c NEUTRAL"] * (1000 - supported)
        given = Cited(prompt=0, policy=policy, answer="-", claims=stated, passages=[EVIDENCE])
        rows = [r for r in check_answers([given], checker(perfect)) if isinstance(r, CheckRow)]
        found = signal(rows)
        assert found is not None
        assert found.support == supported / 1000
        bands[f"{rows[0].policy} / {rows[0].checker}"] = found.band
    assert bands == {"base / judge-1(m)": "moderate", "trained / judge-1(m)": "strong"}


def test_swapping_the_checker_in_the_middle_of_a_run_misses_the_cache() -> None:
    store: dict[tuple[str, str, str], Check] = {}
    for name, label in (("before", Label.ENTAIL), ("after", Label.CONTRADICT)):
        found = CachedChecker(checker([SAID[label]], name), store).check("claim", EVIDENCE)
        assert found is not None
        assert found.label is label
    assert len(store) == 2
