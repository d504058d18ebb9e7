"""How a training verifier compares with the majority of a panel.

False positives and false negatives are shares of *all* scored criteria, as published (arXiv
2605.12474), not rates among the criteria that are not met or met: agreement + FP + FN = 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clinical_envs.rubric.consensus import Verdict, majority
from oracles.reward_audit.findings import Finding, decide
from oracles.reward_audit.intervals import share_interval
from oracles.reward_audit.phases import stack
from oracles.reward_audit.records import JudgmentRow, Key
from oracles.reward_audit.rules import VERIFIER_DISAGREEMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """A row of the agreement table; the shares are `None` if nothing is scored."""

    agreement: float | None
    false_positive: float | None
    false_negative: float | None
    scored: int
    unscored: int


def agreement(pairs: Iterable[tuple[Verdict, Sequence[Verdict]]]) -> Agreement:
    """Compare verdicts with panels; unscored if the verdict or the majority is missing.

    >>> agreement([(True, [True]), (True, [False]), (False, [False]), (None, [True])])
    Agreement(agreement=0.6666666666666666, false_positive=0.3333333333333333, \
false_negative=0.0, scored=3, unscored=1)
    """
    compared = [(verdict, majority(panel) if panel else None) for verdict, panel in pairs]
    scored = [pair for pair in compared if None not in pair]
    n = len(scored)
    wrong = [(verdict, truth) for verdict, truth in scored if verdict != truth]
    return Agreement(
        agreement=(n - len(wrong)) / n if n else None,
        false_positive=sum(bool(verdict) for verdict, _ in wrong) / n if n else None,
        false_negative=sum(bool(truth) for _, truth in wrong) / n if n else None,
        scored=n,
        unscored=len(compared) - n,
    )


def audit_agreement(verifier: str, rows: Sequence[JudgmentRow]) -> Finding:
    """Whether the verifier disagrees with the panel's majority too often."""
    sums: dict[Key, list[float]] = {}
    for row in rows:
        truth = majority(row.panel) if row.panel else None
        if row.training is not None and truth is not None:
            mine = sums.setdefault(row.prompt, [0.0, 0.0])
            mine[0] += row.training != truth
            mine[1] += 1
    per_prompt = stack(sums, 2)
    table = agreement((row.training, row.panel) for row in rows)
    shares = "nothing scored"
    if table.scored:
        shares = (
            f"agreement {table.agreement:.3f}, false positives {table.false_positive:.3f}, "
            f"false negatives {table.false_negative:.3f} of {table.scored} criteria"
        )
    return decide(
        VERIFIER_DISAGREEMENT,
        share_interval(per_prompt[:, 0], per_prompt[:, 1]),
        prompts=len(sums),
        evidence=f"{shares}, {table.unscored} unscored",
        subject=verifier,
    )
