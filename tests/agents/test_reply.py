from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.simulator import Invalid
from tests.agents.scripted import call, report
from training.agents.reply import read_object, read_reply, said

QUERIES = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    reply = read_reply(text)
    assert all(isinstance(c, str | Invalid) for c in reply.calls)
    read_object(text)


@given(st.lists(QUERIES, max_size=8), st.sampled_from(["\n", " ", ", ", "\nand also\n"]))
def test_calls_are_read_in_order_whatever_joins_them(queries: list[str], glue: str) -> None:
    text = "I shall search.\n" + glue.join(map(call, queries))
    assert read_reply(text).calls == tuple(queries)


@given(st.text(), QUERIES)
def test_reasoning_is_never_read_as_a_call(thought: str, query: str) -> None:
    thought = thought.replace("</think>", "")
    reply = read_reply(f"<think>{thought}\n{call('not this')}\n</think>{call(query)}")
    assert reply.calls == (query,)


def test_reasoning_that_never_ends_says_nothing() -> None:
    assert said(f"<think>\n{call('asthma')}") == ""
    assert read_reply(f"<think>\n{report()}").ending == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"action": "search_pubmed", "query": asthma}', "not_json"),
        ('{"action": "search_pubmed", "query": "a "b" c"}', "not_json"),
        ('{"action": "search_pubmed", "query": "asthma"', "not_json"),
        ('{"action": "search_pubmed", "query": 3}', "not_text"),
        ('{"action": "search_pubmed"}', "missing_key"),
        ('{"action": "search_pubmed", "query": "a", "limit": 9}', "unknown_key"),
        ('{"action": "search_pubmed", "query": "a", "query": "b"}', "duplicate_key"),
        ('{"name": "search_pubmed", "arguments": {"query": "a"}}', "missing_key"),
    ],
)
def test_what_means_to_be_a_call_and_is_none_has_a_reason(text: str, reason: str) -> None:
    assert read_reply(f"Searching.\n{text}\n\nThen more.").calls == (Invalid(reason),)


def test_both_names_of_the_tool_are_one() -> None:
    assert read_reply('{"action": "pubmed_search", "query": "asthma"}').calls == ("asthma",)


def test_a_call_in_a_code_fence_or_over_several_lines_is_read() -> None:
    spread = json.dumps({"action": "search_pubmed", "query": "gout"}, indent=2)
    assert read_reply(f"```json\n{spread}\n```").calls == ("gout",)
    assert read_reply(f"[\n{call('gout')},\n{call('asthma')}\n]").calls == ("gout", "asthma")


def test_a_call_inside_a_sentence_is_prose() -> None:
    assert read_reply(f"I could write {call('gout')} here.").calls == ()


def test_the_ending_of_the_worlds_protocol_is_its_text() -> None:
    text = json.dumps({"action": "report", "report": report()})
    assert read_reply(text).ending == report()
    label = json.dumps({"action": "answer", "label": "REFUTED"})
    assert read_reply(label).ending == "<answer>REFUTED</answer>"


def test_a_lone_surrogate_in_a_query_can_be_sent_and_stored() -> None:
    (query,) = read_reply('{"action": "search_pubmed", "query": "gout \\ud800"}').calls
    assert isinstance(query, str)
    assert query.encode() == b"gout \\ud800"


def test_the_last_object_of_a_reply_is_its_answer() -> None:
    assert read_object('{"a": 1}\nthen\n{"b": 2}') == {"b": 2}
    assert read_object("no object") is None
