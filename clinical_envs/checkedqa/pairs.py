"""Labelled pairs of claim and evidence: written by the project from templates, or PubMedQA.

The written pairs are seeded and licence-free; each is made by one edit of a true claim, so its
label is known by construction. PubMedQA is read where it lies and never shipped.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clinical_envs.checkedqa.checkers import Label
from clinical_envs.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Pair:
    """A claim, the evidence and what the evidence says about the claim."""

    claim: str
    evidence: str
    label: Label


_DRUGS = ("aspirin", "metformin", "lisinopril", "atorvastatin", "vitamin D", "amoxicillin")
_OUTCOMES = ("blood pressure", "mortality", "pain", "fever", "relapse", "hospital stay")
_GROUPS = ("adults", "children", "women", "men")
_VERBS = (("increased", "decreased"), ("raised", "lowered"), ("decreased", "increased"))
_OPENINGS = ("We found that", "In this trial,", "Over one year,", "Overall,")
_UNITS = (("mg", "g"), ("days", "weeks"), ("%", "mg"))


def written_pairs(generator: np.random.Generator, number: int) -> tuple[Pair, ...]:
    """Draw labelled pairs, about a third of each label, from the project's templates.

    ENTAIL: the evidence restates the claim. CONTRADICT: the claim negates it, turns its direction,
    or changes its number or unit. NEUTRAL: the claim names another population, drops the
    evidence's hedge, or is about another drug and outcome.

    >>> written_pairs(np.random.default_rng(0), 1)[0].label in set(Label)
    True
    """
    return tuple(_written_pair(generator) for _ in range(number))


def _written_pair(generator: np.random.Generator) -> Pair:
    def pick(options: tuple[str, ...]) -> str:
        return options[int(generator.integers(len(options)))]

    drug, other_drug = (_DRUGS[i] for i in generator.choice(len(_DRUGS), 2, replace=False))
    outcome, other = (_OUTCOMES[i] for i in generator.choice(len(_OUTCOMES), 2, replace=False))
    group, other_group = (_GROUPS[i] for i in generator.choice(len(_GROUPS), 2, replace=False))
    verb, opposite = _VERBS[int(generator.integers(len(_VERBS)))]
    unit, other_unit = _UNITS[int(generator.integers(len(_UNITS)))]
    amount = int(generator.integers(2, 90))
    dose = f"{amount} {unit}"
    claim = f"{drug} {verb} {outcome} by {dose} in {group}"
    evidence = f"{pick(_OPENINGS)} {claim} who took it."
    edits: dict[Label, tuple[tuple[str, str], ...]] = {
        Label.ENTAIL: (
            (claim, evidence),
            (f"{drug} {verb} {outcome} in {group}", evidence),
            (f"In {group}, {outcome} was {verb} by {drug}", evidence),
        ),
        Label.NEUTRAL: (
            (claim.replace(group, other_group), evidence),
            (claim, evidence.replace(verb, f"may have {verb}")),
            (f"{other_drug} {verb} {other} by {dose} in {group}", evidence),
        ),
        Label.CONTRADICT: (
            (claim.replace(verb, f"was not shown to have {verb}"), evidence),
            (claim.replace(verb, opposite), evidence),
            (claim.replace(dose, f"{amount + 7} {unit}"), evidence),
            (claim.replace(dose, f"{amount} {other_unit}"), evidence),
        ),
    }
    label = list(Label)[int(generator.integers(len(Label)))]
    options = edits[label]
    return Pair(*options[int(generator.integers(len(options)))], label)


_DECISIONS = {"yes": Label.ENTAIL, "no": Label.CONTRADICT, "maybe": Label.NEUTRAL}


def data_folder() -> Path:
    """Where public data may lie: `$CLINICAL_ENVS_DATA`, by default `../shared/data`."""
    return Path(os.environ.get("CLINICAL_ENVS_DATA", "../shared/data"))


def pubmedqa_pairs(folder: Path | None = None) -> tuple[Pair, ...] | None:
    """PubMedQA's expert-labelled questions as claims, with their conclusions as evidence.

    yes -> ENTAIL, no -> CONTRADICT, maybe -> NEUTRAL. This is the easy setting: the conclusion
    was written to answer the question.

    Returns:
        The pairs in the file's order, or `None` where `pubmedqa/ori_pqal.json` is absent.

    Raises:
        InvalidArgument: the file is there but is not PubMedQA.
    """
    path = (data_folder() if folder is None else folder) / "pubmedqa" / "ori_pqal.json"
    if not path.is_file():
        return None
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
        return tuple(
            Pair(one["QUESTION"], one["LONG_ANSWER"], _DECISIONS[one["final_decision"]])
            for one in records.values()
        )
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise InvalidArgument(f"{path} is not PubMedQA's ori_pqal.json: {error!r}") from None
