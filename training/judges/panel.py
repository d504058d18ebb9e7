"""How far judges agree: the agreement table of a panel and of the verifier it is to check.

Agreement, false positives and false negatives are shares of all scored criteria (arXiv
2605.12474); kappa is Cohen's, on the same criteria.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clinical_envs.rubric.consensus import Verdict, majority
from oracles.reward_audit.agreement import Agreement, agreement
from oracles.reward_audit.records import JudgmentRow
from training.judges.kappa import cohen_kappa, fleiss_kappa


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One verdict-giver against the majority of others; kappa is None where it is undefined."""

    judge: str
    against: str
    agreement: Agreement
    kappa: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementTable:
    """A comparison for each judge and the verifier, and Fleiss' kappa of the whole panel.

    `complete` counts the criteria on which every judge gave a verdict, which the kappa is of.
    """

    comparisons: tuple[Comparison, ...]
    fleiss: float | None
    complete: int


def agreement_table(rows: Sequence[JudgmentRow], judges: Sequence[str]) -> AgreementTable:
    """The table of the rows of one run, whose panels are the judges in this order.

    Each verifier stands against the panel's majority, each judge against that of the others. A
    panel of one has nothing to compare a judge with.
    """
    comparisons = [
        _compare(
            verifier,
            "panel",
            [(row.training, row.panel) for row in rows if row.verifier == verifier],
        )
        for verifier in dict.fromkeys(row.verifier for row in rows)
        if any(row.training is not None for row in rows if row.verifier == verifier)
    ]
    if len(judges) > 1:
        comparisons += [
            _compare(
                judge,
                "other judges",
                [(row.panel[i], row.panel[:i] + row.panel[i + 1 :]) for row in rows],
            )
            for i, judge in enumerate(judges)
        ]
    votes = [row.panel for row in rows]
    return AgreementTable(
        comparisons=tuple(comparisons),
        fleiss=fleiss_kappa(votes) if len(judges) > 1 else None,
        complete=sum(None not in panel for panel in votes),
    )


def _compare(
    judge: str, against: str, pairs: Sequence[tuple[Verdict, Sequence[Verdict]]]
) -> Comparison:
    return Comparison(
        judge=judge,
        against=against,
        agreement=agreement(pairs),
        kappa=cohen_kappa([one for one, _ in pairs], [majority(others) for _, others in pairs]),
    )
