from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.factcheck.report import Evidence, Report, ReportProblem, Summary, render_report
from clinical_envs.factcheck.report_parser import parse_report, read_answer
from clinical_envs.factcheck.verdict import Verdict

_line = (
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
    .map(lambda text: " ".join(text.split()))
    .filter(lambda text: "**" not in text)
)
_evidence = st.builds(
    Evidence, pmid=st.integers(1, 10**9 - 1).map(str), quote=_line.filter(bool), context=_line
)
_reports = st.builds(
    Report,
    verdict=st.sampled_from(Verdict),
    supporting=st.lists(_evidence, max_size=3).map(tuple),
    refuting=st.lists(_evidence, max_size=3).map(tuple),
    summary=st.builds(Summary, *[])
    | st.builds(
        Summary,
        reasons_to_support=_line,
        reasons_to_refute=_line,
        consensus=_line,
        justification=_line,
    ),
)
_PIECES = [
    "### REPORT", "**Supporting Evidence:**", "**Refuting Evidence:**", "**Summary**",
    "**Conclusion**", "- PMID: 1", "PMID 6", "Top Sentence: x", "Top Sentence:", 'Top Sentence: "',
    "Context: y", "<answer>", "</answer>", "<answer>SUPPORTED</answer>", "ſummary", "- ", "\n",
    "\u2028", "Reasons to Support: z", "No refuting evidence found.", "\ud800",
]  # fmt: skip
_soup = st.lists(st.sampled_from(_PIECES), max_size=30).flatmap(
    lambda pieces: st.sampled_from(["\n", ""]).map(lambda between: between.join(pieces))
)


def problems(text: str) -> list[ReportProblem]:
    return [error.problem for error in parse_report(text).errors]


@given(_reports)
def test_a_report_written_out_reads_back_with_nothing_wrong_but_empty_bullets(
    report: Report,
) -> None:
    parsed = parse_report(render_report(report))
    assert parsed.report == report
    assert {error.problem for error in parsed.errors} <= {ReportProblem.MISSING_SUMMARY}


@given(st.text() | _soup)
def test_any_text_becomes_a_report(text: str) -> None:
    parsed = parse_report(text)
    assert parse_report(text) == parsed
    if not parsed.errors:
        assert parsed.report.verdict is not None
        assert all(item.pmid.isdigit() and item.quote for item in parsed.report.evidence)


@given(st.text() | _soup)
def test_a_report_read_from_any_text_keeps_its_evidence_and_verdict_when_written_out(
    text: str,
) -> None:
    first = parse_report(text).report
    again = parse_report(render_report(first)).report
    assert again.verdict is first.verdict
    assert len(again.supporting) == len(first.supporting)
    assert len(again.refuting) == len(first.refuting)


# The ids and scores of the published worked example (azo dyes); the wording is our own.
AZO_BASE = """
I will now write the report.

### REPORT

**Supporting Evidence:**
- **PMID:** 19882794
  **Top Sentence:** "Exposure to the dyes was followed by tumours of the bladder."
  **Context:** rats, two years
- **PMID:** 7169286
  **Top Sentence:** "Metabolites of azo dyes were mutagenic."
  **Context:** bacterial assay
- **PMID:** 33953077
  **Top Sentence:** "A paper that no search returned."
  **Context:** unknown
- **PMID:** 6
  **Top Sentence:** "The sixth paper of the list."
  **Context:** an index instead of an id
- **PMID:** 2000005
  **Top Sentence:** "Workers showed a raised incidence."
  **Context:** cohort
  of 900 workers

**Refuting Evidence:**
1. PMID: 2000006
   Top Sentence: "No tumours were seen at the permitted dose."
   Context: mice
2. PMID: 2000007
   Top Sentence: "The dye was not absorbed."
   Context: absorption study
3. PMID: 2000008
   Top Sentence: "Colour fastness was high."
   Context: textile chemistry

**Summary**
- **Reasons to Support:** animal data
- **Reasons to Refute:** low dose
- **Consensus & Context Check:** mixed
- **Final Justification:** the animal data weigh more

**Conclusion**
<answer>SUPPORTED</answer>
"""


def test_the_worked_example_has_eight_items() -> None:
    parsed = parse_report(AZO_BASE)
    assert parsed.errors == ()
    assert [item.pmid for item in parsed.report.supporting] == [
        "19882794", "7169286", "33953077", "6", "2000005",
    ]  # fmt: skip
    assert [item.pmid for item in parsed.report.refuting] == ["2000006", "2000007", "2000008"]
    assert parsed.report.supporting[4] == Evidence(
        pmid="2000005",
        quote="Workers showed a raised incidence.",
        context="cohort of 900 workers",
    )
    assert parsed.report.summary.consensus == "mixed"


def test_a_report_without_evidence_is_whole() -> None:
    report = Report(
        verdict=Verdict.NOT_ENOUGH_INFO,
        summary=Summary(
            reasons_to_support="none",
            reasons_to_refute="none",
            consensus="none",
            justification="nothing found",
        ),
    )
    text = render_report(report)
    assert "No supporting evidence found." in text
    assert parse_report(text).report == report
    assert parse_report(text).errors == ()


@pytest.mark.parametrize(
    ("line", "pmid", "is_bad"),
    [
        ("PMID: 19882794 ", "19882794", False),
        ("- **PMID**: 19882794", "19882794", False),
        ("PMID 6", "6", False),
        ("PMID: PMID 6", "6", False),
        ("PMID: PMC123", "PMC123", True),
        ("PMID: 19882794, 7169286", "19882794, 7169286", True),
        ("PMID: 019882794", "019882794", True),
        ("PMID: １２", "１２", True),
        ("PMID:", "", True),
    ],
)
def test_a_pmid_is_kept_as_written_and_an_odd_one_is_named(
    line: str, pmid: str, is_bad: bool
) -> None:
    parsed = parse_report(f'Supporting Evidence:\n{line}\nTop Sentence: "x"')
    assert [item.pmid for item in parsed.report.supporting] == [pmid]
    bad = [error.detail for error in parsed.errors if error.problem is ReportProblem.BAD_PMID]
    assert bad == [pmid] * is_bad


def test_marks_inside_a_field_belong_to_it() -> None:
    evidence = Evidence(
        pmid="1",
        quote='"Useful" was never defined, nor was "safe"',
        context="a dose - response # 2",
    )
    report = Report(verdict=Verdict.REFUTED, refuting=(evidence,))
    assert parse_report(render_report(report)).report == report


def test_a_quote_without_a_pmid_is_an_item_of_its_own() -> None:
    text = 'Supporting Evidence:\nPMID: 1\nTop Sentence: "a"\nTop Sentence: "b"\nContext: c'
    assert parse_report(text).report.supporting == (
        Evidence(pmid="1", quote="a"),
        Evidence(pmid="", quote="b", context="c"),
    )


def test_an_item_without_a_quote_and_text_outside_items_are_named() -> None:
    text = "**Supporting Evidence:**\nSee below.\n- PMID: 1\n- PMID: 2\n  Top Sentence: “q”"
    parsed = parse_report(text)
    assert [item.quote for item in parsed.report.supporting] == ["", "q"]
    assert ReportProblem.STRAY_TEXT in problems(text)
    assert ReportProblem.MISSING_QUOTE in problems(text)


@pytest.mark.parametrize(
    ("conclusion", "verdict", "problem"),
    [
        ("<answer>SUPPORTED</answer>", Verdict.SUPPORTED, None),
        ("<answer> refuted\n</answer>", Verdict.REFUTED, None),
        ("<answer>NOT ENOUGH INFO</answer>", Verdict.NOT_ENOUGH_INFO, None),
        ("<answer>NOT ENOUGH INFORMATION</answer>", Verdict.NOT_ENOUGH_INFO, None),
        ("<answer>REFUTED</answer><ANSWER>REFUTED</ANSWER>", Verdict.REFUTED, None),
        ("SUPPORTED", None, ReportProblem.MISSING_ANSWER),
        ("<answer>SUPPORTED", None, ReportProblem.MISSING_ANSWER),
        ("<answer>SUPPORTED|REFUTED</answer>", None, ReportProblem.UNKNOWN_ANSWER),
        ("<answer>yes</answer>", None, ReportProblem.UNKNOWN_ANSWER),
        (
            "<answer>SUPPORTED</answer> or <answer>REFUTED</answer>",
            None,
            ReportProblem.CONFLICTING_ANSWERS,
        ),
    ],
)
def test_the_conclusion_gives_one_verdict_or_none_with_a_reason(
    conclusion: str, verdict: Verdict | None, problem: ReportProblem | None
) -> None:
    for heading in ("**Conclusion**\n", "### Conclusion:\n", "**Conclusion:** ", "Conclusion\n"):
        assert parse_report(heading + conclusion).report.verdict is verdict
    assert read_answer(conclusion)[0] is verdict
    assert [error.problem for error in read_answer(conclusion)[1]] == [problem] * bool(problem)


def test_an_answer_outside_the_conclusion_is_only_a_quotation() -> None:
    text = (
        '**Supporting Evidence:**\n- PMID: 1\n  Top Sentence: "<answer>SUPPORTED</answer>"\n'
        "  Context: **Conclusion** <answer>SUPPORTED</answer>\n"
        "**Conclusion**\n<answer>REFUTED</answer>"
    )
    assert parse_report(text).report.verdict is Verdict.REFUTED
    assert parse_report("The answer: <answer>SUPPORTED</answer>").report.verdict is None


def test_a_sentence_or_bullet_that_begins_like_a_heading_opens_no_section() -> None:
    text = (
        "**Summary**\n- Reasons to Support: x\n- Conclusion: drawn early\nSummary of trials\n"
        "**Conclusion**\n<answer>SUPPORTED</answer>"
    )
    parsed = parse_report(text)
    assert ReportProblem.REPEATED_SECTION not in problems(text)
    assert parsed.report.summary.reasons_to_support == "x Conclusion: drawn early Summary of trials"


def test_a_repeated_section_is_read_where_it_occurs_last_and_is_named() -> None:
    draft = "**Conclusion**\n<answer>SUPPORTED</answer>\n"
    final = "**Conclusion**\n<answer>REFUTED</answer>\n"
    assert parse_report(draft + final).report.verdict is Verdict.REFUTED
    assert ReportProblem.REPEATED_SECTION in problems(draft + final)


def test_prose_without_a_report_lacks_every_section_and_the_answer() -> None:
    text = "I could not find anything, sorry."
    assert parse_report(text).report == Report(verdict=None)
    assert problems(text).count(ReportProblem.MISSING_SECTION) == 5
    assert problems(text)[-1] is ReportProblem.MISSING_ANSWER
