"""A rule-based splitter of an answer into sentences and claims, total on any text."""

from __future__ import annotations

import re

_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|vs|cf|approx|al|etc|fig|dr|mr|mrs|ms|prof|no|st)|\b[A-Z])\.$",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[。！？])|\n+")
_CLAUSE_END = re.compile(
    r"\s*;\s+|\s*；\s*|,\s+(?:and|but|while|whereas|although|however)\s+", re.IGNORECASE
)


def sentences(text: str) -> tuple[str, ...]:
    """Split after `.`, `!`, `?` and their full-width forms and at line breaks.

    A full stop that ends a known abbreviation or an initial, and one inside a number, ends none.

    >>> sentences("Dose 0.5 mg vs. placebo. It helped!")
    ('Dose 0.5 mg vs. placebo.', 'It helped!')
    """
    found: list[str] = []
    pending = ""
    for piece in _SENTENCE_END.split(text):
        pending = f"{pending} {piece}".strip() if pending else piece.strip()
        if pending and not _ABBREVIATION.search(pending):
            found.append(pending)
            pending = ""
    return (*found, pending) if pending else tuple(found)


def claims(text: str) -> tuple[str, ...]:
    """The clauses of every sentence that asserts something.

    Clauses end at semicolons and at a comma followed by a conjunction. Questions and pieces
    without a letter assert nothing and are left out, so an empty or purely decorative answer has
    no claims.

    >>> claims("Aspirin thins blood, and it may bleed; stop early. Is it safe? ***")
    ('Aspirin thins blood', 'it may bleed', 'stop early.')
    """
    return tuple(
        clause
        for sentence in sentences(text)
        if not sentence.endswith(("?", "？"))
        for clause in (piece.strip() for piece in _CLAUSE_END.split(sentence))
        if any(character.isalpha() for character in clause)
    )
