from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.errors import InvalidArgument
from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.report import Evidence, Report
from clinical_envs.factcheck.rewards import (
    FactCheckReward,
    Hallucination,
    JudgedEvidence,
    JudgedReport,
    TableScorer,
    composite_evidence_reward,
    evidence_reward,
    fact_check_reward,
    hallucination,
    hallucination_rate,
    judge_report,
    search_reward,
)
from clinical_envs.factcheck.verdict import Verdict

SUPPORTED, REFUTED = Verdict.SUPPORTED, Verdict.REFUTED
_probabilities = st.floats(0, 1)
_causes = st.none() | st.sampled_from(Hallucination)
_pieces = st.builds(
    JudgedEvidence,
    evidence=st.builds(Evidence, pmid=st.sampled_from("123"), quote=st.just("")),
    side=st.sampled_from([SUPPORTED, REFUTED]),
    score=_probabilities,
    hallucination=_causes,
)
_judged = st.builds(
    JudgedReport,
    verdict=st.none() | st.sampled_from(Verdict),
    evidence=st.lists(_pieces, max_size=10).map(tuple),
)


def judged(
    supporting: Sequence[float],
    refuting: Sequence[float] = (),
    *,
    verdict: Verdict = SUPPORTED,
    hallucinated: int = 0,
) -> JudgedReport:
    sides = [(SUPPORTED, s) for s in supporting] + [(REFUTED, s) for s in refuting]
    return JudgedReport(
        verdict=verdict,
        evidence=tuple(
            JudgedEvidence(
                evidence=Evidence(pmid=str(i + 1), quote=""),
                side=side,
                score=score,
                hallucination=Hallucination.FOREIGN_PMID if i < hallucinated else None,
            )
            for i, (side, score) in enumerate(sides)
        ),
    )


BOOLEAN = ["a AND b", "c OR d"]


def test_golden_right_verdict_with_one_of_three_pieces_hallucinated() -> None:
    # Closed form: (2/3)/2 + .9/2 (1-e^-2) + .8 (1-e^-1) - 1/3 + 1.
    reward = fact_check_reward(
        judged([0.9, 0.4], [0.8], hallucinated=1), truth=SUPPORTED, queries=[*BOOLEAN, "e"]
    )
    assert composite_evidence_reward([0.9, 0.4]) == pytest.approx(0.389099, abs=5e-7)
    assert composite_evidence_reward([0.8]) == pytest.approx(0.505696, abs=5e-7)
    assert reward.hallucination == pytest.approx(1 / 3)
    assert reward.total == pytest.approx(1.894796, abs=5e-7)


def test_golden_wrong_verdict_with_two_sided_evidence_beats_an_honest_right_one() -> None:
    padded = fact_check_reward(judged([0.95] * 4, [0.95] * 4), truth=REFUTED, queries=BOOLEAN)
    honest = fact_check_reward(judged([0.95] * 2), truth=SUPPORTED, queries=BOOLEAN)
    assert padded.outcome == 0.0
    assert padded.evidence == pytest.approx(1.865, abs=5e-4)
    assert padded.total == pytest.approx(2.365, abs=5e-4)
    assert honest.total == pytest.approx(2.321, abs=5e-4)
    assert padded.total > honest.total


@pytest.mark.parametrize(
    ("scores", "reward"),
    [
        ([], 0.0),
        ([0.5], 0.0),
        ([0.5, 0.5, 0.5], 0.0),
        ([math.nextafter(0.5, 1)], 0.5 * 0.6321),
        ([0.9], 0.569),
        ([0.9, 0.9], 0.778),
        ([0.9, 0.9, 0.51], 0.732),
        ([0.9, 0.51], 0.610),
    ],
)
def test_golden_composite_evidence_rewards(scores: list[float], reward: float) -> None:
    assert composite_evidence_reward(scores) == pytest.approx(reward, abs=5e-4)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_golden_saturation_in_the_number_of_pieces(n: int) -> None:
    published = [0.6321, 0.8647, 0.9502, 0.9817, 0.9933]
    assert composite_evidence_reward([1.0] * n) == pytest.approx(published[n - 1], abs=5e-5)


@given(_judged, st.sampled_from(Verdict), st.lists(st.text(), max_size=5))
def test_every_part_and_the_total_stay_in_their_published_ranges(
    report: JudgedReport, truth: Verdict, queries: list[str]
) -> None:
    for dedupe in (False, True):
        reward = fact_check_reward(report, truth=truth, queries=queries, dedupe=dedupe)
        assert reward.outcome in (0.0, 1.0)
        assert 0.0 <= reward.search <= 1.0
        assert 0.0 <= reward.evidence < 2.0
        assert 0.0 <= reward.hallucination <= 1.0
        assert -1.0 <= reward.total < 3.5


@given(_judged)
def test_the_order_of_the_evidence_does_not_matter(report: JudgedReport) -> None:
    turned = JudgedReport(verdict=report.verdict, evidence=report.evidence[::-1])
    assert evidence_reward(turned) == pytest.approx(evidence_reward(report))
    assert hallucination_rate(turned) == hallucination_rate(report)


@given(st.lists(_probabilities, max_size=6), st.floats(0, 0.5))
def test_a_piece_at_or_below_one_half_never_pays(scores: list[float], weak: float) -> None:
    padded = composite_evidence_reward([*scores, weak])
    assert padded <= composite_evidence_reward(scores) + 1e-12


def test_the_share_of_boolean_searches() -> None:
    assert search_reward([]) == 0.0
    assert search_reward(["a AND b", '"a AND b"', "a NOT b", "a and b"]) == 0.25
    assert search_reward(["a OR b"] * 5) == 1.0


def test_the_total_weighs_the_parts_as_published() -> None:
    parts = {"outcome": 1.0, "search": 0.5, "evidence": 0.25, "hallucination": 0.125}
    assert FactCheckReward(**parts).total == 1.0 + 0.25 + 0.25 - 0.125


def test_deduping_pays_a_pmid_once_in_a_section_and_is_off_unless_asked_for() -> None:
    def piece(pmid: str, side: Verdict, score: float) -> JudgedEvidence:
        evidence = Evidence(pmid=pmid, quote="")
        return JudgedEvidence(evidence=evidence, side=side, score=score, hallucination=None)

    report = JudgedReport(
        verdict=SUPPORTED,
        evidence=(*[piece("1", SUPPORTED, 0.9)] * 5, piece("1", REFUTED, 0.6)),
    )
    five, one = composite_evidence_reward([0.9] * 5), composite_evidence_reward([0.9])
    other = composite_evidence_reward([0.6])
    assert evidence_reward(report) == pytest.approx(five + other)
    assert evidence_reward(report, dedupe=True) == pytest.approx(one + other)


CLAIM = "Aspirin reduces mortality after stroke."
QUOTE = "Aspirin did not reduce mortality (HR 0.98, 95% CI 0.91-1.06)."
TABLE = TableScorer(
    {(CLAIM, "101"): {SUPPORTED: 0.05, REFUTED: 0.9}, (CLAIM, "102"): {SUPPORTED: 0.09}}
)


def test_a_report_is_judged_against_what_was_retrieved(articles: tuple[Article, ...]) -> None:
    retrieved = {article.pmid: article for article in articles[:2]}
    report = Report(
        verdict=REFUTED,
        supporting=(
            Evidence(pmid="102", quote="Children were never studied."),
            Evidence(pmid="103", quote="Vitamin D supplements prevented wheeze"),
            Evidence(pmid="6", quote=QUOTE),
            Evidence(pmid="101, 102", quote=QUOTE),
            Evidence(pmid="101", quote=""),
        ),
        refuting=(Evidence(pmid="101", quote=QUOTE),),
    )
    judged_report = judge_report(report, CLAIM, retrieved, TABLE)
    assert judged_report.verdict is REFUTED
    assert [(item.side, item.score, item.hallucination) for item in judged_report.evidence] == [
        (SUPPORTED, 0.09, Hallucination.UNFAITHFUL_QUOTE),
        (SUPPORTED, 0.0, Hallucination.FOREIGN_PMID),
        (SUPPORTED, 0.0, Hallucination.FOREIGN_PMID),
        (SUPPORTED, 0.0, Hallucination.FOREIGN_PMID),
        (SUPPORTED, 0.05, Hallucination.UNFAITHFUL_QUOTE),
        (REFUTED, 0.9, None),
    ]


@pytest.mark.parametrize(
    ("words_in_source", "cause"), [(17, None), (16, Hallucination.UNFAITHFUL_QUOTE)]
)
def test_a_quote_needs_seventeen_of_twenty_words(
    words_in_source: int, cause: Hallucination | None
) -> None:
    quote = " ".join(f"w{i}" for i in range(20))
    source = " ".join(f"w{i}" for i in range(words_in_source))
    retrieved = {"1": Article(pmid="1", abstract=source)}
    assert hallucination(Evidence(pmid="1", quote=quote), retrieved) is cause


def test_golden_foreign_pmids_of_the_worked_example() -> None:
    # Published: 8 items, the PMIDs 33953077 and 6 were not retrieved, two scores below 1/2.
    pmids = ("19882794", "7169286", "33953077", "6", "2000005", "2000006", "2000007", "2000008")
    scores = dict(zip(pmids, (0.9, 0.8, 0.0, 0.0, 0.09, 0.05, 0.7, 0.6), strict=True))
    retrieved = {
        pmid: Article(pmid=pmid, abstract=f"Abstract of paper {pmid}.")
        for pmid in pmids
        if pmid not in ("33953077", "6")
    }
    report = Report(
        verdict=SUPPORTED,
        supporting=tuple(Evidence(pmid=p, quote=f"Abstract of paper {p}.") for p in pmids),
    )
    scorer = TableScorer({("c", pmid): {SUPPORTED: score} for pmid, score in scores.items()})
    judged_report = judge_report(report, "c", retrieved, scorer)
    assert hallucination_rate(judged_report) == 0.25
    expected = (0.9 + 0.8 + 0.7 + 0.6) / 8 * (1 - math.exp(-8))
    assert evidence_reward(judged_report) == pytest.approx(expected)


def test_a_scorer_without_an_entry_or_without_a_probability_is_refused(
    articles: tuple[Article, ...],
) -> None:
    report = Report(verdict=SUPPORTED, supporting=(Evidence(pmid="101", quote=QUOTE),))
    retrieved = {"101": articles[0]}
    with pytest.raises(InvalidArgument, match="no score of SUPPORTED for PMID 101"):
        judge_report(report, "another claim", retrieved, TABLE)
    for score in (1.5, -0.1, math.nan):
        scorer = TableScorer({(CLAIM, "101"): {SUPPORTED: score}})
        with pytest.raises(InvalidArgument, match="the scorer gave"):
            judge_report(report, CLAIM, retrieved, scorer)
