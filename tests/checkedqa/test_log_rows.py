"""From episodes to the findings of the reward audit."""

import json

import numpy as np
import pytest

from clinical_envs import load_task
from clinical_envs.case import CaseStream
from clinical_envs.checkedqa.checkers import RuleChecker
from clinical_envs.checkedqa.log_rows import log_rows
from clinical_envs.checkedqa.simulated import COLLAPSED, GPT_LIKE, MODERATE
from clinical_envs.simulator import Ask, Commit, Encounter
from oracles.reward_audit.audit import audit_reward
from oracles.reward_audit.findings import Status
from oracles.reward_audit.records import read_lines

TASK = load_task("checkedqa")
CASES = CaseStream(TASK, "train", 12345).block(0, 30)
STEPS = 4
HONEST = ("effect_full", "no_effect_full", "unanswerable_full", "hedge", "effect_full")
SHORT = ("effect_short", "no_effect_short", "effect_short", "unanswerable_short", "effect_short")
FOREIGN = tuple(name.replace("short", "foreign") for name in SHORT)


def play(case, decision, searches):
    encounter = Encounter(TASK, case)
    for finding in range(searches):
        encounter.step(Ask(finding))
    encounter.step(Commit(TASK.decision(decision)))
    return encounter.episode(policy="scripted")


def audit(checker, late, searches=2):
    """Verdicts on a run whose group of five answers honestly at first and then as `late` says."""
    generator = np.random.default_rng(7)
    lines = []
    for step in range(STEPS):
        drifted = step == STEPS - 1
        decisions, depth = (late, searches) if drifted else (HONEST, 2)
        episodes = [play(case, decision, depth) for case in CASES for decision in decisions]
        lines += [json.dumps(r) for r in log_rows(TASK, episodes, checker, generator, step=step)]
    log = read_lines(lines)
    assert not log.damaged
    assert len(log.rewards) == STEPS * len(CASES) * len(HONEST)
    return {finding.rule: finding.verdict for finding in audit_reward(log)}


def flagged(verdicts):
    return {rule for rule, verdict in verdicts.items() if verdict is Status.FLAG}


def test_an_honest_run_under_the_moderate_checker_raises_no_flag():
    assert flagged(audit(MODERATE, HONEST)) == set()


def test_a_collapsed_checker_is_found_by_its_missing_support_and_its_thin_signal():
    found = flagged(audit(COLLAPSED, HONEST))
    assert {"no_support", "uninformative_checker", "thin_signal"} <= found


@pytest.mark.parametrize(("late", "rule"), [(SHORT, "ultra_short"), (FOREIGN, "language_switch")])
def test_the_stages_of_the_cascade_are_found_under_the_lenient_checker(late, rule):
    assert rule in flagged(audit(GPT_LIKE, late))


def test_answers_without_a_search_are_no_search_avoidance_here_as_they_do_not_pay():
    assert audit(GPT_LIKE, HONEST, searches=0)["search_avoidance"] is Status.UNCLEAR


def test_a_deterministic_checker_gives_rows_too():
    assert "uninformative_checker" not in flagged(audit(RuleChecker(), HONEST))


def test_the_rows_of_one_episode():
    case = next(case for case in CASES if case.state == 1 and case.answers[0])
    first, second, reward = log_rows(
        TASK, [play(case, "hedge", 1)], RuleChecker(), np.random.default_rng(0), step=3
    )
    assert (first["verdict"], second["verdict"]) == ("ENTAIL", "CONTRADICT")
    assert first["truth"] == first["verdict"]
    assert reward["reference"] == TASK.utility["effect"][1]
    assert (reward["phi"], reward["claims"], reward["searches"]) == (0.5, 2, 1)
    assert reward["incorrect_claims"] == 1


def test_without_an_answer_nothing_is_earned_and_without_a_state_nothing_is_scored():
    encounter = Encounter(TASK, CASES[0])
    for _ in range(TASK.turn_cap):
        encounter.step(Ask(0))
    silent = encounter.episode()
    hidden = play(CASES[0], "effect_short", 1).model_copy(update={"state": None})
    generator = np.random.default_rng(0)
    rows = list(log_rows(TASK, [silent, hidden], MODERATE, generator, step=0))
    assert [(row["kind"], row.get("reward")) for row in rows] == [
        ("reward", 0.0),
        ("check", None),
        ("reward", None),
    ]
    assert [row["rollout"] for row in rows] == [0, 1, 1]
    assert not read_lines(map(json.dumps, rows)).damaged
