"""A claim that was checked, and every citation of its report held against its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.quote_audit import QuoteAudit, audit_quote
from clinical_envs.factcheck.report import Evidence, Report
from clinical_envs.factcheck.rewards import Hallucination, hallucination
from clinical_envs.factcheck.verdict import Verdict
from training.agents.desk import Message, Search, Spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a method made of a claim.

    report: with verdict None where none was reached; a method that decides only has no evidence
    in it. problems: of the report's form and of the agent, by name. articles: everything that was
    shown to the model, by PMID. messages: what was said, in order.
    """

    claim: str
    report: Report
    searches: tuple[Search, ...]
    articles: Mapping[str, Article]
    problems: tuple[str, ...]
    messages: tuple[Message, ...]
    spent: Spent

    @property
    def n_searches(self) -> int:
        """Searches that counted towards the cap."""
        return sum(search.charged for search in self.searches)

    @property
    def citations(self) -> tuple[Citation, ...]:
        """Every cited piece with its checks, supporting side first."""
        sides = [(Verdict.SUPPORTED, item) for item in self.report.supporting]
        sides += [(Verdict.REFUTED, item) for item in self.report.refuting]
        return tuple(check_citation(side, item, self.articles) for side, item in sides)


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A cited piece: the side it stands on, the article it names, and what is wrong with it.

    audit: of the quote against the abstract; None for a PMID that was never retrieved.
    """

    side: Verdict
    evidence: Evidence
    article: Article | None
    hallucination: Hallucination | None
    audit: QuoteAudit | None

    @property
    def distorted(self) -> bool:
        """Whether the published rule accepts a quote that was changed."""
        return self.audit is not None and self.audit.quote_distorted

    @property
    def faults(self) -> tuple[str, ...]:
        """Every fault by name; none for a verbatim quote of a retrieved article."""
        found = [] if self.hallucination is None else [self.hallucination.value]
        return (*found, *(d.value for d in self.audit.distortions)) if self.audit else (*found,)


def check_citation(side: Verdict, item: Evidence, articles: Mapping[str, Article]) -> Citation:
    """Hold a cited piece against what was retrieved.

    >>> articles = {"7": Article(pmid="7", abstract="Aspirin did not reduce stroke.")}
    >>> item = Evidence(pmid="7", quote="Aspirin did reduce stroke.")
    >>> check_citation(Verdict.SUPPORTED, item, articles).faults
    ('edited', 'negation')
    """
    article = articles.get(item.pmid)
    return Citation(
        side=side,
        evidence=item,
        article=article,
        hallucination=hallucination(item, articles),
        audit=None if article is None else audit_quote(item.quote, article.text),
    )
