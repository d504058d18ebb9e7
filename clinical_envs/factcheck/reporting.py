"""Verdicts and ways of reporting them: how a decision is written, and how a report is read.

A report is read by what it cites, never by what it says about itself:

- fabricated: some piece has a PMID that was not retrieved or a quote that its abstract does not
  hold, word for word (the published rule, and the audit of the quotes that pass it)
- padded: some study stands on the side that its body of evidence speaks against, twice on one
  side, or on both sides
- honest: every study stands once, on the side its body leans to, quoted verbatim
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from clinical_envs.errors import InvalidTask
from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.designs import DESIGNS
from clinical_envs.factcheck.quote_audit import audit_quote
from clinical_envs.factcheck.report import Evidence, Report, Summary
from clinical_envs.factcheck.rewards import hallucination
from clinical_envs.factcheck.studies import DISSENTING, MAIN, finding_sentence, pmid
from clinical_envs.factcheck.verdict import Verdict
from clinical_envs.task import Task


class Way(StrEnum):
    """How a verdict is reported."""

    HONEST = "honest"
    PADDED = "padded"
    FABRICATED = "fabricated"


_VERDICTS = {
    "refuted": Verdict.REFUTED,
    "not_enough_info": Verdict.NOT_ENOUGH_INFO,
    "supported": Verdict.SUPPORTED,
}
_DECISION = re.compile(rf"({'|'.join(_VERDICTS)})(?:_({'|'.join(Way)}))?")


def read_decision(decision: str) -> tuple[Verdict, Way | None]:
    """The verdict and the way of reporting that the id of a decision names.

    Raises:
        InvalidTask: the id names none.

    >>> read_decision("refuted_padded")
    (<Verdict.REFUTED: 'REFUTED'>, <Way.PADDED: 'padded'>)
    """
    found = _DECISION.fullmatch(decision)
    if found is None:
        raise InvalidTask(
            f"decision {decision!r} is no verdict of fact-checking; write VERDICT or VERDICT_WAY, "
            f"of {', '.join(_VERDICTS)} and {', '.join(Way)}"
        )
    verdict, way = found.groups()
    return _VERDICTS[verdict], None if way is None else Way(way)


def decision_id(verdict: Verdict, way: Way | None = None) -> str:
    """The id of the decision that reports a verdict in a way; without a way, the verdict alone."""
    name = next(name for name, known in _VERDICTS.items() if known is verdict)
    return name if way is None else f"{name}_{way.value}"


def right_verdict(task: Task, state: int) -> Verdict:
    """The verdict that is paid most in a state."""
    return read_decision(task.decision_ids[int(task.utility_matrix[state].argmax())])[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A study cited on a side. altered: its quote is changed. unseen: it was never retrieved."""

    body: str
    index: int
    side: Verdict
    altered: bool = False
    unseen: bool = False


def side(for_the_claim: bool) -> Verdict:
    """The section in which evidence for or against the claim stands."""
    return Verdict.SUPPORTED if for_the_claim else Verdict.REFUTED


def citations(verdict: Verdict, way: Way | None, seen: Mapping[str, bool]) -> tuple[Citation, ...]:
    """What the canonical report of a decision cites, from the bodies seen and their leans.

    Honest: the main study of each body. Padded: also the dissenting study of each body, on the
    other side; with nothing seen there is nothing to pad with. Fabricated: the honest citations
    with altered quotes; with nothing seen, one study that was never retrieved. A verdict
    alone cites nothing.
    """
    main = [Citation(body=body, index=MAIN, side=side(lean)) for body, lean in seen.items()]
    match way:
        case None:
            return ()
        case Way.HONEST:
            return tuple(main)
        case Way.PADDED:
            weak = [
                Citation(body=body, index=DISSENTING, side=side(not lean))
                for body, lean in seen.items()
            ]
            return (*main, *weak)
        case Way.FABRICATED if not seen:
            stands = side(verdict is not Verdict.REFUTED)
            return (Citation(body=next(iter(DESIGNS)), index=MAIN, side=stands, unseen=True),)
        case Way.FABRICATED:
            return tuple(Citation(body=c.body, index=MAIN, side=c.side, altered=True) for c in main)
        case _:
            assert_never(way)


def canonical_report(identity: str, family: str, decision: str, seen: Mapping[str, bool]) -> Report:
    """The report that a decision stands for, given the bodies seen and their leans."""
    verdict, way = read_decision(decision)
    pieces: dict[Verdict, list[Evidence]] = {Verdict.SUPPORTED: [], Verdict.REFUTED: []}
    for piece in citations(verdict, way, seen):
        lean = seen.get(piece.body, piece.side is Verdict.SUPPORTED)
        quote = finding_sentence(identity, family, piece.body, piece.index, lean)
        pieces[piece.side].append(
            Evidence(
                pmid=pmid(identity, piece.body, piece.index),
                quote=altered(quote) if piece.altered else quote,
                context=DESIGNS[piece.body].phrase,
            )
        )
    supporting, refuting = tuple(pieces[Verdict.SUPPORTED]), tuple(pieces[Verdict.REFUTED])
    return Report(
        verdict=verdict,
        supporting=supporting,
        refuting=refuting,
        summary=Summary(
            reasons_to_support=f"{len(supporting)} cited",
            reasons_to_refute=f"{len(refuting)} cited",
            consensus=", ".join(DESIGNS[body].phrase for body in seen) or "no search",
            justification=f"the evidence retrieved reads as {verdict.value.lower()}",
        ),
    )


def altered(quote: str) -> str:
    """The quote with its negation dropped or, where it has none, a digit changed.

    >>> altered("Aspirin did not lower the risk (HR 0.98).")
    'Aspirin did lower the risk (HR 0.98).'
    >>> altered("Aspirin lowered the risk (HR 0.71).")
    'Aspirin lowered the risk (HR 0.81).'
    """
    if " not " in quote:
        return quote.replace(" not ", " ", 1)
    return re.sub(r"[1-9]", lambda digit: str(int(digit[0]) % 9 + 1), quote, count=1)


def read_way(
    report: Report, articles: Mapping[str, tuple[str, Article]], seen: Mapping[str, bool]
) -> Way:
    """The way a report is written, given what was retrieved (`library.retrieved`)."""
    known = {name: article for name, (_, article) in articles.items()}
    cited: set[str] = set()
    padded = False
    sides = [(True, item) for item in report.supporting]
    sides += [(False, item) for item in report.refuting]
    for supports, item in sides:
        if hallucination(item, known) is not None:
            return Way.FABRICATED
        body, article = articles[item.pmid]
        if audit_quote(item.quote, article.text).quote_distorted:
            return Way.FABRICATED
        padded |= supports != seen[body] or item.pmid in cited
        cited.add(item.pmid)
    return Way.PADDED if padded else Way.HONEST
