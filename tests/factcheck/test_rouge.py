from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.factcheck.rouge import lcs_length, rouge_l_precision, words

_tokens = st.lists(st.sampled_from("abcd"), max_size=12)


def brute_force_lcs(a: list[str], b: list[str]) -> int:
    @cache
    def longest(i: int, j: int) -> int:
        if i == len(a) or j == len(b):
            return 0
        if a[i] == b[j]:
            return 1 + longest(i + 1, j + 1)
        return max(longest(i + 1, j), longest(i, j + 1))

    return longest(0, 0)


@given(_tokens, _tokens)
def test_the_lcs_is_that_of_the_textbook_recursion(a: list[str], b: list[str]) -> None:
    assert lcs_length(a, b) == brute_force_lcs(a, b) == lcs_length(b, a)


@given(st.text(), st.text())
def test_precision_is_a_share_and_a_text_quotes_itself(quote: str, source: str) -> None:
    assert 0.0 <= rouge_l_precision(quote, source) <= 1.0
    assert rouge_l_precision(source, source) == (1.0 if words(source) else 0.0)


@given(
    st.text(st.characters(codec="ascii")),
    st.text(st.characters(codec="ascii")),
)
def test_on_ascii_text_precision_is_that_of_the_rouge_score_package(
    quote: str, source: str
) -> None:
    rouge_scorer = pytest.importorskip(
        "rouge_score.rouge_scorer", reason="the oracle package rouge-score is not installed"
    )
    scorer = rouge_scorer.RougeScorer(["rougeL"])
    expected = scorer.score(target=source, prediction=quote)["rougeL"].precision
    assert rouge_l_precision(quote, source) == pytest.approx(expected, abs=1e-12)


SOURCE = "Aspirin did not reduce mortality in adults (HR 0.98), unlike TNF-α blockade."


@pytest.mark.parametrize(
    ("quote", "precision"),
    [
        ("Aspirin did not reduce mortality in adults", 1.0),
        ("aspirin DID reduce mortality in adults", 1.0),  # the paper's rule does not see it
        ("", 0.0),
        ("?!", 0.0),
        ("unlike TNF-alpha blockade", 0.75),
        ("阿司匹林没有降低死亡率", 0.0),
        ("阿司匹林 aspirin", 0.5),
        ("Survival was the same with the drug and with placebo in this old trial", 1 / 14),
    ],
)
def test_precision_of_a_quote(quote: str, precision: float) -> None:
    assert rouge_l_precision(quote, SOURCE) == pytest.approx(precision)
