"""What a model said: its search calls, or what it ends with; any text is read, nothing repaired.

A search call is one JSON object at the start of a line, `{"action": "search_pubmed", "query":
"..."}`; a reply may hold several, among prose. What means to be a call and is none has a named
reason, so that the model can be told. What stands before `</think>` is reasoning and is not read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from clinical_envs.factcheck.turns import ANSWER, REPORT, SEARCH, read_turn
from clinical_envs.simulator import Invalid

_NAMES = (SEARCH, "pubmed_search")
_LINE_OBJECT = re.compile(r"^[ \t\[]*\{", re.MULTILINE)
_NEXT_OBJECT = re.compile(r"[ \t,]*\{")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply as read. calls: queries, or the reason why a call is none. ending: the rest."""

    calls: tuple[str | Invalid, ...]
    ending: str


def encodable(text: str) -> str:
    """The text with lone surrogates, which no file or request can carry, as backslash escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def said(text: str) -> str:
    """A reply without its reasoning; nothing, when the reasoning never ends.

    >>> said("<think>REFUTED?</think>SUPPORTED")
    'SUPPORTED'
    """
    _, end, rest = text.rpartition("</think>")
    if end:
        return rest.lstrip()
    return "" if text.lstrip().startswith("<think>") else text


def read_reply(text: str) -> Reply:
    r"""Read a reply; total.

    The ending of a model that speaks the protocol of the fact-checking worlds is the text of its
    `report`, or its `answer` in answer tags.

    >>> read_reply('First a broad query.\n{"action": "search_pubmed", "query": "asthma"}').calls
    ('asthma',)
    >>> read_reply('{"action": "search_pubmed", "query": asthma}').calls
    (Invalid(reason='not_json'),)
    """
    spoken = said(text)
    calls: list[str | Invalid] = []
    ending = spoken
    for candidate in _objects(spoken):
        turn = read_turn(candidate)
        if isinstance(turn, Invalid):
            if any(name in candidate for name in _NAMES):
                calls.append(turn)
            continue
        kind, value = turn[0], encodable(turn[1])
        if kind == SEARCH:
            calls.append(value)
        elif kind == REPORT:
            ending = value
        elif kind == ANSWER:
            ending = f"<answer>{value}</answer>"
    return Reply(calls=tuple(calls), ending=ending)


def read_object(text: str) -> dict[str, object] | None:
    """The last JSON object of a reply that starts a line; None without one."""
    found = None
    for candidate in _objects(said(text)):
        try:
            found = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
    return found


def _objects(text: str) -> Iterator[str]:
    """Every JSON object that starts a line or follows one, and every paragraph that tries to be."""
    opening = _LINE_OBJECT.search(text)
    while opening is not None:
        start = opening.end() - 1
        try:
            _, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            blank = _BLANK_LINE.search(text, start)
            end = len(text) if blank is None else blank.start()
        yield text[start:end]
        opening = _NEXT_OBJECT.match(text, end) or _LINE_OBJECT.search(text, end)
