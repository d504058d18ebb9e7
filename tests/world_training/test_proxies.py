"""Each published reward by its name, and its rows in the reward audit."""

from __future__ import annotations

import json

import numpy as np
import pytest

from clinical_envs.catalog import load_task
from clinical_envs.checkedqa.simulated import SIMULATED
from clinical_envs.checkedqa.training_rewards import episode_reward
from clinical_envs.episode import Episode
from clinical_envs.errors import InvalidArgument
from clinical_envs.factcheck.training_rewards import training_reward
from clinical_envs.rubric.training_rewards import episode_reference
from oracles.reward_audit.audit import audit_reward
from oracles.reward_audit.records import Log, read_lines
from tests.world_training.play import committed, first_cases
from training.proxies import Proxy, make_proxy, proxies

FACTCHECK, CHECKED, RUBRIC = (load_task(name) for name in ("factcheck", "checkedqa", "rubric"))


def log_of(proxy: Proxy, checkpoints: dict[int, list[Episode]]) -> Log:
    rows = [
        row
        for step, episodes in checkpoints.items()
        for row in proxy.rows(episodes, step, np.random.default_rng(step))
    ]
    log = read_lines([json.dumps(row) for row in rows])
    assert not log.damaged
    return log


def test_the_names_of_each_world() -> None:
    assert set(proxies(FACTCHECK)) == {"eg"}
    assert set(proxies(CHECKED)) == {"collapsed", "moderate", "strong", "gpt-like"}
    assert set(proxies(RUBRIC)) == {"weak", "strong"}
    assert proxies(load_task("diagnostics")) == {}


@pytest.mark.parametrize(
    ("task", "name", "hint"),
    [("rubric", "week", "did you mean 'weak'"), ("titration", "weak", "an evidence world")],
)
def test_another_name_is_refused_in_one_line(task: str, name: str, hint: str) -> None:
    with pytest.raises(InvalidArgument, match=hint) as caught:
        make_proxy(load_task(task), name)
    assert "\n" not in str(caught.value)


def test_a_proxy_pays_what_its_world_publishes() -> None:
    (case,) = first_cases(FACTCHECK, 1)
    report = committed(FACTCHECK, case, "supported_padded", asks=2)
    assert make_proxy(FACTCHECK, "eg").reward(report) == training_reward(FACTCHECK, report).total
    (case,) = first_cases(CHECKED, 1)
    answer = committed(CHECKED, case, "effect_short")
    for checker in SIMULATED:
        paid = make_proxy(CHECKED, checker.name).reward(answer)
        assert paid == episode_reward(CHECKED, answer, checker)


def test_the_weak_verifier_pays_full_points_for_talk_and_the_reference_does_not() -> None:
    (case,) = first_cases(RUBRIC, 1)
    talk = committed(RUBRIC, case, "topical_only", asks=0)
    assert make_proxy(RUBRIC, "weak").reward(talk) == 1.0
    assert episode_reference(RUBRIC, talk) == pytest.approx(0.65)
    strong = make_proxy(RUBRIC, "strong").reward(talk)
    assert strong is not None
    assert 0.65 <= strong <= 1.0


def test_a_fabricated_study_costs_what_a_hallucination_costs() -> None:
    """Nothing retrieved and one foreign study cited: no evidence, and the whole penalty."""
    (case,) = first_cases(FACTCHECK, 1)
    proxy = make_proxy(FACTCHECK, "eg")
    honest = proxy.reward(committed(FACTCHECK, case, "refuted_honest", asks=0))
    invented = proxy.reward(committed(FACTCHECK, case, "refuted_fabricated", asks=0))
    assert honest is not None
    assert invented == pytest.approx(honest - 1.0)


def test_rows_of_fact_checking_hold_proxy_reference_and_hallucinations() -> None:
    cases = first_cases(FACTCHECK, 25)
    start = [committed(FACTCHECK, case, "supported_fabricated", asks=0) for case in cases]
    later = [committed(FACTCHECK, case, "supported_honest", asks=2) for case in cases]
    log = log_of(make_proxy(FACTCHECK, "eg"), {0: start, 10: later})
    before, after = ([row for row in log.rewards if row.step == step] for step in (0, 10))
    assert [row.incorrect_claims for row in before] == [1] * 25
    assert [row.incorrect_claims for row in after] == [0] * 25
    assert {row.meta["evidence"] for row in after} == {2}
    assert {row.searches for row in after} == {2}
    for row, episode in zip(after, later, strict=True):
        paid = training_reward(FACTCHECK, episode)
        assert (row.reward, row.reference) == (paid.total, paid.outcome)
    rules = {one.rule for one in audit_reward(log)}
    assert {"stopping_regret", "reward_follows_errors"} <= rules


def test_all_checkpoints_of_a_checked_run_are_one_policy() -> None:
    cases = first_cases(CHECKED, 20)
    checkpoints = {
        step: [
            committed(CHECKED, case, "effect_full").model_copy(update={"policy": f"update-{step}"})
            for case in cases
        ]
        for step in (0, 10)
    }
    log = log_of(make_proxy(CHECKED, "moderate"), checkpoints)
    assert {(row.policy, row.checker) for row in log.checks} == {("trained", "moderate")}
    assert len(log.rewards) == 40


def test_rubric_rows_are_of_the_first_rollout_of_each_case() -> None:
    cases = first_cases(RUBRIC, 20)
    episodes = [
        committed(RUBRIC, case, "generic_complete").model_copy(update={"rollout": rollout})
        for case in cases
        for rollout in range(2)
    ]
    log = log_of(make_proxy(RUBRIC, "weak"), {0: episodes})
    assert len(log.rewards) == 20
    assert {row.verifier for row in log.judgments} == {"weak"}
