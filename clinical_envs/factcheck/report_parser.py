"""Reading reports: any text becomes a report and a list of named errors, never an exception.

Decided readings. A heading or field name counts only at the start of a line; bold marks, hashes
and bullets do not matter. A section that occurs twice is read where it occurs last, and is a
problem. The verdict is read in the Conclusion and nowhere else, so a quoted answer tag is only a
quotation; two different answers there are no verdict. Nothing is repaired: an odd PMID stays as
it is written, and then matches no article.
"""

from __future__ import annotations

import re
from enum import StrEnum

from clinical_envs.factcheck.report import (
    SUMMARY_BULLETS,
    Evidence,
    ParsedReport,
    Report,
    ReportError,
    ReportProblem,
    Summary,
)
from clinical_envs.factcheck.verdict import Verdict, read_verdict


class _Section(StrEnum):
    REPORT = "report"
    SUPPORTING = "supporting evidence"
    REFUTING = "refuting evidence"
    SUMMARY = "summary"
    CONCLUSION = "conclusion"


# ASCII: "ſ" is no "s", although Unicode case folding says so
_FLAGS = re.IGNORECASE | re.ASCII
_BULLET = re.compile(r"^\s*(?:[-*•+]|[0-9]+[.)])\s+")
_HEADING = re.compile(rf"({'|'.join(_Section)})\s*(:?)\s*(.*)", _FLAGS)
_FIELD = re.compile(r"(?:(PMID)\b[\s:#]*|(Top Sentence|Context)\s*:)(.*)", _FLAGS)
_SUMMARY_FIELD = re.compile(rf"({'|'.join(SUMMARY_BULLETS)})\s*:(.*)", _FLAGS)
_NO_EVIDENCE = re.compile(r"no (?:supporting|refuting) evidence found\.?", _FLAGS)
_PMID = re.compile(r"[1-9][0-9]{0,8}")
_ANSWER = re.compile(r"<answer>([^<]*)</answer>", _FLAGS)
_QUOTE_MARKS = {'"': '"', "“": "”"}


def parse_report(text: str) -> ParsedReport:
    r"""Read any text as a report.

    >>> parsed = parse_report("**Conclusion**\n<answer>NOT ENOUGH INFO</answer>")
    >>> parsed.report.verdict.value, len(parsed.errors)
    ('NOT ENOUGH INFORMATION', 8)
    """
    sections, errors = _sections(text)
    supporting = _evidence(sections.get(_Section.SUPPORTING, []), errors)
    refuting = _evidence(sections.get(_Section.REFUTING, []), errors)
    summary = _summary(sections.get(_Section.SUMMARY, []), errors)
    verdict, answer_errors = read_answer("\n".join(sections.get(_Section.CONCLUSION, [])))
    report = Report(verdict=verdict, supporting=supporting, refuting=refuting, summary=summary)
    return ParsedReport(report=report, errors=(*errors, *answer_errors))


def read_answer(text: str) -> tuple[Verdict | None, tuple[ReportError, ...]]:
    """The verdict in the answer tags of a text; None, with the reason, unless there is one.

    >>> read_answer("<answer>refuted</answer>")
    (<Verdict.REFUTED: 'REFUTED'>, ())
    """
    answers = _ANSWER.findall(text)
    if not answers:
        return None, (ReportError(problem=ReportProblem.MISSING_ANSWER),)
    verdicts = {read_verdict(answer) for answer in answers}
    if len(verdicts) > 1:
        return None, (ReportError(problem=ReportProblem.CONFLICTING_ANSWERS),)
    (verdict,) = verdicts
    if verdict is None:
        return None, (ReportError(problem=ReportProblem.UNKNOWN_ANSWER, detail=answers[0][:80]),)
    return verdict, ()


def _plain(line: str) -> str:
    """The line without bold marks, leading hashes or bullet."""
    return _BULLET.sub("", line.replace("**", ""), count=1).lstrip("# \t").strip()


def _heading(line: str) -> tuple[_Section, str] | None:
    """The section that a line opens, and the text behind the heading; None for other lines."""
    found = _HEADING.fullmatch(_plain(line))
    if found is None:
        return None
    name, colon, rest = found.groups()
    marked = colon or line.lstrip().startswith(("#", "**"))
    # "- Conclusion: ..." may be a bullet and "Summary of trials" a sentence
    if rest and (_BULLET.match(line) or not marked):
        return None
    return _Section(name.lower()), rest


def _sections(text: str) -> tuple[dict[_Section, list[str]], list[ReportError]]:
    """The lines of each section, and what is wrong with the sections."""
    sections: dict[_Section, list[str]] = {}
    errors = []
    current: list[str] = []
    for line in text.splitlines():
        opened = _heading(line)
        if opened is None:
            current.append(line)
            continue
        name, rest = opened
        if name in sections:
            errors.append(ReportError(problem=ReportProblem.REPEATED_SECTION, detail=name))
        current = sections[name] = [rest]
    errors += [
        ReportError(problem=ReportProblem.MISSING_SECTION, detail=name)
        for name in _Section
        if name not in sections
    ]
    return sections, errors


def _evidence(lines: list[str], errors: list[ReportError]) -> tuple[Evidence, ...]:
    """The items of an evidence section; each PMID, and each quote without one, opens an item."""
    items: list[dict[str, str]] = []
    open_field: str | None = None
    for line in filter(None, map(_plain, lines)):
        found = _FIELD.fullmatch(line)
        if found is None:
            if open_field is not None:
                items[-1][open_field] += f" {line}"
            elif not _NO_EVIDENCE.fullmatch(line):
                errors.append(ReportError(problem=ReportProblem.STRAY_TEXT, detail=line[:80]))
            continue
        pmid, other, value = found.groups()
        name = "pmid" if pmid else "quote" if other.lower() == "top sentence" else "context"
        if not items or name == "pmid" or (name == "quote" and items[-1]["quote"]):
            items.append({"pmid": "", "quote": "", "context": ""})
        items[-1][name] += f" {value}"
        open_field = None if name == "pmid" else name
    return tuple(_checked(item, errors) for item in items)


def _checked(item: dict[str, str], errors: list[ReportError]) -> Evidence:
    pmid, quote, context = (" ".join(item[name].split()) for name in ("pmid", "quote", "context"))
    pmid = re.sub(r"^(?:PMID\b[\s:#]*)+", "", pmid, flags=_FLAGS)
    if len(quote) > 1 and _QUOTE_MARKS.get(quote[0]) == quote[-1]:
        quote = quote[1:-1].strip()
    if not _PMID.fullmatch(pmid):
        errors.append(ReportError(problem=ReportProblem.BAD_PMID, detail=pmid[:80]))
    if not quote:
        errors.append(ReportError(problem=ReportProblem.MISSING_QUOTE, detail=pmid[:80]))
    return Evidence(pmid=pmid, quote=quote, context=context)


def _summary(lines: list[str], errors: list[ReportError]) -> Summary:
    texts: dict[str, str] = {}
    open_field: str | None = None
    names = {title.lower(): name for title, name in SUMMARY_BULLETS.items()}
    for line in filter(None, map(_plain, lines)):
        found = _SUMMARY_FIELD.fullmatch(line)
        if found is not None:
            open_field = names[found[1].lower()]
            texts[open_field] = found[2]
        elif open_field is not None:
            texts[open_field] += f" {line}"
    errors += [
        ReportError(problem=ReportProblem.MISSING_SUMMARY, detail=title)
        for title, name in SUMMARY_BULLETS.items()
        if not texts.get(name, "").strip()
    ]
    return Summary(**{name: " ".join(text.split()) for name, text in texts.items()})
