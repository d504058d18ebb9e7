from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.examples import EXAMPLE_CLAIMS
from clinical_envs.factcheck.search import LocalSearch
from clinical_envs.factcheck.verdict import Verdict
from tests.agents.conftest import MakeDesk
from tests.agents.scripted import DOWN, FULL, ScriptedModel
from training.agents.baselines import cer, closest_sentences, cosine, fire, no_retrieval
from training.agents.desk import Desk
from training.agents.methods import METHODS
from training.endpoint import ContextExceededError, EndpointError

CLAIM = EXAMPLE_CLAIMS[0].text


def query(text: str) -> str:
    return f"I need more.\n{json.dumps({'search_query': text})}"


def final(verdict: str) -> str:
    return f"It is clear.\n{json.dumps({'final_answer': verdict})}"


def test_the_table_has_the_five_methods_of_the_paper() -> None:
    assert set(METHODS) == {"no-retrieval", "cer", "fire", "pmsearch", "biocheck"}
    assert [name for name, method in METHODS.items() if method.cites] == ["biocheck"]


def test_no_retrieval_asks_once_and_searches_nothing(desk: MakeDesk) -> None:
    model = ScriptedModel("No trial is known. <answer>NOT ENOUGH INFO</answer>")
    checked = no_retrieval(CLAIM, desk(model))
    assert checked.report.verdict is Verdict.NOT_ENOUGH_INFO
    assert (checked.n_searches, checked.spent.requests, checked.problems) == (0, 1, ())
    assert CLAIM in model.heard[0][0]["content"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("It is refuted.", "missing_answer"),
        ("<answer>MAYBE</answer>", "unknown_answer"),
        ("<answer>SUPPORTED</answer><answer>REFUTED</answer>", "conflicting_answers"),
    ],
)
def test_an_answer_that_is_none_is_no_verdict_by_name(
    desk: MakeDesk, text: str, problem: str
) -> None:
    checked = no_retrieval(CLAIM, desk(ScriptedModel(text)))
    assert checked.report.verdict is None
    assert checked.problems == (problem,)


def test_cer_searches_once_shows_the_closest_sentences_and_decides_after_explaining(
    desk: MakeDesk,
) -> None:
    model = ScriptedModel("The trial found no effect.", "<answer>REFUTED</answer>")
    checked = cer(CLAIM, desk(model))
    assert checked.report.verdict is Verdict.REFUTED
    assert [s.query for s in checked.searches] == ["pelorinib reduces attacks of cluster headache"]
    shown = model.heard[0][0]["content"]
    assert "Pelorinib did not reduce weekly attacks" in shown
    assert len(model.heard[1]) == 3
    assert "The trial found no effect." in checked.report.summary.justification


def test_cer_shows_three_sentences_of_each_of_at_most_twenty_articles() -> None:
    text = " ".join(f"Aspirin and stroke, sentence {i}." for i in range(6))
    local = LocalSearch.build(Article(pmid=str(n), abstract=text) for n in range(1, 31))
    model = ScriptedModel("Hm.", "<answer>REFUTED</answer>")
    cer("Aspirin prevents stroke.", Desk(model, local))
    local.close()
    shown = model.heard[0][0]["content"]
    assert shown.count('"sentence"') == 60


def test_cer_decides_on_nothing_when_the_claim_has_no_words_to_search(desk: MakeDesk) -> None:
    model = ScriptedModel("There is nothing.", "<answer>NOT ENOUGH INFORMATION</answer>")
    checked = cer("?!", desk(model))
    assert checked.searches[0].problem == "empty"
    assert "none was found" in model.heard[0][0]["content"]


def test_rare_words_of_the_claim_count_more_than_common_ones() -> None:
    common = "The patients were followed. " * 8
    article = Article(pmid="7", abstract=f"{common}Zendakimab helped.")
    closest = closest_sentences("The patients took zendakimab.", {"7": article}, each=1)
    assert closest == [("7", "Zendakimab helped.")]


@given(st.text(max_size=40), st.text(max_size=40))
def test_a_cosine_is_symmetric_and_lies_between_0_and_1(a: str, b: str) -> None:
    assert 0.0 <= cosine(a, b) <= 1.0 + 1e-12
    assert cosine(a, b) == pytest.approx(cosine(b, a))
    assert cosine(a, a) in (0.0, pytest.approx(1.0))


def test_fire_searches_until_the_model_answers(desk: MakeDesk) -> None:
    model = ScriptedModel(query("pelorinib trial"), query("zendakimab gout"), final("REFUTED"))
    checked = fire(CLAIM, desk(model))
    assert checked.report.verdict is Verdict.REFUTED
    assert [s.query for s in checked.searches] == ["pelorinib trial", "zendakimab gout"]
    assert "Pelorinib did not reduce" in model.heard[1][0]["content"]
    assert "search_query" in model.heard[2][0]["content"]


def test_fire_reads_three_articles_a_search() -> None:
    local = LocalSearch.build(Article(pmid=str(n), title="gout") for n in range(1, 9))
    checked = fire(CLAIM, Desk(ScriptedModel(query("gout"), final("SUPPORTED")), local))
    local.close()
    assert checked.searches[0].pmids == ("1", "2", "3")


def test_fire_must_answer_after_five_searches(desk: MakeDesk) -> None:
    drugs = ["pelorinib", "osvatalin", "fentoprazine", "zendakimab", "lumiperidol"]
    model = ScriptedModel(*map(query, drugs), final("SUPPORTED"))
    checked = fire(CLAIM, desk(model))
    assert checked.n_searches == 5
    assert checked.report.verdict is Verdict.SUPPORTED
    assert "search_query" not in model.heard[5][0]["content"]


def test_fire_stops_at_a_query_like_the_last_one_and_must_answer(desk: MakeDesk) -> None:
    model = ScriptedModel(query("pelorinib trial"), query("trial pelorinib"), final("REFUTED"))
    checked = fire(CLAIM, desk(model))
    assert checked.n_searches == 1
    assert "search_query" not in model.heard[2][0]["content"]
    assert checked.report.verdict is Verdict.REFUTED


def test_fire_stops_when_two_searches_in_a_row_found_the_same(desk: MakeDesk) -> None:
    model = ScriptedModel(
        query("lumiperidol"), query("lumiperidol rats"), query("gout"), final("REFUTED")
    )
    checked = fire(CLAIM, desk(model))
    assert [s.query for s in checked.searches] == ["lumiperidol", "lumiperidol rats"]


def test_fire_takes_what_refused_queries_were_told_for_no_result(desk: MakeDesk) -> None:
    model = ScriptedModel(query("pel*"), query("zen*"), query("pelorinib"), final("REFUTED"))
    checked = fire(CLAIM, desk(model))
    assert [s.problem for s in checked.searches] == ["bad_truncation", "bad_truncation", None]
    assert checked.articles


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("It is refuted.", "no JSON object"),
        ('{"final_answer": "MAYBE"}', "neither SUPPORTED nor REFUTED"),
        ('{"search_query": ""}', "no final_answer or search_query"),
        ('{"search_query": 3}', "no final_answer or search_query"),
    ],
)
def test_fire_is_told_what_was_wrong_with_its_reply(desk: MakeDesk, text: str, reason: str) -> None:
    model = ScriptedModel(text, final("REFUTED"))
    checked = fire(CLAIM, desk(model))
    assert reason in model.heard[1][-1]["content"]
    assert [m["role"] for m in model.heard[1]] == ["user", "assistant", "user"]
    assert checked.report.verdict is Verdict.REFUTED


def test_fire_gives_up_after_ten_retries_of_a_step(desk: MakeDesk) -> None:
    model = ScriptedModel(*["What?"] * 11)
    checked = fire(CLAIM, desk(model))
    assert len(model.heard) == 11
    assert checked.report.verdict is None
    assert checked.problems == ("bad_format",)


def test_fire_retries_nothing_once_the_dialogue_outgrew_the_model(desk: MakeDesk) -> None:
    model = ScriptedModel(query("pelorinib"), FULL)
    checked = fire(CLAIM, desk(model))
    assert len(model.heard) == 2
    assert checked.problems == ("context_exceeded", "bad_format")


def test_fire_is_told_of_a_query_that_is_none(desk: MakeDesk) -> None:
    model = ScriptedModel(query("(gout"), final("REFUTED"))
    checked = fire(CLAIM, desk(model))
    assert checked.searches[0].problem == "unbalanced_parenthesis"
    assert "unbalanced_parenthesis" in model.heard[1][0]["content"]


@pytest.mark.parametrize("name", METHODS)
def test_a_context_that_holds_no_prompt_is_an_error_and_no_verdict(
    desk: MakeDesk, name: str
) -> None:
    with pytest.raises(ContextExceededError, match="longer context"):
        METHODS[name].run(CLAIM, desk(ScriptedModel(FULL)))


@pytest.mark.parametrize("name", METHODS)
def test_an_outage_of_the_model_raises_in_every_method(desk: MakeDesk, name: str) -> None:
    with pytest.raises(EndpointError):
        METHODS[name].run(CLAIM, desk(ScriptedModel(DOWN)))
