"""Quotes that pass the published ROUGE-L rule and still say something else.

A precision of 0.85 accepts any ordered selection of words from the abstract: a sentence without
its "not", with another number, or glued together from several. The audit compares the quote with
the abstract word by word and names what was changed. It judges no meaning: an honest excerpt
that leaves out a qualifying clause before or after it is contiguous, and passes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum

from clinical_envs.factcheck.rewards import MIN_PRECISION
from clinical_envs.factcheck.rouge import rouge_l_precision


class Distortion(StrEnum):
    """How a quote departs from its source."""

    EDITED = "edited"  # not one contiguous run of the source
    NEGATION = "negation"  # a negation dropped or added
    NUMBER = "number"  # a number, sign or comparison that is not there in the source
    GLUED = "glued"  # words of different sentences joined over a gap


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteAudit:
    """The paper's measure of a quote, and the distortions that the rule lets pass.

    A quote that the rule rejects has no distortions: it is a hallucination already.
    """

    precision: float
    distortions: tuple[Distortion, ...]

    @property
    def quote_distorted(self) -> bool:
        """Whether the published rule accepts a quote that was changed."""
        return bool(self.distortions)


def audit_quote(quote: str, source: str) -> QuoteAudit:
    """Compare a quote with the abstract it is attributed to.

    >>> audit = audit_quote("Aspirin did reduce stroke.", "Aspirin did not reduce stroke.")
    >>> audit.precision, [distortion.value for distortion in audit.distortions]
    (1.0, ['edited', 'negation'])
    """
    precision = rouge_l_precision(quote, source)
    quoted, sourced = _tokens(quote), _tokens(source)
    found: set[Distortion] = set()
    if precision >= MIN_PRECISION and not _contiguous(quoted, sourced):
        found = _distortions(quoted, sourced)
    distortions = tuple(distortion for distortion in Distortion if distortion in found)
    return QuoteAudit(precision=precision, distortions=distortions)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    sentence: int


_NEGATIONS = frozenset({"no", "not", "nor", "never", "none", "neither", "without", "cannot"})
_DASHES = dict.fromkeys(map(ord, "‐‑‒–—−"), "-")
_TOKEN = re.compile(r"(?<!\w)-?\d+(?:[.,]\d+)*|\d+(?:[.,]\d+)*|[^\W\d_]+|[<>≤≥=±]")
_FIGURE = re.compile(r"-?\d.*|[<>≤≥=±]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9(\[\"'])|\n")
_NOT = re.compile(r"n['’]t\b", re.IGNORECASE)


def _tokens(text: str) -> list[_Token]:
    """Words, whole numbers with their sign, and comparisons, each with its sentence."""
    plain = _NOT.sub(" not", unicodedata.normalize("NFKC", text).translate(_DASHES))
    return [
        _Token(token.casefold(), number)
        for number, sentence in enumerate(_SENTENCE_END.split(plain))
        for token in _TOKEN.findall(sentence)
    ]


def _texts(tokens: Sequence[_Token]) -> list[str]:
    return [token.text for token in tokens]


def _contiguous(quote: Sequence[_Token], source: Sequence[_Token]) -> bool:
    return f" {' '.join(_texts(quote))} " in f" {' '.join(_texts(source))} "


def _distortions(quote: Sequence[_Token], source: Sequence[_Token]) -> set[Distortion]:
    """What the edits that turn the source's span into the quote amount to."""
    found = {Distortion.EDITED}
    edits = SequenceMatcher(None, _texts(source), _texts(quote), autojunk=False).get_opcodes()
    for tag, start, stop, quote_start, quote_stop in edits:
        if tag == "equal":
            continue
        inside = quote_start > 0 and quote_stop < len(quote)
        # what lies before and after an excerpt is not part of it
        removed = _texts(source[start:stop]) if inside else []
        added = _texts(quote[quote_start:quote_stop])
        if any(map(_FIGURE.fullmatch, added)):
            found.add(Distortion.NUMBER)
        if removed and source[start - 1].sentence != source[stop].sentence:
            found.add(Distortion.GLUED)
        elif _negations(removed) != _negations(added):
            found.add(Distortion.NEGATION)
    return found


def _negations(texts: Sequence[str]) -> int:
    return sum(text in _NEGATIONS for text in texts)
