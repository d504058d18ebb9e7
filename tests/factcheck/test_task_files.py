"""The two task files: one literature, two ways to end; the verifier pays the label alone."""

from __future__ import annotations

from importlib import resources

import numpy as np
import pytest

from clinical_envs.catalog import check_task_text, evidence_ids
from clinical_envs.factcheck.designs import DESIGNS
from clinical_envs.factcheck.reporting import Way, decision_id, read_decision, right_verdict
from clinical_envs.factcheck.topics import VERBS
from clinical_envs.factcheck.verdict import Verdict
from clinical_envs.task import Task
from oracles.clinical import make_world
from oracles.evaluation import evaluate
from oracles.gates import gate_1
from oracles.selftest import selftest
from tests.factcheck.worlds import LABEL_WORLD, REPORT_WORLD

TRUTHS = {
    "refuted": Verdict.REFUTED,
    "refuted_harmful": Verdict.REFUTED,
    "mixed": Verdict.NOT_ENOUGH_INFO,
    "supported": Verdict.SUPPORTED,
    "supported_vital": Verdict.SUPPORTED,
}
BOTH = pytest.mark.parametrize("task", [REPORT_WORLD, LABEL_WORLD], ids=lambda task: task.name)


@BOTH
def test_a_world_has_the_published_cap_and_the_suites_cost(task: Task) -> None:
    assert task.id in evidence_ids()
    assert task.turn_cap == 5 + 1
    assert task.question_cost == 0.03
    assert task.finding_ids == tuple(DESIGNS)
    assert task.family_ids == tuple(VERBS)
    assert set(task.checklist) == set(VERBS)


@BOTH
def test_the_utility_is_one_for_the_right_label_in_whatever_way_and_else_zero(task: Task) -> None:
    verdicts = [read_decision(name)[0] for name in task.decision_ids]
    expected = [[float(v is TRUTHS[state]) for v in verdicts] for state in task.state_ids]
    np.testing.assert_array_equal(task.utility_matrix, expected)
    np.testing.assert_array_equal(task.no_decision_utility, np.zeros(5))
    assert [right_verdict(task, s) for s in range(5)] == list(TRUTHS.values())


@BOTH
def test_hedging_is_not_deciding_and_supporting_needs_a_supporting_body(task: Task) -> None:
    ways = Way if task is REPORT_WORLD else (None,)
    assert set(task.hedges) == {decision_id(Verdict.NOT_ENOUGH_INFO, way) for way in ways}
    acute = {decision_id(Verdict.SUPPORTED, way) for way in ways}
    assert set(task.high_acuity) == acute
    for family in range(2):
        for name in acute:
            decision = task.decision(name)
            assert task.supported(family, decision, {}) is False
            assert task.supported(family, decision, {"animal": False, "rct": False}) is False
            assert task.supported(family, decision, {"animal": True, "rct": False}) is True


def test_both_worlds_have_the_same_claims_and_evidence() -> None:
    np.testing.assert_array_equal(REPORT_WORLD.likelihood, LABEL_WORLD.likelihood)
    np.testing.assert_array_equal(REPORT_WORLD.prior, LABEL_WORLD.prior)
    assert REPORT_WORLD.states == LABEL_WORLD.states
    values = [make_world(task).headroom for task in (REPORT_WORLD, LABEL_WORLD)]
    assert values[0] == pytest.approx(values[1], abs=1e-12)


def test_searching_is_worth_a_quarter_of_the_best_guess() -> None:
    """0.7265 by the exact oracle, and by plain backward induction in test_proxy_optimum."""
    world = make_world("factcheck_label")
    optimal, constant = world.headroom or (0.0, 0.0)
    assert optimal == pytest.approx(0.7265, abs=5e-5)
    assert constant == pytest.approx(0.46)
    assert gate_1(world).passed is True


@pytest.mark.parametrize("name", ["factcheck", "factcheck_label"])
def test_the_harness_runs_on_a_world_by_its_name(name: str) -> None:
    world = make_world(name)
    episodes = evaluate(world, world.policy("checklist"), world.cases("heldout")[:20], k=1)
    rows = [world.assess(episode) for episode in episodes]
    assert all(row.decision is not None for row in rows)
    assert {row.group for row in rows} == {"ordinary", "unsettled", "high_harm"}


@pytest.mark.slow
@BOTH
def test_every_failure_is_flagged_and_the_oracle_never(task: Task) -> None:
    world = make_world(task.name)
    result = selftest(world)  # type: ignore[arg-type]
    assert (result.missed, result.false_alarms, result.left_out) == ((), (), ())


def test_a_copy_may_make_searches_free_and_keeps_its_dialogue() -> None:
    folder = resources.files("clinical_envs") / "tasks" / "evidence"
    text = (folder / "ClinicalFactCheck-v0.yaml").read_text(encoding="utf-8")
    free, problems = check_task_text(
        text.replace("question_cost: 0.03", "question_cost: 0"), "mine"
    )
    assert problems == []
    assert free is not None
    assert (free.id, free.question_cost) == (REPORT_WORLD.id, 0.0)
    assert make_world(free).headroom > make_world(REPORT_WORLD).headroom  # type: ignore[operator]
