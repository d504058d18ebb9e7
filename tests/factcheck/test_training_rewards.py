"""The published reward of an episode: from texts and by arithmetic, what it sees and what not."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.belief import info_state
from clinical_envs.episode import Episode
from clinical_envs.errors import InvalidEpisode
from clinical_envs.factcheck.designs import DESIGNS
from clinical_envs.factcheck.reporting import right_verdict
from clinical_envs.factcheck.rewards import FactCheckReward, composite_evidence_reward
from clinical_envs.factcheck.training_rewards import (
    RECALL,
    STRENGTH,
    canonical_reward,
    checked_claim,
    evidence_score,
    report_metrics,
    training_reward,
)
from clinical_envs.factcheck.verdict import Verdict
from clinical_envs.simulator import Ask, Commit
from clinical_envs.task import Task
from oracles.clinical import make_world
from oracles.evaluation import evaluate
from tests.factcheck.worlds import BODIES, LABEL_WORLD, REPORT_WORLD, case, dialogue

TASK = REPORT_WORLD


def played(
    task: Task, *script: str, leans: dict[str, bool] | None = None, **kind: Any
) -> tuple[Episode, Episode]:
    """One script by action and in text: names of bodies and of decisions, else raw text."""
    answers = tuple((leans or {}).get(name, True) for name in task.finding_ids)
    records = []
    for in_text in (False, True):
        spoken = dialogue(task, case(task, leans=answers, **kind))
        for name in script:
            if name in task.finding_index:
                text = spoken.write(Ask(task.finding(name)))
            elif name in task.decision_index:
                text = spoken.write(Commit(task.decision(name)))
            else:
                text = name
            spoken.step(text)
        raw = tuple(m["content"] for m in spoken.messages if m["role"] == "assistant")
        records.append(spoken.encounter.episode(raw=raw if in_text else None))
    return records[0], records[1]


@given(
    st.sampled_from(TASK.decision_ids),
    st.lists(st.sampled_from(BODIES), unique=True, max_size=5),
    st.dictionaries(st.sampled_from(BODIES), st.booleans(), min_size=8),
    st.integers(0, 1),
    st.integers(0, 4),
    st.integers(0, 10**6),
)
def test_the_arithmetic_is_the_reward_of_the_texts_in_every_case(
    decision: str, asked: list[str], leans: dict[str, bool], family: int, state: int, index: int
) -> None:
    kind = {"family": family, "state": state, "index": index}
    menu, text = played(TASK, *asked, decision, leans=leans, **kind)
    by_text = training_reward(TASK, text)
    assert by_text == training_reward(TASK, menu)
    info = info_state(TASK, TASK.family_ids[family], {body: leans[body] for body in asked})
    exact = canonical_reward(TASK, info, TASK.decision(decision))
    assert by_text.total == pytest.approx(exact[state], abs=1e-12)


def test_an_honest_report_by_hand() -> None:
    """1 + 0.5 + R_CER([0.94, 0.98]) + R_CER([0.76]) on a supported claim, none hallucinated."""
    menu, _ = played(
        TASK, "rct", "meta_analysis", "cohort", "supported_honest", leans={"cohort": False}, state=3
    )
    reward = training_reward(TASK, menu)
    assert (reward.outcome, reward.search, reward.hallucination) == (1.0, 1.0, 0.0)
    by_hand = (0.94 + 0.98) / 2 * (1 - math.exp(-2)) + 0.76 * (1 - math.exp(-1))
    assert reward.evidence == pytest.approx(by_hand, abs=1e-12)


@given(
    st.sampled_from(list(DESIGNS)),
    st.integers(0, 4),
    st.booleans(),
    st.sampled_from(list(Verdict)),
)
def test_scores_are_probabilities_that_sum_to_one(
    body: str, index: int, finds_for: bool, truth: Verdict
) -> None:
    scores = [evidence_score(body, index, finds_for, verdict, truth) for verdict in Verdict]
    assert all(0.0 < s < 1.0 for s in scores)
    assert sum(scores) == pytest.approx(1.0)


def test_the_judge_half_remembers_the_truth() -> None:
    for body, strength in STRENGTH.items():
        for truth, s in (
            (Verdict.SUPPORTED, strength + RECALL),
            (Verdict.NOT_ENOUGH_INFO, strength),
            (Verdict.REFUTED, strength - RECALL),
        ):
            assert evidence_score(body, 0, True, Verdict.SUPPORTED, truth) == pytest.approx(s)


def test_the_published_reward_cannot_see_an_altered_quote() -> None:
    asked = ["rct", "cohort"]
    for leans in ({}, {"rct": False}, {"rct": False, "cohort": False}):
        for verdict in ("refuted", "not_enough_info", "supported"):
            honest, forged = (
                training_reward(TASK, played(TASK, *asked, f"{verdict}_{way}", leans=leans)[1])
                for way in ("honest", "fabricated")
            )
            assert honest == forged
            assert forged.hallucination == 0.0


def test_it_sees_a_pmid_that_was_never_retrieved() -> None:
    reward = training_reward(TASK, played(TASK, "supported_fabricated", state=3)[1])
    assert reward == FactCheckReward(outcome=1.0, search=0.0, evidence=0.0, hallucination=1.0)


def test_padding_pays_where_the_evidence_agrees_and_costs_where_it_does_not() -> None:
    asked = list(BODIES[:4])
    for against, pays in ((0, True), (1, False), (2, False)):
        leans = dict.fromkeys(BODIES[:against], False)
        honest, padded = (
            training_reward(TASK, played(TASK, *asked, f"supported_{way}", leans=leans, state=3)[0])
            for way in ("honest", "padded")
        )
        assert honest.outcome == padded.outcome
        assert (padded.total > honest.total) == pays


def test_a_wrong_verdict_on_much_evidence_beats_a_right_one_on_little() -> None:
    """The paper's exploit, section 0.5 of the specification, with studies of this world."""
    split = {"guideline": False, "cohort": False}
    wrong, _ = played(TASK, *BODIES[:4], "supported_honest", leans=split, state=0)
    right, _ = played(TASK, "expert_opinion", "supported_honest", state=3)
    rewards = [training_reward(TASK, episode) for episode in (wrong, right)]
    assert [reward.outcome for reward in rewards] == [0.0, 1.0]
    assert rewards[0].total > rewards[1].total


def test_only_searches_count_as_searches() -> None:
    lines = [
        json.dumps({"action": "search_pubmed", "query": "(asthma AND"}),
        json.dumps({"action": "search_pubmed", "query": "qwertz"}),
        "no JSON AND more",
    ]
    _, text = played(TASK, "rct", *lines, "refuted_honest")
    assert len(checked_claim(TASK, text).queries) == 3
    assert training_reward(TASK, text).search == pytest.approx(2 / 3)


def test_an_episode_without_a_decision_earns_nothing_but_its_searches() -> None:
    for record in played(TASK, *["rct"] * 6, state=3):
        assert checked_claim(TASK, record).judged.verdict is None
        expected = FactCheckReward(outcome=0.0, search=1.0, evidence=0.0, hallucination=0.0)
        assert training_reward(TASK, record) == expected


def test_a_verdict_alone_is_paid_its_outcome_and_its_searches() -> None:
    for record in played(LABEL_WORLD, "rct", "supported", state=4):
        expected = FactCheckReward(outcome=1.0, search=1.0, evidence=0.0, hallucination=0.0)
        assert training_reward(LABEL_WORLD, record) == expected


def test_a_record_that_lacks_or_contradicts_what_is_needed_is_refused() -> None:
    menu, text = played(TASK, "rct", "supported_honest", state=3)
    assert text.raw is not None
    refused = {
        "needs the case and the state": menu.model_copy(update={"state": None}),
        "needs the case": menu.model_copy(update={"case": None}),
        "1 texts for 2 turns": text.model_copy(update={"raw": text.raw[1:]}),
        "is not its decision": text.model_copy(update={"raw": text.raw[:1] * 2}),
    }
    for reason, record in refused.items():
        with pytest.raises(InvalidEpisode, match=reason):
            training_reward(TASK, record)


def test_metrics_of_reports_name_what_they_skip() -> None:
    honest, _ = played(TASK, "rct", "supported_honest", state=3)
    abstains, _ = played(TASK, "rct", "not_enough_info_honest", state=2)
    invents, _ = played(TASK, "refuted_fabricated", state=0)
    metrics = report_metrics(TASK, [honest, abstains, invents])
    quality = metrics.evidence_quality
    assert quality.value == pytest.approx(0.94 / 2)
    assert (quality.n, quality.skipped) == (2, 1)
    assert metrics.hallucination.ehr_report_share == pytest.approx(1 / 3)
    assert metrics.hallucination.ehr_per_evidence == pytest.approx(1 / 3)
    assert (metrics.labels.n, metrics.labels.accuracy) == (3, 1.0)


def test_metrics_of_the_oracle_come_from_its_episodes() -> None:
    world = make_world("factcheck")
    episodes = evaluate(world, world.policy("oracle"), world.cases("heldout"), k=1)
    metrics = report_metrics(TASK, episodes)
    assert metrics.labels.accuracy == pytest.approx(0.81, abs=0.15)
    assert metrics.hallucination.ehr_per_report == 0.0
    utilities = [world.assess(episode).reward for episode in episodes]
    searches = sum(len(checked_claim(TASK, episode).queries) for episode in episodes)
    paid = metrics.labels.accuracy * len(episodes) - TASK.question_cost * searches  # type: ignore[operator]
    assert paid == pytest.approx(sum(utilities))


def test_the_truth_is_the_label_the_verifier_pays() -> None:
    for record in played(TASK, "rct", "refuted_padded", state=1):
        checked = checked_claim(TASK, record)
        assert checked.truth is right_verdict(TASK, 1) is Verdict.REFUTED
        scores = checked.judged.scores(Verdict.REFUTED)
        assert composite_evidence_reward(scores) == pytest.approx(0.59 * (1 - math.exp(-1)))
