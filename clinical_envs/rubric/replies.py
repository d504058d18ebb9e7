"""What a judge wrote, turned into verdicts or ratings, or into a named failure.

The parsers are total, repair nothing and guess nothing: a reply that cannot be read leaves its
criteria unscored (`None`), never "not met". Only the JSON object is read, so instructions that an
answer smuggles into a judge's explanation have no effect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

from clinical_envs.rubric.consensus import Verdict
from clinical_envs.rubric.pairwise import DIMENSIONS, HIGHEST, LOWEST, Dimension

_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class CriteriaReply:
    """One verdict per criterion, and why some are unscored (empty if none are)."""

    verdicts: tuple[Verdict, ...]
    problems: tuple[str, ...]


def parse_criteria_reply(text: str, criteria: int) -> CriteriaReply:
    """Read `{"1": {"explanation": ..., "criteria_met": true}, ...}` for criteria 1..`criteria`.

    The object stands alone or in the reply's only code fence. Keys beyond `criteria` are a
    problem, as they show that the judge graded another list, but cost no verdict.

    >>> parse_criteria_reply('{"1": {"explanation": "yes", "criteria_met": true}}', 2)
    CriteriaReply(verdicts=(True, None), problems=('criterion 2 is missing',))
    """
    found = _only_object(text)
    if isinstance(found, str):
        return CriteriaReply(verdicts=(None,) * criteria, problems=(found,))
    verdicts: list[Verdict] = []
    problems: list[str] = []
    numbers = [str(number) for number in range(1, criteria + 1)]
    for number in numbers:
        item = found.get(number)
        met = item.get("criteria_met") if isinstance(item, dict) else None
        verdicts.append(met if isinstance(met, bool) else None)
        if number not in found:
            problems.append(f"criterion {number} is missing")
        elif not isinstance(met, bool):
            problems.append(f"criterion {number} has no true or false under 'criteria_met'")
    extra = len(found.keys() - set(numbers))
    if extra:
        problems.append(f"{extra} keys name no criterion")
    return CriteriaReply(verdicts=tuple(verdicts), problems=tuple(problems))


def parse_ratings_reply(text: str) -> Mapping[str, Mapping[Dimension, float]] | str:
    """Read `{"A": {dimension: rating}, "B": {...}}` by name, in any order, or say what is wrong.

    >>> parse_ratings_reply("A is better")
    'no JSON object'
    """
    found = _only_object(text)
    if isinstance(found, str):
        return found
    if found.keys() != {"A", "B"}:
        return "the keys are not 'A' and 'B'"
    ratings: dict[str, dict[Dimension, float]] = {}
    for answer in ("A", "B"):
        given = found[answer]
        if not isinstance(given, dict):
            return f"{answer} holds no ratings"
        for dimension in DIMENSIONS:
            rating = given.get(dimension)
            if not _is_rating(rating):
                return f"{dimension} of {answer} is no number from {LOWEST:g} to {HIGHEST:g}"
            ratings.setdefault(answer, {})[dimension] = float(rating)
    return ratings


def _is_rating(value: object) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return LOWEST <= value <= HIGHEST


def _only_object(text: str) -> dict[str, object] | str:
    """The one JSON object of a reply, or what is wrong with it."""
    fenced = _FENCE.findall(text)
    if len(fenced) > 1:
        return "more than one code fence"
    try:
        found = json.loads(fenced[0] if fenced else text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError):
        return "no JSON object"
    return found if isinstance(found, dict) else "no JSON object"


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is repeated")
    return found
