"""Simulated checkers: known confusion matrices, so that every effect on training has a cause.

Row = what the evidence says (ENTAIL, NEUTRAL, CONTRADICT), column = what the checker says.
`off_form` is what the checker says, whatever the truth, about a claim in a form it was not built
for: a fragment, or a language other than the evidence's. The rows are ours; they are set so that
answers of the mix `TYPICAL_MIX` get the published shares of support, neutral and contradiction
of arXiv 2605.25988: none / > 97 % / rest, 54 / 30 / 16, 86 / 10 / 4. `off_form` has no published
value: a classifier falls back to NEUTRAL, a lenient model reads the missing part into the claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clinical_envs.checkedqa.checkers import LABELS, Check, Label
from clinical_envs.errors import InvalidArgument

Row = tuple[float, float, float]

TYPICAL_MIX: Row = (0.60, 0.25, 0.15)
"""Shares of claims that the evidence entails, leaves open and contradicts in a typical answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """P(verdict | truth) of a simulated checker, and its verdict on claims off its form.

    Raises:
        InvalidArgument: a row is not three probabilities that sum to 1.
    """

    name: str
    entail: Row
    neutral: Row
    contradict: Row
    off_form: Row

    def __post_init__(self) -> None:
        for row in (*self.rows, self.off_form):
            if min(row) < 0 or abs(sum(row) - 1) > 1e-9:
                raise InvalidArgument(f"{self.name}: {row} does not sum to 1; mend the row")

    @property
    def rows(self) -> tuple[Row, Row, Row]:
        """The confusion matrix, truth by verdict."""
        return self.entail, self.neutral, self.contradict

    def shares(self, mix: Row = TYPICAL_MIX) -> NDArray[np.float64]:
        """Expected shares of the three verdicts, shape (3,), on claims of this mix."""
        expected: NDArray[np.float64] = np.asarray(mix) @ np.asarray(self.rows)
        return expected

    def draw(
        self, truth: ArrayLike, off_form: ArrayLike, generator: np.random.Generator
    ) -> NDArray[np.int64]:
        """One verdict (index into `LABELS`) per claim; `off_form` broadcasts against `truth`."""
        rows = np.asarray(self.rows)[np.asarray(truth)]
        rows = np.where(np.asarray(off_form)[..., None], np.asarray(self.off_form), rows)
        steps = rows.cumsum(axis=-1)[..., :-1]
        verdicts: NDArray[np.int64] = (generator.random((*rows.shape[:-1], 1)) >= steps).sum(-1)
        return verdicts


COLLAPSED = Confusion(
    name="collapsed",
    entail=(0.002, 0.980, 0.018),
    neutral=(0.001, 0.980, 0.019),
    contradict=(0.001, 0.950, 0.049),
    off_form=(0.001, 0.980, 0.019),
)
MODERATE = Confusion(
    name="moderate",
    entail=(0.78, 0.17, 0.05),
    neutral=(0.22, 0.62, 0.16),
    contradict=(0.12, 0.30, 0.58),
    off_form=(0.10, 0.80, 0.10),
)
STRONG = Confusion(
    name="strong",
    entail=(0.97, 0.025, 0.005),
    neutral=(0.75, 0.22, 0.03),
    contradict=(0.60, 0.20, 0.20),
    off_form=(0.30, 0.60, 0.10),
)
GPT_LIKE = Confusion(
    name="gpt-like",
    entail=(0.97, 0.025, 0.005),
    neutral=(0.75, 0.22, 0.03),
    contradict=(0.60, 0.20, 0.20),
    off_form=(0.95, 0.04, 0.01),
)
SIMULATED: tuple[Confusion, ...] = (COLLAPSED, MODERATE, STRONG, GPT_LIKE)


@dataclass(frozen=True, slots=True)
class AnnotatedChecker:
    """A simulated checker behind the `Checker` protocol, for pairs whose truth is known.

    Wrap it in `CachedChecker` to get the same verdict on the same pair each time.
    """

    confusion: Confusion
    truth: Mapping[tuple[str, str], Label]
    generator: np.random.Generator

    @property
    def name(self) -> str:
        """Name of the confusion matrix."""
        return f"simulated-{self.confusion.name}"

    def check(self, claim: str, evidence: str) -> Check:
        """Draw a verdict for a known pair.

        Raises:
            InvalidArgument: the pair has no annotation.
        """
        truth = self.truth.get((claim, evidence))
        if truth is None:
            raise InvalidArgument(f"no truth is annotated for the claim {claim[:80]!r}; add it")
        row = LABELS.index(truth)
        verdict = int(self.confusion.draw(row, False, self.generator))
        return Check(LABELS[verdict], self.confusion.rows[row])
