from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.factcheck.metrics import label_metrics
from clinical_envs.factcheck.verdict import Verdict
from training.agents.claims_run import CitationRow, Row, SpentRow
from training.agents.pages import Setting
from training.agents.scores import score_rows

SETTING = Setting(
    method="biocheck", policy="scripted", backend="examples", max_tokens=9, cites=True
)
VERDICTS = st.sampled_from([*Verdict, None])


def row(
    number: int,
    label: Verdict | None,
    verdict: Verdict | None,
    *,
    faults: str = "",
    searches: int = 0,
    unscored: str | None = None,
    tokens: int | None = 10,
) -> Row:
    """A row whose citations are written in letters: v verbatim, h hallucinated, d distorted."""
    kinds = {
        "v": CitationRow(hallucination=None, distortions=()),
        "h": CitationRow(hallucination="foreign_pmid", distortions=()),
        "d": CitationRow(hallucination=None, distortions=("edited", "negation")),
    }
    return Row(
        id=str(number),
        claim="gout",
        label=label,
        verdict=verdict,
        setting=SETTING,
        unscored=unscored,
        citations=tuple(kinds[fault] for fault in faults),
        n_searches=searches,
        spent=SpentRow(requests=searches + 1, prompt_tokens=tokens, completion_tokens=tokens),
    )


@given(st.lists(st.tuples(st.sampled_from(Verdict), VERDICTS), max_size=12))
def test_the_values_are_those_of_the_published_label_metrics(
    pairs: list[tuple[Verdict, Verdict | None]],
) -> None:
    expected = label_metrics([truth for truth, _ in pairs], [verdict for _, verdict in pairs])
    scores = score_rows([row(i, truth, verdict) for i, (truth, verdict) in enumerate(pairs)])
    assert (None if scores.accuracy is None else scores.accuracy.value) == (
        expected.accuracy if expected.accuracy is None else pytest.approx(expected.accuracy)
    )
    both_true = expected.macro_f1 is not None
    for name in ("macro_precision", "macro_recall", "macro_f1"):
        found = getattr(scores, name)
        if found is not None:  # a resample may lack a class, and then there is no interval
            assert both_true
            assert found.value == pytest.approx(getattr(expected, name))
            assert found.low - 1e-12 <= found.high


def test_the_golden_labels_of_the_specification() -> None:
    s, r, n = Verdict.SUPPORTED, Verdict.REFUTED, Verdict.NOT_ENOUGH_INFO
    pairs = [(s, s), (s, n), (r, r), (r, s)] * 5
    scores = score_rows([row(i, *pair) for i, pair in enumerate(pairs)])
    values = [
        getattr(scores, name).value
        for name in ("accuracy", "macro_precision", "macro_recall", "macro_f1")
    ]
    assert values == pytest.approx([0.5, 0.75, 0.5, 0.5833], abs=1e-4)
    assert scores.abstained.value == 0.25
    assert scores.accuracy.low < 0.5 < scores.accuracy.high


def test_an_unscored_claim_is_counted_and_stands_in_no_mean() -> None:
    right = row(0, Verdict.REFUTED, Verdict.REFUTED, searches=2)
    lost = row(1, Verdict.REFUTED, None, unscored="NCBI did not answer")
    scores = score_rows([right, lost])
    assert (scores.n, scores.unscored) == (1, 1)
    assert scores.accuracy.value == 1.0
    assert scores.no_verdict.value == 0.0
    assert scores.searches.value == 2.0


def test_a_claim_without_a_verdict_is_scored_as_a_miss() -> None:
    scores = score_rows([row(0, Verdict.REFUTED, None), row(1, Verdict.REFUTED, Verdict.REFUTED)])
    assert scores.accuracy.value == 0.5
    assert scores.no_verdict.value == 0.5


def test_hallucinations_and_distortions_are_shares_of_citations() -> None:
    verdict = Verdict.REFUTED
    faults = ["vvh", "vd", "", "hh"]
    scores = score_rows([row(i, verdict, verdict, faults=f) for i, f in enumerate(faults)])
    assert scores.pieces == 7
    assert scores.hallucinated.value == pytest.approx(3 / 7)
    assert scores.distorted.value == pytest.approx(1 / 7)
    assert scores.reports_hallucinated.value == 0.5


def test_without_citations_or_claims_there_is_no_rate_rather_than_zero() -> None:
    scores = score_rows([row(0, Verdict.REFUTED, Verdict.REFUTED)])
    assert scores.hallucinated is scores.distorted is scores.reports_hallucinated is None
    nothing = score_rows([])
    assert nothing.accuracy is nothing.macro_f1 is nothing.searches is None


def test_tokens_that_one_reply_did_not_count_have_no_total() -> None:
    verdict = Verdict.REFUTED
    known = score_rows([row(0, verdict, verdict), row(1, verdict, verdict)])
    unknown = score_rows([row(0, verdict, verdict), row(1, verdict, verdict, tokens=None)])
    assert (known.prompt_tokens, unknown.prompt_tokens) == (20, None)


def test_claims_without_a_label_count_but_not_in_the_label_metrics() -> None:
    verdict = Verdict.REFUTED
    scores = score_rows([row(0, verdict, verdict, searches=1), row(1, None, verdict, searches=3)])
    assert (scores.n, scores.labelled) == (2, 1)
    assert scores.accuracy.value == 1.0
    assert scores.searches.value == 2.0
    assert score_rows([row(0, None, verdict)]).accuracy is None


def test_a_verdict_that_is_never_given_has_precision_0() -> None:
    labels = [Verdict.SUPPORTED, Verdict.REFUTED] * 10
    scores = score_rows([row(i, label, Verdict.REFUTED) for i, label in enumerate(labels)])
    assert scores.macro_precision.value == 0.25
    assert scores.macro_recall.value == 0.5
