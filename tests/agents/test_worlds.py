"""Methods as policies of the fact-checking worlds: turns, costs and records are the world's."""

from __future__ import annotations

import json

import pytest

from clinical_envs.catalog import load_task
from clinical_envs.errors import InvalidArgument
from clinical_envs.factcheck.dialogue import FactCheckDialogue
from clinical_envs.factcheck.library import canonical_query
from clinical_envs.factcheck.query_error import QueryError
from clinical_envs.factcheck.rouge import words
from clinical_envs.factcheck.search import SearchResult
from clinical_envs.factcheck.topics import topic
from clinical_envs.factcheck.verdict import Verdict
from clinical_envs.simulator import Encounter
from clinical_envs.verifier import verify
from oracles import evaluate, make_world
from oracles.policy import Rollout
from tests.agents.scripted import AnsweringModel, ScriptedModel, call, report
from tests.factcheck.worlds import case
from training.agents.methods import METHODS
from training.agents.worlds import EncounterSearch, MethodPolicy

TASK = load_task("factcheck")
ENCOUNTER = Encounter(TASK, case(TASK))
QUERY = canonical_query(ENCOUNTER.identity, TASK.family_ids[0], "meta_analysis")


def encounter_search() -> EncounterSearch:
    return EncounterSearch(FactCheckDialogue(Encounter(TASK, case(TASK))))


def rollouts(n: int = 1) -> list[Rollout]:
    return [Rollout(case=case(TASK, state=4), number=i, greedy=False, seed=i) for i in range(n)]


def test_a_search_is_a_turn_and_gives_the_studies_of_its_body_of_evidence() -> None:
    search = encounter_search()
    found = search.search(QUERY, limit=3)
    assert isinstance(found, SearchResult)
    assert (found.count, len(found.pmids)) == (5, 3)
    info = search.dialogue.encounter.info
    assert [TASK.finding_ids[q] for q, _ in info.seen()] == ["meta_analysis"]
    assert info.turns_left == TASK.turn_cap - 1
    assert list(search.fetch(found.pmids)) == list(found.pmids)
    assert search.fetch(["1"]) == {}


def test_misses_are_zero_hits_and_a_bad_query_is_a_query_error() -> None:
    search = encounter_search()
    missed = search.search("zebra AND unicorn")
    assert isinstance(missed, SearchResult)
    assert (missed.count, missed.pmids) == (0, ())
    assert missed.warnings
    bad = search.search("(gout")
    assert isinstance(bad, QueryError)
    assert bad.problem.value == "unbalanced_parenthesis"
    long = search.search("a" * 30_000)
    assert isinstance(long, QueryError)
    assert search.dialogue.encounter.info.turns_left == TASK.turn_cap - 3


def test_plain_words_become_alternatives_where_any_may_match() -> None:
    claim = topic(ENCOUNTER.identity, TASK.family_ids[0]).claim
    query = " ".join(words(claim)) + " zebra"
    strict = encounter_search().search(query)
    loose = encounter_search().search(query, match="any")
    assert isinstance(strict, SearchResult)
    assert isinstance(loose, SearchResult)
    assert (strict.count, loose.count) == (0, 5)


def honest(told: list[str]) -> str:
    """Search for meta-analyses, then quote the finding of the best one."""
    if len(told) == 2:
        return call(QUERY)
    article = json.loads(told[-1].splitlines()[0])["articles"][0]
    sentence = article["abstract"].partition("RESULTS: ")[2].partition(". ")[0] + "."
    return report(Verdict.SUPPORTED, supporting=[(article["pmid"], sentence)])


def test_biocheck_plays_an_encounter_to_its_report() -> None:
    policy = MethodPolicy(TASK, "biocheck", AnsweringModel(honest), "biocheck:answering")
    (episode,) = policy.play(rollouts())
    ask, commit = (turn.model_dump() for turn in episode.turns)
    assert ask["ask"] == "meta_analysis"
    assert commit["commit"] in ("supported_honest", "supported_padded")  # as the study dissents
    assert episode.policy == "biocheck:answering"
    assert episode.raw is not None
    assert len(episode.raw) == 2
    assert verify(TASK, episode).reward == pytest.approx(1.0 - TASK.question_cost)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_plays_both_worlds_to_a_commit(method: str) -> None:
    lines = {
        "no-retrieval": ["<answer>REFUTED</answer>"],
        "cer": ["It is unclear.", "<answer>REFUTED</answer>"],
        "fire": ['{"search_query": "trial"}', '{"final_answer": "REFUTED"}'],
        "pmsearch": [call("trial"), "<answer>REFUTED</answer>"],
        "biocheck": [call("trial"), report()],
    }
    for name in ("factcheck", "factcheck_label"):
        task = load_task(name)
        policy = MethodPolicy(task, method, ScriptedModel(*lines[method]), method)
        this = Rollout(case=case(task), number=0, greedy=False, seed=0)
        (episode,) = policy.play([this])
        assert episode.turns[-1].model_dump()["commit"].startswith("refuted")


def test_a_method_without_a_verdict_wastes_the_turns_that_are_left() -> None:
    policy = MethodPolicy(TASK, "biocheck", ScriptedModel("I cannot tell."), "biocheck")
    (episode,) = policy.play(rollouts())
    assert [turn.model_dump() for turn in episode.turns] == [
        {"invalid": "bad_report"}
    ] * TASK.turn_cap


def test_five_searches_leave_the_turn_that_commits() -> None:
    model = ScriptedModel("\n".join([call("trial")] * 7), report())
    policy = MethodPolicy(TASK, "biocheck", model, "b")
    (episode,) = policy.play(rollouts())
    assert len(episode.turns) == TASK.turn_cap
    assert "commit" in episode.turns[-1].model_dump()


def test_a_greedy_method_plays_a_case_once_for_all_its_rollouts() -> None:
    model = ScriptedModel("<answer>REFUTED</answer>")
    episodes = MethodPolicy(TASK, "no-retrieval", model, "n").play(rollouts(3))
    assert len(model.heard) == 1
    assert [episode.rollout for episode in episodes] == [0, 1, 2]
    assert len({episode.turns for episode in episodes}) == 1


def test_the_harness_evaluates_a_method() -> None:
    world = make_world("factcheck_label")
    model = AnsweringModel(lambda told: "<answer>SUPPORTED</answer>")
    policy = MethodPolicy(load_task("factcheck_label"), "no-retrieval", model, "n")
    episodes = evaluate(world, policy, world.cases("heldout")[:4], k=2)
    assert len(episodes) == 8
    assert {world.assess(episode).decision for episode in episodes} == {"supported"}


def test_other_tasks_and_methods_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="diagnostics is no fact-checking world"):
        MethodPolicy(load_task("diagnostics"), "cer", ScriptedModel(), "cer")
    with pytest.raises(InvalidArgument, match="did you mean 'fire'"):
        MethodPolicy(TASK, "fires", ScriptedModel(), "fires")
