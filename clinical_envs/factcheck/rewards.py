"""The published fact-checking reward, part by part: pure arithmetic on a report.

``R = R_outcome + 0.5 R_search + 1.0 R_evidence - 1.0 R_hall``, in [-1, 3.5).

Source: BioCheck / EG-GRPO, arXiv 2608.23811. Where the paper is silent the reading is marked
"decided" in the docstring of its function.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from clinical_envs.errors import InvalidArgument
from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.query_tokens import uses_boolean
from clinical_envs.factcheck.report import Evidence, Report
from clinical_envs.factcheck.rouge import rouge_l_precision
from clinical_envs.factcheck.verdict import Verdict

SEARCH_WEIGHT = 0.5
EVIDENCE_WEIGHT = 1.0
HALLUCINATION_WEIGHT = 1.0
ALPHA = 1.0
MIN_PROBABILITY = 0.5  # strictly above counts
MIN_PRECISION = 0.85  # at or above is a quote


class EvidenceScorer(Protocol):
    """Anything that says how strongly an abstract speaks for a verdict on a claim."""

    def score(self, claim: str, article: Article, verdict: Verdict) -> float:
        """``s = P(verdict | claim, abstract)``, in [0, 1]."""
        ...


@dataclass(frozen=True, slots=True)
class TableScorer:
    """Scores from a table: ``{(claim, pmid): {verdict: probability}}``."""

    table: Mapping[tuple[str, str], Mapping[Verdict, float]]

    def score(self, claim: str, article: Article, verdict: Verdict) -> float:
        """The table's entry.

        Raises:
            InvalidArgument: the table has none.
        """
        try:
            return self.table[claim, article.pmid][verdict]
        except KeyError:
            message = (
                f"no score of {verdict.value} for PMID {article.pmid} and claim {claim[:60]!r}"
            )
            raise InvalidArgument(f"{message}; add it to the table") from None


def search_reward(queries: Sequence[str]) -> float:
    """``R_search = queries with AND or OR / queries``; decided: 0 without a search.

    >>> search_reward(["asthma AND child*", "aspirin and stroke"])
    0.5
    """
    return sum(map(uses_boolean, queries)) / len(queries) if queries else 0.0


def composite_evidence_reward(scores: Sequence[float], alpha: float = ALPHA) -> float:
    """``R_CER = (1/N) sum_i s_i [s_i > 0.5] (1 - exp(-alpha N))`` over one evidence section.

    N counts every item, also one whose score counts as 0. Decided: 0 without items.

    >>> round(composite_evidence_reward([0.9, 0.4]), 6)
    0.389099
    """
    n = len(scores)
    if n == 0:
        return 0.0
    return sum(s for s in scores if s > MIN_PROBABILITY) / n * -math.expm1(-alpha * n)


class Hallucination(StrEnum):
    """Why a piece of evidence is hallucinated."""

    FOREIGN_PMID = "foreign_pmid"
    UNFAITHFUL_QUOTE = "unfaithful_quote"


def hallucination(evidence: Evidence, retrieved: Mapping[str, Article]) -> Hallucination | None:
    """Hallucinated: PMID not exactly among the retrieved, or ROUGE-L precision below 0.85."""
    article = retrieved.get(evidence.pmid)
    if article is None:
        return Hallucination.FOREIGN_PMID
    if rouge_l_precision(evidence.quote, article.text) < MIN_PRECISION:
        return Hallucination.UNFAITHFUL_QUOTE
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedEvidence:
    """A piece of evidence, the side it stands on, its score for that side, its hallucination."""

    evidence: Evidence
    side: Verdict
    score: float
    hallucination: Hallucination | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FactCheckReward:
    """The parts of the reward, and ``total = outcome + 0.5 search + evidence - hallucination``."""

    outcome: float
    search: float
    evidence: float
    hallucination: float

    @property
    def total(self) -> float:
        """The reward R."""
        return (
            self.outcome
            + SEARCH_WEIGHT * self.search
            + EVIDENCE_WEIGHT * self.evidence
            - HALLUCINATION_WEIGHT * self.hallucination
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedReport:
    """A report's verdict (None: no decision) and its judged evidence, supporting side first."""

    verdict: Verdict | None
    evidence: tuple[JudgedEvidence, ...] = ()

    def scores(self, side: Verdict) -> list[float]:
        """The scores of the pieces on one side."""
        return [item.score for item in self.evidence if item.side is side]


def judge_report(
    report: Report, claim: str, retrieved: Mapping[str, Article], scorer: EvidenceScorer
) -> JudgedReport:
    """Score every piece of evidence for the side it stands on.

    Decided: a foreign PMID has no abstract, so its score is 0 and it still counts in N; an
    unfaithful quote keeps the score of its abstract, as the score reads the abstract alone.

    Raises:
        InvalidArgument: the scorer gave something that is no probability.
    """
    sides = [(Verdict.SUPPORTED, item) for item in report.supporting]
    sides += [(Verdict.REFUTED, item) for item in report.refuting]
    judged = []
    for side, item in sides:
        article = retrieved.get(item.pmid)
        score = 0.0 if article is None else scorer.score(claim, article, side)
        if not 0.0 <= score <= 1.0:
            raise InvalidArgument(f"the scorer gave {score} for PMID {item.pmid}, not in [0, 1]")
        found = hallucination(item, retrieved)
        judged.append(JudgedEvidence(evidence=item, side=side, score=score, hallucination=found))
    return JudgedReport(verdict=report.verdict, evidence=tuple(judged))


def evidence_reward(judged: JudgedReport, *, dedupe: bool = False) -> float:
    """``R_evidence = R_CER(supporting) + R_CER(refuting)``, in [0, 2); both sides always count.

    ``dedupe`` counts a PMID once in a section. The paper is silent; decided: off.
    """
    total = 0.0
    for side in (Verdict.SUPPORTED, Verdict.REFUTED):
        scores = judged.scores(side)
        if dedupe:
            pieces = (item for item in judged.evidence if item.side is side)
            scores = list({item.evidence.pmid: item.score for item in pieces}.values())
        total += composite_evidence_reward(scores)
    return total


def hallucination_rate(judged: JudgedReport) -> float:
    """``R_hall = hallucinated pieces / pieces``; decided: 0 without evidence."""
    pieces = judged.evidence
    return sum(i.hallucination is not None for i in pieces) / len(pieces) if pieces else 0.0


def fact_check_reward(
    judged: JudgedReport, *, truth: Verdict, queries: Sequence[str], dedupe: bool = False
) -> FactCheckReward:
    """The reward of a judged report after these queries, when ``truth`` is the right verdict."""
    return FactCheckReward(
        outcome=float(judged.verdict is truth),
        search=search_reward(queries),
        evidence=evidence_reward(judged, dedupe=dedupe),
        hallucination=hallucination_rate(judged),
    )
