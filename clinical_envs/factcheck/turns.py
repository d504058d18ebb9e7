"""A turn of fact-checking as one JSON object: what is done, and the text it is done with."""

from __future__ import annotations

from clinical_envs import protocol
from clinical_envs.simulator import Invalid

MAX_TURN_CHARS = 20_000
SEARCH, REPORT, ANSWER = "search_pubmed", "report", "answer"
_ARGUMENT = {SEARCH: "query", "pubmed_search": "query", REPORT: "report", ANSWER: "label"}
_CANONICAL = {"pubmed_search": SEARCH}  # the paper uses both names


def read_turn(text: str) -> tuple[str, str] | Invalid:
    """What a turn does and with which text, or the named reason why it is none; total.

    Reasons are those of the protocol of findings; nothing is guessed or repaired.

    >>> read_turn('{"action": "pubmed_search", "query": "asthma"}')
    ('search_pubmed', 'asthma')
    >>> read_turn("### REPORT")
    Invalid(reason='not_json')
    """
    turn = protocol.read_turn(text, _ARGUMENT, max_chars=MAX_TURN_CHARS)
    if isinstance(turn, Invalid):
        return turn
    if not isinstance(turn.value, str):
        return Invalid("not_text")
    return _CANONICAL.get(turn.kind, turn.kind), turn.value
