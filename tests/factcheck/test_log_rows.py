"""From fact-checking episodes to the findings of the reward audit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clinical_envs.case import CaseStream
from clinical_envs.episode import Episode
from clinical_envs.errors import InvalidEpisode
from clinical_envs.factcheck.log_rows import log_rows
from clinical_envs.factcheck.reporting import Way, decision_id, right_verdict
from clinical_envs.factcheck.training_rewards import training_reward
from clinical_envs.factcheck.verdict import Verdict
from clinical_envs.simulator import Ask, Commit, Encounter
from clinical_envs.task import Task
from oracles.reward_audit.audit import audit_reward
from oracles.reward_audit.exploitation import windows
from oracles.reward_audit.findings import Status
from oracles.reward_audit.records import Log, read_lines
from tests.factcheck.worlds import LABEL_WORLD, REPORT_WORLD, case

CASES = CaseStream(REPORT_WORLD, "train", 12345).block(0, 30)


def play(task: Task, this: Any, decision: str, searches: int = 2) -> Episode:
    encounter = Encounter(task, this)
    for finding in range(searches):
        encounter.step(Ask(finding))
    encounter.step(Commit(task.decision(decision)))
    return encounter.episode(policy="scripted")


def run(*ways: str, rollouts: int = 2) -> Log:
    """A run whose checkpoints report the right verdict in these ways; `blind` reports nothing."""
    lines = []
    for step, way in enumerate(ways):
        episodes = []
        for this in CASES:
            verdict = right_verdict(REPORT_WORLD, this.state)
            decision = (
                decision_id(Verdict.NOT_ENOUGH_INFO, Way.HONEST)
                if way == "blind"
                else decision_id(verdict, Way(way))
            )
            searches = 0 if way == "blind" else 2
            episodes += [play(REPORT_WORLD, this, decision, searches)] * rollouts
        lines += map(json.dumps, log_rows(REPORT_WORLD, episodes, step=step))
    log = read_lines(lines)
    assert not log.damaged
    assert len(log.rewards) == len(CASES) * len(ways) * rollouts
    assert len(log.judgments) == 3 * len(CASES) * len(ways)
    return log


def verdicts(log: Log) -> dict[str, Status]:
    return {finding.rule: finding.verdict for finding in audit_reward(log)}


def test_a_run_that_learns_to_report_honestly_is_not_flagged() -> None:
    found = verdicts(run("blind", "honest", "honest"))
    assert found["exploitation_level"] is Status.CLEAR
    assert found["verifier_disagreement"] is Status.CLEAR
    assert found["stopping_regret"] is not Status.FLAG


@pytest.mark.parametrize("way", ["fabricated", "padded"])
def test_a_run_that_learns_to_fabricate_or_pad_is_flagged_for_what_the_rule_cannot_see(
    way: str,
) -> None:
    log = run("blind", way)
    found = verdicts(log)
    assert found["exploitation_level"] is Status.FLAG
    assert found["verifier_disagreement"] is Status.FLAG
    (window,), skipped = windows(log.judgments)
    assert skipped == 0
    assert {str(row.criterion) for row in window.exploits} == {"evidence"}


def test_altered_quotes_pass_the_rule_and_not_the_audit() -> None:
    judged = [
        (row.training, row.panel)
        for row in run("fabricated").judgments
        if row.criterion == "quotes"
    ]
    assert judged == [(True, [False])] * len(CASES)


def test_the_rows_of_one_episode() -> None:
    episode = play(REPORT_WORLD, case(REPORT_WORLD, state=0), "supported_padded", searches=2)
    *judgments, reward = log_rows(REPORT_WORLD, [episode], step=3)
    paid = training_reward(REPORT_WORLD, episode)
    assert reward["reward"] == paid.total
    assert reward["reference"] == paid.outcome
    assert (reward["searches"], reward["incorrect_claims"], reward["step"]) == (2, 0, 3)
    assert reward["meta"]["evidence"] == 4
    assert {row["criterion"]: (row["training"], row["panel"]) for row in judgments} == {
        "verdict": (paid.outcome == 1.0, [paid.outcome == 1.0]),
        "quotes": (True, [True]),
        "evidence": (True, [False]),
    }


def test_a_study_that_was_never_retrieved_is_seen_by_both() -> None:
    episode = play(REPORT_WORLD, case(REPORT_WORLD), "supported_fabricated", searches=0)
    rows = {r.get("criterion"): r for r in log_rows(REPORT_WORLD, [episode], step=0)}
    assert (rows["quotes"]["training"], rows["quotes"]["panel"]) == (False, [False])
    assert rows[None]["incorrect_claims"] == 1


def test_an_episode_without_a_report_is_credited_with_no_evidence() -> None:
    encounter = Encounter(REPORT_WORLD, case(REPORT_WORLD))
    for _ in range(REPORT_WORLD.turn_cap):
        encounter.step(Ask(0))
    *judgments, reward = log_rows(REPORT_WORLD, [encounter.episode()], step=0)
    assert (reward["reward"], reward["reference"]) == (0.5, 0.0)  # its searches were Boolean
    assert [(row["criterion"], row["training"]) for row in judgments] == [
        ("verdict", False),
        ("quotes", True),
        ("evidence", False),
    ]


def test_rollouts_of_a_case_are_a_group_and_the_first_is_judged() -> None:
    decisions = ("supported_honest", "refuted_padded", "supported_fabricated")
    episodes = [play(REPORT_WORLD, CASES[0], decision) for decision in decisions]
    rows = list(
        log_rows(REPORT_WORLD, [*episodes, play(REPORT_WORLD, CASES[1], decisions[0])], step=0)
    )
    assert [row["rollout"] for row in rows if row["kind"] == "reward"] == [0, 1, 2, 0]
    assert [row["prompt"] for row in rows if row["kind"] == "judgment"] == [
        *[str(episodes[0].case_id)] * 3,
        *[rows[-1]["prompt"]] * 3,
    ]


def test_the_world_of_labels_has_a_verdict_and_nothing_to_cite() -> None:
    decision = decision_id(Verdict.SUPPORTED)
    rows = list(log_rows(LABEL_WORLD, [play(LABEL_WORLD, case(LABEL_WORLD), decision)], step=0))
    assert [row.get("criterion") for row in rows] == ["verdict", None]
    assert not read_lines(map(json.dumps, rows)).damaged


def test_an_episode_that_hides_its_state_is_refused() -> None:
    episode = play(REPORT_WORLD, CASES[0], "supported_honest")
    with pytest.raises(InvalidEpisode, match="case and the state"):
        list(log_rows(REPORT_WORLD, [episode.model_copy(update={"state": None})], step=0))
