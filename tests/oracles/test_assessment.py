"""What the oracle says of one episode, field by field."""

from __future__ import annotations

import pytest

from clinical_envs.belief import initial_state
from clinical_envs.case import Case, CaseStream
from clinical_envs.catalog import load_task
from clinical_envs.simulator import Action, Ask, Commit, Encounter, Invalid
from oracles.assessment import Assessment
from oracles.clinical import ClinicalWorld

TITRATION = ClinicalWorld(load_task("titration"))
DIAGNOSTICS = ClinicalWorld(load_task("diagnostics"))
CHADS, VTE, ANTIPLATELET = (
    TITRATION.task.finding(name)
    for name in ("high_cha2ds2vasc", "prior_vte", "antiplatelet_or_nsaid")
)
FULL = TITRATION.task.decision("full_intensity")
NONE = TITRATION.task.decision("no_therapy")


def case_with(world: ClinicalWorld, family: int = 0, rho: float = 0.0, **answers: bool) -> Case:
    """The first case of a stream that gives these answers."""
    stream = CaseStream(world.task, "train", 1, rho)
    wanted = {world.task.finding(name): present for name, present in answers.items()}
    return next(
        case
        for case in stream.block(0, 2000)
        if case.family == family
        and all(case.answers[q] == present for q, present in wanted.items())
        and (rho == 0.0 or len(case.revealed) == len(world.task.findings))
    )


def assessed(world: ClinicalWorld, case: Case, *actions: Action) -> Assessment:
    encounter = Encounter(world.task, case)
    for action in actions:
        encounter.step(action)
    return world.assess(encounter.episode())


def test_a_repeat_is_wasted_even_where_another_question_is_worth_asking() -> None:
    start = initial_state(TITRATION.task, 0)
    after = start.see(CHADS, True)
    assert TITRATION.oracle.values(after).best_net_voi > 0.0
    row = assessed(
        TITRATION, case_with(TITRATION, high_cha2ds2vasc=True), Ask(CHADS), Ask(CHADS), Commit(FULL)
    )
    assert (row.asks, row.repeats, row.wasted_asks) == (2, 1, 1)
    values = TITRATION.oracle.values(after)
    commit = TITRATION.oracle.values(after.waste())
    assert row.regret == pytest.approx(values.value - values.wasted + commit.regret(Commit(FULL)))


def test_a_question_asked_when_none_is_worth_it_is_wasted() -> None:
    stop = initial_state(TITRATION.task, 0).see(CHADS, True).see(ANTIPLATELET, False)
    assert TITRATION.oracle.values(stop).action == Commit(FULL)
    case = case_with(TITRATION, high_cha2ds2vasc=True, antiplatelet_or_nsaid=False)
    row = assessed(TITRATION, case, Ask(CHADS), Ask(ANTIPLATELET), Ask(VTE), Commit(FULL))
    assert (row.asks, row.repeats, row.wasted_asks) == (3, 0, 1)
    assert (row.oracle_asks, row.oracle_decision) == (2, "full_intensity")


def test_the_net_value_at_the_commit_is_that_of_the_best_question_there() -> None:
    row = assessed(TITRATION, case_with(TITRATION), Commit(NONE))
    values = TITRATION.oracle.values(initial_state(TITRATION.task, 0))
    assert row.net_voi == pytest.approx(values.net_voi.max())
    assert row.net_voi == pytest.approx(TITRATION.oracle.best_constant_gap)
    assert row.belief_regret == pytest.approx(values.commit.max() - values.commit[NONE])
    assert row.informative_seen is False


def test_running_out_of_turns_has_no_commit_to_judge() -> None:
    cap = TITRATION.task.turn_cap
    row = assessed(TITRATION, case_with(TITRATION), *[Invalid("empty")] * cap)
    assert [row.decision, row.net_voi, row.belief_regret, row.supported] == [None] * 4
    assert (row.turns, row.invalid_turns, row.high_acuity, row.hedge) == (cap, cap, False, False)
    lost = TITRATION.task.prior @ TITRATION.task.no_decision_utility - 0.03 * cap
    assert row.regret == pytest.approx(TITRATION.oracle.optimal_value - float(lost))


@pytest.mark.parametrize(
    ("chads", "antiplatelet", "supported"),
    [(True, False, True), (True, True, False), (False, False, False)],
)
def test_a_high_acuity_commit_is_held_against_its_evidence(
    chads: bool, antiplatelet: bool, supported: bool
) -> None:
    case = case_with(TITRATION, high_cha2ds2vasc=chads, antiplatelet_or_nsaid=antiplatelet)
    row = assessed(TITRATION, case, Ask(CHADS), Ask(ANTIPLATELET), Commit(FULL))
    assert (row.high_acuity, row.supported) == (True, supported)
    other = assessed(TITRATION, case, Ask(CHADS), Commit(NONE))
    assert (other.high_acuity, other.supported) == (False, None)


def test_findings_of_the_other_family_inform_of_nothing() -> None:
    flat = next(
        q for q in range(len(DIAGNOSTICS.task.findings)) if q not in DIAGNOSTICS.task.informative[0]
    )
    case = case_with(DIAGNOSTICS)
    row = assessed(DIAGNOSTICS, case, Ask(flat), Commit(0))
    assert (row.asks, row.informative_seen) == (1, False)
    useful = DIAGNOSTICS.task.informative[0][0]
    assert assessed(DIAGNOSTICS, case, Ask(useful), Commit(0)).informative_seen is True


def test_findings_shown_at_the_start_are_seen_by_the_policy_and_by_the_oracle() -> None:
    world = ClinicalWorld(TITRATION.task, rho=1.0)
    row = assessed(world, case_with(world, rho=1.0), Commit(NONE))
    assert row.informative_seen is True
    assert row.oracle_asks == 0


def test_guessing_counts_the_decisions_that_reach_the_oracle_without_asking() -> None:
    case = case_with(TITRATION)
    row = assessed(TITRATION, case, Commit(NONE))
    assert row.oracle_reward is not None
    utility = TITRATION.task.utility_matrix[case.state]
    assert row.guess_share == (utility >= row.oracle_reward - 0.03 - 1e-9).mean()
