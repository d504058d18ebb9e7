"""The three verdicts on a claim."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """What a report concludes about a claim; the value is the text of the answer tag."""

    SUPPORTED = "SUPPORTED"
    REFUTED = "REFUTED"
    NOT_ENOUGH_INFO = "NOT ENOUGH INFORMATION"


_SPELLINGS = {verdict.value: verdict for verdict in Verdict} | {
    "NOT ENOUGH INFO": Verdict.NOT_ENOUGH_INFO
}


def read_verdict(text: str) -> Verdict | None:
    """The verdict that a text spells, or None; case and spacing do not matter, words do.

    >>> read_verdict(" not enough  info ")
    <Verdict.NOT_ENOUGH_INFO: 'NOT ENOUGH INFORMATION'>
    >>> read_verdict("SUPPORT") is None
    True
    """
    return _SPELLINGS.get(" ".join(text.upper().split()))
