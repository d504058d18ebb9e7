"""The plain loop and the LangGraph graph: one agent, whatever a model says."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clinical_envs.errors import MissingExtra
from clinical_envs.factcheck.examples import EXAMPLE_ARTICLES
from clinical_envs.factcheck.search import LocalSearch
from tests.agents.scripted import FULL, ScriptedModel, call, report
from tests.agents.test_biocheck import ATTACKS, CLAIM, NO_EFFECT, PILOT, REPORT, TRIAL
from training.agents.biocheck import Run, check_with_agent, run_plain
from training.agents.checked import Checked
from training.agents.desk import Desk
from training.endpoint import ContextExceededError

pytest.importorskip("langgraph", reason="the extra `agents` is not installed")

from training.agents.graph import run_langgraph

CALLS = st.sampled_from(
    [
        call("pelorinib"),
        call("pelorinib AND zebra"),
        call("gout OR stroke"),
        call("(gout"),
        call("AND"),
        '{"action": "search_pubmed", "query": gout}',
        '{"action": "search_pubmed"}',
    ]
)
TEXTS = st.sampled_from(
    [
        REPORT,
        report(None),
        report(refuting=[("6", NO_EFFECT), (TRIAL, NO_EFFECT.replace(" not ", " "))]),
        report(supporting=[(PILOT, ATTACKS)]) * 2,
        "<answer>SUPPORTED</answer>",
        "I cannot tell.",
        "",
    ]
)
REPLIES = st.one_of(
    st.lists(CALLS, min_size=1, max_size=7).map("\n".join),
    st.tuples(CALLS, TEXTS).map("\n".join),
    TEXTS,
    st.just(FULL),
)
LIBRARY = LocalSearch.build(EXAMPLE_ARTICLES)


def played(
    replies: list[str | Exception], run: Run, *, cap: int, wants_report: bool
) -> tuple[Checked, int]:
    model = ScriptedModel(*replies)
    desk = Desk(model, LIBRARY, cap=cap)
    if replies[0] is FULL:
        with pytest.raises(ContextExceededError):
            check_with_agent(CLAIM, desk, report=wants_report, run=run)
        replies[0] = ""
        model = ScriptedModel(*replies)
        desk = Desk(model, LIBRARY, cap=cap)
    return check_with_agent(CLAIM, desk, report=wants_report, run=run), len(model.heard)


@given(
    st.lists(REPLIES, min_size=7, max_size=7),
    st.integers(min_value=1, max_value=5),
    st.booleans(),
)
@settings(deadline=None)
def test_both_engines_give_one_result_and_never_exceed_the_cap(
    replies: list[str | Exception], cap: int, wants_report: bool
) -> None:
    plain, asked = played(replies, run_plain, cap=cap, wants_report=wants_report)
    graph, asked_by_graph = played(replies, run_langgraph, cap=cap, wants_report=wants_report)
    assert graph == plain
    assert asked_by_graph == asked <= cap + 1
    assert plain.n_searches == graph.n_searches <= cap
    executed = [search for search in plain.searches if search.problem is None]
    assert len(executed) <= cap
    roles = [message["role"] for message in plain.messages]
    assert roles == ["system", *["user", "assistant"] * (len(roles) // 2)]
    told_to_stop = sum("no further one will be executed" in m["content"] for m in plain.messages)
    assert told_to_stop <= 1
    if plain.n_searches < cap:
        assert told_to_stop == 0


def test_the_graph_needs_no_more_steps_than_its_limit_at_a_high_cap() -> None:
    cap = 40
    replies: list[str | Exception] = [call("gout")] * cap + [REPORT]
    checked, _ = played(replies, run_langgraph, cap=cap, wants_report=True)
    assert checked.n_searches == cap


def test_without_langgraph_the_graph_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [module for module in sys.modules if module.partition(".")[0] == "langgraph"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "langgraph", None)
    with pytest.raises(MissingExtra, match=r"pip install 'clinical-envs\[agents\]'"):
        played([REPORT], run_langgraph, cap=5, wants_report=True)
