"""The questions of `ClinicalCheckedQA-v0`: their passages, gold answers and ways of answering.

A question is worded from its family and its public case name alone. A decision is a candidate
answer in one of three ways of writing it, `hedge` (more than one candidate) or `other`:

| way | rule, the first that applies |
|---|---|
| foreign | more than a fifth of the letters outside the question's scripts |
| short | at most one claim |
| full | everything else |
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from pydantic import BaseModel, ConfigDict

from clinical_envs.catalog import read_yaml
from clinical_envs.checkedqa.cascade import FEW_CLAIMS, FOREIGN_SHARE, foreign_share
from clinical_envs.checkedqa.claims import claims

HEDGE, OTHER = "hedge", "other"
_WORD = re.compile(r"\w+")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Kind(_Part):
    question: str
    verb: str
    verbs: str
    verbed: str
    says: str
    foreign_verb: str
    names: tuple[dict[str, str], ...]


class _Passage(_Part):
    title: str
    present: str
    absent: str


class _Candidate(_Part):
    named: str
    full: tuple[str, ...]
    short: str
    foreign: str


class _Texts(_Part):
    kinds: dict[str, _Kind]
    passages: dict[str, _Passage]
    candidates: dict[str, _Candidate]
    hedge: str
    other: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A passage: its title, which can be searched, and its text for either answer."""

    title: str
    present: str
    absent: str

    def text(self, answer: bool) -> str:
        """What it says."""
        return self.present if answer else self.absent


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A worded question.

    passages: by finding, in the task's order. gold: the gold answer of each state. answers: the
    canonical text of each decision. named: candidates with the pattern that finds them.
    """

    text: str
    passages: Mapping[str, Passage]
    gold: Mapping[str, str]
    answers: Mapping[str, str]
    named: tuple[tuple[str, re.Pattern[str]], ...]

    def retrieve(self, query: str) -> str | None:
        """The finding whose title shares most words with the query, the first on ties.

        >>> question("benefit", "a case").retrieve("any guideline?")
        'guideline'
        """
        words = set(_WORD.findall(query.lower()))
        hits = {
            finding: len(words.intersection(_WORD.findall(passage.title.lower())))
            for finding, passage in self.passages.items()
        }
        best = max(hits, key=lambda finding: hits[finding])
        return best if hits[best] else None

    def classify(self, answer: str) -> str:
        """The decision that a free answer comes to; total.

        Each claim names the first candidate whose pattern it matches. One candidate named by all
        claims that name any: that candidate, in the way it is written; more than one: `hedge`;
        none: `other`.

        >>> question("harm", "a case").classify("Yes, it does.")
        'effect_short'
        """
        stated = claims(answer)
        candidates = {name for claim in stated if (name := self._candidate(claim)) is not None}
        if len(candidates) != 1:
            return HEDGE if candidates else OTHER
        if is_foreign(self.text, answer):
            way = "foreign"
        else:
            way = "short" if len(stated) <= FEW_CLAIMS else "full"
        return f"{candidates.pop()}_{way}"

    def _candidate(self, claim: str) -> str | None:
        return next((name for name, pattern in self.named if pattern.search(claim)), None)


def is_foreign(question: str, answer: str) -> bool:
    """Whether more than a fifth of the answer's letters are outside the question's scripts."""
    return foreign_share(question, answer) > FOREIGN_SHARE


def question(family: str, case: str) -> Question:
    """The question of a case.

    Args:
        family: name of the family.
        case: public name of the case; picks the names of drug and outcome.
    """
    number = int.from_bytes(hashlib.sha256(case.encode()).digest()[:8], "big")
    return questions(family)[number % len(_texts().kinds[family].names)]


@cache
def questions(family: str) -> tuple[Question, ...]:
    """All wordings of a family."""
    return tuple(_worded(family, names) for names in _texts().kinds[family].names)


def drugs_and_outcomes() -> tuple[str, ...]:
    """The names that vary between the wordings of a question, each once."""
    names = [
        name for kind in _texts().kinds.values() for slots in kind.names for name in slots.values()
    ]
    return tuple(dict.fromkeys(names))


@cache
def _texts() -> _Texts:
    source = resources.files("clinical_envs.checkedqa") / "world.yaml"
    return _Texts.model_validate(read_yaml(source.read_text(encoding="utf-8")))


def _worded(family: str, names: dict[str, str]) -> Question:
    texts, kind = _texts(), _texts().kinds[family]
    slots = names | {
        slot: getattr(kind, slot) for slot in ("verb", "verbs", "verbed", "says", "foreign_verb")
    }

    def fill(template: str) -> str:
        filled = template.format_map(slots)
        return filled[0].upper() + filled[1:]

    full = {name: " ".join(map(fill, one.full)) for name, one in texts.candidates.items()}
    answers = {OTHER: fill(texts.other), HEDGE: fill(texts.hedge)}
    for name, one in texts.candidates.items():
        answers[f"{name}_full"] = full[name]
        answers[f"{name}_short"] = fill(one.short)
        answers[f"{name}_foreign"] = fill(one.foreign)
    return Question(
        text=fill(kind.question),
        passages={
            finding: Passage(
                title=fill(one.title), present=fill(one.present), absent=fill(one.absent)
            )
            for finding, one in texts.passages.items()
        },
        gold=full,
        answers=answers,
        named=tuple(
            (name, re.compile(one.named.format_map(slots), re.IGNORECASE))
            for name, one in texts.candidates.items()
        ),
    )
