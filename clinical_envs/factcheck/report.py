"""The evidence report, and how it is written.

::

    ### REPORT
    **Supporting Evidence:**
    - PMID: 101
      Top Sentence: "a sentence quoted verbatim"
      Context: what the study looked at
    **Refuting Evidence:**
    No refuting evidence found.
    **Summary**
    - Reasons to Support: ...
    - Reasons to Refute: ...
    - Consensus & Context Check: ...
    - Final Justification: ...
    **Conclusion**
    <answer>SUPPORTED</answer>
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from clinical_envs.factcheck.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One cited piece: the PMID as written, the quoted sentence, what the study looked at."""

    pmid: str
    quote: str
    context: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The four bullets of the summary."""

    reasons_to_support: str = ""
    reasons_to_refute: str = ""
    consensus: str = ""
    justification: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report; ``verdict`` is None when it gives none, or more than one."""

    verdict: Verdict | None
    supporting: tuple[Evidence, ...] = ()
    refuting: tuple[Evidence, ...] = ()
    summary: Summary = Summary()

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Both sides, supporting first."""
        return self.supporting + self.refuting


class ReportProblem(StrEnum):
    """What is wrong with the form of a report."""

    MISSING_SECTION = "missing_section"
    REPEATED_SECTION = "repeated_section"
    BAD_PMID = "bad_pmid"
    MISSING_QUOTE = "missing_quote"
    STRAY_TEXT = "stray_text"
    MISSING_SUMMARY = "missing_summary"
    MISSING_ANSWER = "missing_answer"
    UNKNOWN_ANSWER = "unknown_answer"
    CONFLICTING_ANSWERS = "conflicting_answers"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportError:
    """One problem of a report and what it is about."""

    problem: ReportProblem
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedReport:
    """What a text says as a report, and what is wrong with its form."""

    report: Report
    errors: tuple[ReportError, ...]


SUMMARY_BULLETS = {
    "Reasons to Support": "reasons_to_support",
    "Reasons to Refute": "reasons_to_refute",
    "Consensus & Context Check": "consensus",
    "Final Justification": "justification",
}


def render_report(report: Report) -> str:
    """A report as text; white space in its fields collapses, so no field can open a section.

    Parsing the text gives the report back.
    """
    summary = "\n".join(
        f"- {title}: {_line(getattr(report.summary, name))}"
        for title, name in SUMMARY_BULLETS.items()
    )
    answer = "" if report.verdict is None else f"<answer>{report.verdict.value}</answer>"
    return (
        "### REPORT\n\n"
        f"**Supporting Evidence:**\n{_rendered(report.supporting, 'supporting')}\n\n"
        f"**Refuting Evidence:**\n{_rendered(report.refuting, 'refuting')}\n\n"
        f"**Summary**\n{summary}\n\n"
        f"**Conclusion**\n{answer}\n"
    )


def _rendered(items: tuple[Evidence, ...], side: str) -> str:
    if not items:
        return f"No {side} evidence found."
    return "\n".join(
        f"- PMID: {_line(item.pmid)}\n"
        f'  Top Sentence: "{_line(item.quote)}"\n'
        f"  Context: {_line(item.context)}"
        for item in items
    )


def _line(text: str) -> str:
    return " ".join(text.split())
