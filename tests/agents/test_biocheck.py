"""The agent on scripted models: what it is told, what it counts, how it ends."""

from __future__ import annotations

import pytest

from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.examples import EXAMPLE_CLAIMS
from clinical_envs.factcheck.ncbi_error import SearchUnavailable
from clinical_envs.factcheck.report import Report
from clinical_envs.factcheck.report_parser import parse_report
from clinical_envs.factcheck.search import LocalSearch, SearchResult
from clinical_envs.factcheck.verdict import Verdict
from tests.agents.conftest import MakeDesk
from tests.agents.scripted import DOWN, FULL, ScriptedModel, call, report, told
from training.agents.biocheck import check_with_agent
from training.agents.desk import Desk
from training.endpoint import EndpointError

CLAIM = EXAMPLE_CLAIMS[0].text
PILOT, TRIAL = "999000101", "999000102"
ATTACKS = "Attacks fell from 9.1 to 4.2 a week."
NO_EFFECT = "Pelorinib did not reduce weekly attacks (difference -0.1, 95% CI -0.6 to 0.4)."
REPORT = report(supporting=[(PILOT, ATTACKS)], refuting=[(TRIAL, NO_EFFECT)])


def test_the_golden_transcript_gives_its_report_and_counts(desk: MakeDesk) -> None:
    lines: list[str] = []
    model = ScriptedModel(
        f"First broadly.\n{call('pelorinib AND headache')}",
        f"Now against it.\n{call('pelorinib AND (placebo OR randomised)')}",
        REPORT,
    )
    checked = check_with_agent(CLAIM, desk(model, say=lines.append), report=True)
    assert checked.report == parse_report(REPORT).report
    assert checked.problems == ()
    assert checked.n_searches == 2
    assert [(s.query, s.count, s.pmids) for s in checked.searches] == [
        ("pelorinib AND headache", 2, (TRIAL, PILOT)),
        ("pelorinib AND (placebo OR randomised)", 1, (TRIAL,)),
    ]
    assert [c.faults for c in checked.citations] == [(), ()]
    assert [m["role"] for m in checked.messages] == [
        "system",
        "user",
        *["assistant", "user"] * 2,
        "assistant",
    ]
    assert (checked.spent.requests, checked.spent.prompt_tokens) == (3, 300)
    assert lines == [
        "search 1: pelorinib AND headache · 2 found, 2 read",
        "search 2: pelorinib AND (placebo OR randomised) · 1 found, 1 read",
    ]


def test_the_agent_is_shown_titles_and_abstracts_and_how_many_searches_are_left(
    desk: MakeDesk,
) -> None:
    model = ScriptedModel(call("pelorinib AND headache"), REPORT)
    check_with_agent(CLAIM, desk(model), report=True)
    found, left = told(model, 1)
    assert [article["pmid"] for article in found["articles"]] == [TRIAL, PILOT]
    assert NO_EFFECT in found["articles"][0]["abstract"]
    assert left == {"searches_left": 4}


def test_of_twelve_calls_in_one_reply_five_are_executed_and_each_other_is_refused(
    desk: MakeDesk,
) -> None:
    model = ScriptedModel("\n".join(call(f"gout {i}") for i in range(12)), REPORT)
    checked = check_with_agent(CLAIM, desk(model), report=True)
    assert checked.n_searches == 5
    assert [s.problem for s in checked.searches] == [None] * 5 + ["search_cap"] * 7
    *results, left = told(model, 1)
    assert [r.get("error") for r in results] == [None] * 5 + ["search_cap"] * 7
    assert all("5 searches are used" in r["message"] for r in results[5:])
    assert left == {"searches_left": 0}
    assert model.heard[1][-1]["content"].count("no further one will be executed") == 1
    assert checked.report.verdict is Verdict.REFUTED


def test_the_intervention_comes_with_the_results_of_the_search_that_reaches_the_cap(
    desk: MakeDesk,
) -> None:
    model = ScriptedModel(*[call("gout")] * 5, REPORT)
    checked = check_with_agent(CLAIM, desk(model), report=True)
    told_to_stop = ["no further one" in heard[-1]["content"] for heard in model.heard]
    assert told_to_stop == [False] * 5 + [True]
    assert checked.n_searches == 5
    assert checked.report.verdict is Verdict.REFUTED


def test_a_call_after_the_intervention_ends_without_a_decision(desk: MakeDesk) -> None:
    model = ScriptedModel(*[call("gout")] * 5, f"{call('one more')}\n{REPORT}")
    checked = check_with_agent(CLAIM, desk(model), report=True)
    assert checked.report == Report(verdict=None)
    assert checked.problems == ("ignored_intervention",)
    assert checked.n_searches == 5


@pytest.mark.parametrize("prose", ["The claim is wrong.", "", "<answer>REFUTED</answer>"])
def test_prose_instead_of_a_report_is_no_decision_with_named_problems(
    desk: MakeDesk, prose: str
) -> None:
    checked = check_with_agent(CLAIM, desk(ScriptedModel(prose)), report=True)
    assert checked.report.verdict is None
    assert {"missing_section", "missing_answer"} <= set(checked.problems)


BAD_QUERIES = [
    ("(asthma AND", "missing_operand"),
    ("(asthma", "unbalanced_parenthesis"),
    ("AND", "missing_operand"),
    ("", "empty"),
    (" OR ".join(["term"] * 700), "too_long"),
    ('"gout', "unclosed_quote"),
]


@pytest.mark.parametrize(("query", "problem"), BAD_QUERIES)
def test_a_bad_query_is_told_as_a_value_and_counts(
    desk: MakeDesk, query: str, problem: str
) -> None:
    model = ScriptedModel(call(query), REPORT)
    checked = check_with_agent(CLAIM, desk(model), report=True)
    result, left = told(model, 1)
    assert result["error"] == checked.searches[0].problem == problem
    assert result["message"]
    assert left == {"searches_left": 4}
    assert checked.n_searches == 1


@pytest.mark.parametrize(
    "query",
    [
        "IL-6 AND TNF-α",
        "covid-19 NOT (children OR infant*)",
        "vitamin D[tiab]",
        '"a AND b"',
        "aspirin and stroke",
    ],
)
def test_the_hard_but_legal_queries_are_searched(desk: MakeDesk, query: str) -> None:
    checked = check_with_agent(CLAIM, desk(ScriptedModel(call(query), REPORT)), report=True)
    assert checked.searches[0].problem is None
    assert checked.searches[0].count is not None


def test_a_call_that_cannot_be_read_is_told_and_counts(desk: MakeDesk) -> None:
    model = ScriptedModel('{"action": "search_pubmed", "query": "a "b""}', REPORT)
    checked = check_with_agent(CLAIM, desk(model), report=True)
    assert told(model, 1)[0]["error"] == "not_json"
    assert checked.n_searches == 1


def test_no_hits_come_with_the_terms_that_occur_nowhere(desk: MakeDesk) -> None:
    model = ScriptedModel(call("pelorinib AND zebra"), REPORT)
    check_with_agent(CLAIM, desk(model), report=True)
    found = told(model, 1)[0]
    assert (found["count"], found["articles"]) == (0, [])
    assert found["warnings"] == ['not found: "zebra"']


class _Holes:
    """A back-end that finds five articles and has records of three, one without abstract."""

    def search(self, query: str, *, limit: int = 5, match: str = "all") -> SearchResult:
        pmids = tuple(str(n) for n in range(1, 6))
        return SearchResult(count=117_000, pmids=pmids, query_translation=query, warnings=())

    def fetch(self, pmids: tuple[str, ...]) -> dict[str, Article]:
        retracted = Article(pmid="3", title="[Retracted] Gout", abstract="Gout was cured.")
        return {"1": Article(pmid="1", title="A letter"), "2": Article(pmid="2"), "3": retracted}


def test_missing_records_and_abstracts_are_named_and_cannot_be_quoted() -> None:
    cites = report(refuting=[("1", "A letter"), ("5", "Gout was cured."), ("3", "Gout was cured.")])
    model = ScriptedModel(call("gout"), cites)
    checked = check_with_agent(CLAIM, Desk(model, _Holes()), report=True)
    found = told(model, 1)[0]
    assert found["without_record"] == ["4", "5"]
    assert found["articles"][0]["abstract"] is None
    assert found["articles"][2]["title"].startswith("[Retracted]")
    assert [c.faults for c in checked.citations] == [("unfaithful_quote",), ("foreign_pmid",), ()]


class _Outage:
    def search(self, query: str, *, limit: int = 5, match: str = "all") -> SearchResult:
        raise SearchUnavailable("NCBI did not answer; try later")

    def fetch(self, pmids: tuple[str, ...]) -> dict[str, Article]:
        raise AssertionError


def test_an_outage_of_the_literature_raises_and_is_never_zero_hits() -> None:
    model = ScriptedModel(call("gout"), REPORT)
    with pytest.raises(SearchUnavailable):
        check_with_agent(CLAIM, Desk(model, _Outage()), report=True)
    assert len(model.heard) == 1


def test_an_outage_of_the_model_raises(desk: MakeDesk) -> None:
    with pytest.raises(EndpointError):
        check_with_agent(CLAIM, desk(ScriptedModel(call("gout"), DOWN)), report=True)


def test_a_dialogue_that_outgrows_the_model_is_no_decision_by_name(desk: MakeDesk) -> None:
    lines: list[str] = []
    model = ScriptedModel(call("gout"), FULL)
    checked = check_with_agent(CLAIM, desk(model, say=lines.append), report=True)
    assert checked.report.verdict is None
    assert checked.problems[-1] == "context_exceeded"
    assert str(FULL) in lines


def test_a_reply_that_was_cut_is_named(desk: MakeDesk) -> None:
    cut = REPORT.partition("**Conclusion**")[0]
    checked = check_with_agent(CLAIM, desk(ScriptedModel(cut, cut=[0])), report=True)
    assert checked.report.verdict is None
    assert checked.problems == ("missing_section", "missing_answer", "cut_reply")


def test_pmsearch_is_the_same_graph_and_ends_in_a_label(desk: MakeDesk) -> None:
    model = ScriptedModel(call("pelorinib"), "So: <answer>REFUTED</answer>")
    checked = check_with_agent(CLAIM, desk(model), report=False)
    assert checked.report == Report(verdict=Verdict.REFUTED)
    assert (checked.n_searches, checked.problems) == (1, ())
    assert "### REPORT" not in model.heard[0][-1]["content"]


def test_the_headings_of_the_report_are_given_byte_for_byte(desk: MakeDesk) -> None:
    model = ScriptedModel(REPORT)
    check_with_agent(CLAIM, desk(model), report=True)
    opening = model.heard[0][-1]["content"]
    for heading in (
        "### REPORT",
        "**Supporting Evidence:**",
        "**Refuting Evidence:**",
        "**Summary**",
        "**Conclusion**",
        "<answer>SUPPORTED | REFUTED | NOT ENOUGH INFORMATION</answer>",
    ):
        assert heading in opening


@pytest.mark.parametrize(
    ("pmid", "faults"),
    [
        (TRIAL, ()),
        (f"PMID: {TRIAL} ", ()),
        (f"PMC{TRIAL}", ("foreign_pmid",)),
        (f"{TRIAL}, {PILOT}", ("foreign_pmid",)),
        ("6", ("foreign_pmid",)),
    ],
)
def test_a_pmid_counts_as_it_is_written(desk: MakeDesk, pmid: str, faults: tuple[str, ...]) -> None:
    model = ScriptedModel(call("pelorinib"), report(refuting=[(pmid, NO_EFFECT)]))
    (citation,) = check_with_agent(CLAIM, desk(model), report=True).citations
    assert citation.faults == faults


@pytest.mark.parametrize(
    ("quote", "fault"),
    [
        (NO_EFFECT.replace(" not ", " "), "negation"),
        (NO_EFFECT.replace("0.4", "0.8"), "number"),
        (f"We randomised 604 adults to pelorinib {NO_EFFECT}", "glued"),
    ],
)
def test_a_quote_that_the_published_rule_accepts_and_that_was_changed_is_distorted(
    desk: MakeDesk, quote: str, fault: str
) -> None:
    model = ScriptedModel(call("pelorinib"), report(refuting=[(TRIAL, quote)]))
    (citation,) = check_with_agent(CLAIM, desk(model), report=True).citations
    assert citation.hallucination is None
    assert citation.distorted
    assert fault in citation.faults


def test_a_pmid_may_stand_five_times_and_on_both_sides(desk: MakeDesk) -> None:
    piece = (TRIAL, NO_EFFECT)
    model = ScriptedModel(call("pelorinib"), report(supporting=[piece], refuting=[piece] * 5))
    checked = check_with_agent(CLAIM, desk(model), report=True)
    assert len(checked.citations) == 6
    assert checked.problems == ()


def test_articles_that_were_seen_before_are_cited_whichever_search_found_them(
    library: LocalSearch,
) -> None:
    model = ScriptedModel(call("pelorinib AND pilot"), call("zendakimab"), REPORT)
    checked = check_with_agent(CLAIM, Desk(model, library), report=True)
    assert [c.faults for c in checked.citations] == [(), ("foreign_pmid",)]
