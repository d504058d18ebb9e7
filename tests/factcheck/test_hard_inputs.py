"""The hard inputs of fact-checking, one row each: input, outcome.

Those of the agent (parallel calls, an ignored intervention) are in ``tests/agents``, those of the
NCBI back-end (failures, odd records) in ``tests/ncbi``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.evidence_audit import EvidenceFlag, audit_evidence
from clinical_envs.factcheck.metrics import evidence_quality
from clinical_envs.factcheck.query_error import QueryError, QueryProblem
from clinical_envs.factcheck.quote_audit import Distortion, audit_quote
from clinical_envs.factcheck.report import Evidence, Report, ReportProblem
from clinical_envs.factcheck.report_parser import parse_report
from clinical_envs.factcheck.rewards import (
    MIN_PRECISION,
    Hallucination,
    TableScorer,
    evidence_reward,
    hallucination,
    hallucination_rate,
    judge_report,
    search_reward,
)
from clinical_envs.factcheck.search import LocalSearch, SearchResult
from clinical_envs.factcheck.verdict import Verdict

SUPPORTED, REFUTED, UNKNOWN = Verdict
CLAIM = "Aspirin prevents stroke."

TRIAL = Article(
    pmid="19882794",
    title="Aspirin, IL-6 and TNF-α",
    abstract="We treated 412 adults with asthma for two years and 408 without. Aspirin did not "
    "reduce mortality overall (HR 0.98, 95% CI 0.91-1.06) in men or women. Bleeding was more "
    "frequent in those over 80 years.",
)
CHILDREN = Article(pmid="6", title="Covid-19 and vitamin D in infants", abstract="Stroke is rare.")
RETRIEVED = {article.pmid: article for article in (TRIAL, CHILDREN)}


@pytest.fixture(scope="module")
def local() -> Iterator[LocalSearch]:
    index = LocalSearch.build(RETRIEVED.values())
    yield index
    index.close()


# --- 3. quotes that were changed and still pass the published rule ---------------------------


@pytest.mark.parametrize(
    ("quote", "distortion"),
    [
        (
            "Aspirin did reduce mortality overall (HR 0.98, 95% CI 0.91-1.06) in men or women",
            Distortion.NEGATION,
        ),
        (
            "Aspirin did not reduce mortality overall (HR 0.58, 95% CI 0.91-1.06) in men or women",
            Distortion.NUMBER,
        ),
        (
            "adults with asthma for two years Aspirin did reduce mortality overall frequent in "
            "those over 80 years",
            Distortion.GLUED,
        ),
    ],
)
def test_3_a_changed_quote_passes_the_rule_and_not_the_audit(
    quote: str, distortion: Distortion
) -> None:
    assert hallucination(Evidence(pmid=TRIAL.pmid, quote=quote), RETRIEVED) is None
    audit = audit_quote(quote, TRIAL.text)
    assert audit.precision >= MIN_PRECISION
    assert audit.quote_distorted
    assert distortion in audit.distortions


@pytest.mark.parametrize(
    ("line", "found", "problem"),
    [
        ("PMID: 19882794 ", None, None),
        ("PMID 6", Hallucination.UNFAITHFUL_QUOTE, None),  # an article, of which it is no quote
        ("PMID: 7", Hallucination.FOREIGN_PMID, None),
        ("PMID: PMC123", Hallucination.FOREIGN_PMID, ReportProblem.BAD_PMID),
        ("PMID: 19882794, 7169286", Hallucination.FOREIGN_PMID, ReportProblem.BAD_PMID),
    ],
)
def test_3_an_odd_pmid_matches_exactly_or_not_at_all(
    line: str, found: Hallucination | None, problem: ReportProblem | None
) -> None:
    quote = "Bleeding was more frequent in those over 80 years."
    parsed = parse_report(f'**Supporting Evidence:**\n- {line}\n  Top Sentence: "{quote}"')
    (item,) = parsed.report.supporting
    assert hallucination(item, RETRIEVED) is found
    about_evidence = {ReportProblem.BAD_PMID, ReportProblem.MISSING_QUOTE, ReportProblem.STRAY_TEXT}
    assert {e.problem for e in parsed.errors} & about_evidence == ({problem} - {None})


# --- 4. queries: what the index makes of them, and whether R_search counts them --------------

LONG_LIST = " OR ".join(["aspirin", *(f"drug{n:04}" for n in range(331))]).ljust(4_000, "x")


@pytest.mark.parametrize(
    ("query", "outcome", "is_boolean"),
    [
        ("IL-6 AND TNF-α", {"19882794"}, True),
        ("covid-19 NOT (children OR infant*)", set(), True),  # by the OR in it, not by its NOT
        ("covid-19 NOT child*", {"6"}, False),
        ("vitamin D[tiab]", {"6"}, False),
        ("(asthma AND", QueryProblem.MISSING_OPERAND, True),
        ("AND", QueryProblem.MISSING_OPERAND, True),
        ("", QueryProblem.EMPTY, False),
        ('"a AND b"', set(), False),
        ("aspirin and stroke", set(), False),
        ("aspirin AND mortality", {"19882794"}, True),
        (LONG_LIST, {"19882794"}, True),
        (f"{LONG_LIST}x", QueryProblem.TOO_LONG, True),
    ],
)
def test_4_a_query_finds_or_is_a_named_error_and_counts_as_one_search_either_way(
    local: LocalSearch, query: str, outcome: set[str] | QueryProblem, is_boolean: bool
) -> None:
    found = local.search(query)
    if isinstance(outcome, QueryProblem):
        assert isinstance(found, QueryError)
        assert found.problem is outcome
        assert found.message
    else:
        assert isinstance(found, SearchResult)
        assert set(found.pmids) == outcome
        assert found.count == len(outcome)
    assert search_reward([query]) == float(is_boolean)
    assert search_reward([query, "aspirin"]) == float(is_boolean) / 2


# --- 5. reports with odd evidence ------------------------------------------------------------

QUOTE = "Aspirin did not reduce mortality overall"
PIECE = Evidence(pmid=TRIAL.pmid, quote=QUOTE)


@pytest.mark.parametrize(
    ("report", "s", "reward", "quality", "flags"),
    [
        pytest.param(Report(verdict=SUPPORTED), 0.9, 0.0, None, set(), id="no evidence"),
        pytest.param(
            Report(verdict=SUPPORTED, supporting=(PIECE,) * 5),
            0.9,
            0.9 * 0.9932620530009145,
            0.9,
            {EvidenceFlag.DUPLICATE_PMID},
            id="one PMID five times",
        ),
        pytest.param(
            Report(verdict=SUPPORTED, supporting=(PIECE,), refuting=(PIECE,)),
            0.9,
            2 * 0.9 * 0.6321205588285577,
            0.9,
            {EvidenceFlag.BOTH_SIDES, EvidenceFlag.PAID_AGAINST_VERDICT},
            id="one PMID on both sides",
        ),
        pytest.param(
            Report(verdict=SUPPORTED, refuting=(PIECE,)),
            0.9,
            0.9 * 0.6321205588285577,
            None,
            {EvidenceFlag.PAID_AGAINST_VERDICT},
            id="evidence only against the verdict",
        ),
        pytest.param(
            Report(verdict=SUPPORTED, supporting=(PIECE,)), 0.5, 0.0, 0.5, set(), id="s is one half"
        ),
        pytest.param(
            Report(verdict=SUPPORTED, supporting=(PIECE,)),
            0.5000001,
            0.5000001 * 0.6321205588285577,
            0.5000001,
            set(),
            id="s just above one half",
        ),
        pytest.param(
            Report(verdict=UNKNOWN, supporting=(PIECE,)),
            0.9,
            0.9 * 0.6321205588285577,
            None,
            set(),
            id="evidence without a side to take",
        ),
    ],
)
def test_5_odd_evidence_is_paid_as_published_and_flagged(
    report: Report, s: float, reward: float, quality: float | None, flags: set[EvidenceFlag]
) -> None:
    scorer = TableScorer({(CLAIM, TRIAL.pmid): dict.fromkeys(Verdict, s)})
    judged = judge_report(report, CLAIM, RETRIEVED, scorer)
    assert evidence_reward(judged) == pytest.approx(reward, abs=1e-12)
    assert hallucination_rate(judged) == 0.0
    mean = evidence_quality([judged])
    assert mean.value == (None if quality is None else pytest.approx(quality))
    assert (mean.n, mean.skipped) == ((0, 1) if quality is None else (1, 0))
    assert set(audit_evidence(judged).flags) == flags
