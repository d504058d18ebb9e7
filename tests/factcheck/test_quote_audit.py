from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.factcheck.corpus import Article, LabelledClaim
from clinical_envs.factcheck.quote_audit import Distortion, audit_quote
from clinical_envs.factcheck.rewards import MIN_PRECISION
from clinical_envs.factcheck.rouge import rouge_l_precision, words

EDITED, NEGATION = Distortion.EDITED, Distortion.NEGATION
NUMBER, GLUED = Distortion.NUMBER, Distortion.GLUED

SOURCE = (
    "BACKGROUND: Aspirin is widely used after stroke, and its effect on survival isn't known.\n"
    "RESULTS: Among 412 adults who were followed for 2–3 years, aspirin did not reduce all-cause "
    "mortality compared with placebo (HR 0.98, 95% CI 0.91 to 1.06; p > 0.05). "
    "Bleeding in the stomach was more frequent with aspirin than with placebo. "
    "The mean change in the score was −0.5 points, without a difference between the groups."
)


@pytest.mark.parametrize(
    "quote",
    [
        "Among 412 adults who were followed for 2–3 years, aspirin did not reduce all-cause "
        "mortality compared with placebo (HR 0.98, 95% CI 0.91 to 1.06; p > 0.05).",
        "aspirin DID NOT reduce all cause mortality",
        "followed for 2-3 years",
        "Aspirin is widely used after stroke, and its effect on survival is not known",
        "p > 0.05). Bleeding in the stomach was more frequent",
        "The mean change in the score was -0.5 points",
    ],
)
def test_a_contiguous_excerpt_is_never_flagged(quote: str) -> None:
    audit = audit_quote(quote, SOURCE)
    assert audit.precision >= MIN_PRECISION
    assert not audit.quote_distorted


@given(st.integers(0, 400), st.integers(1, 400))
def test_no_excerpt_between_spaces_is_flagged(start: int, length: int) -> None:
    pieces = SOURCE.split(" ")
    excerpt = " ".join(pieces[start % len(pieces) :][:length])
    assert audit_quote(excerpt, SOURCE).distortions == ()


@pytest.mark.parametrize(
    ("quote", "distortions"),
    [
        ("aspirin did reduce all-cause mortality compared with placebo", (EDITED, NEGATION)),
        (
            "Aspirin is widely used after stroke, and its effect on survival is known",
            (EDITED, NEGATION),
        ),
        ("points, with a difference between the groups in the score", ()),  # rejected by the rule
        (
            "Bleeding in the stomach was not more frequent with aspirin than with placebo",
            (EDITED, NEGATION),
        ),
        (
            "aspirin did not reduce all-cause mortality compared with placebo "
            "(HR 0.58, 95% CI 0.91 to 1.06; p > 0.05)",
            (EDITED, NUMBER),
        ),
        (
            "mortality compared with placebo (HR 0.98, 95% CI 0.91 to 1.06; p < 0.05)",
            (EDITED, NUMBER),
        ),
        ("The mean change in the score was 0.5 points", (EDITED, NUMBER)),
        (
            "912 adults who were followed for 2-3 years, aspirin did not reduce",
            (EDITED, NUMBER),
        ),
        (
            "Among 412 adults who were followed for 2-3 years bleeding was more frequent with "
            "aspirin than with placebo",
            (EDITED, GLUED),
        ),
        ("Bleeding in the stomach was frequent with aspirin than with placebo", (EDITED,)),
        ("Mortality improved in nearly everyone who took the drug", ()),
        ("", ()),
    ],
)
def test_a_distortion_that_the_rule_lets_pass_is_named(
    quote: str, distortions: tuple[Distortion, ...]
) -> None:
    assert audit_quote(quote, SOURCE).distortions == distortions


def test_golden_precision_of_distorted_quotes() -> None:
    dropped = audit_quote("aspirin did reduce all-cause mortality", SOURCE)
    assert dropped.precision == 1.0
    assert dropped.quote_distorted
    changed = audit_quote(
        "Among 412 adults who were followed for 2-3 years, aspirin did not reduce all-cause "
        "mortality compared with placebo (HR 0.58, 95% CI",
        SOURCE,
    )
    assert changed.precision == pytest.approx(0.96, abs=0.005)
    assert changed.quote_distorted


def test_random_ordered_selections_of_words_all_pass_the_rule_and_are_all_flagged(
    pubmedqa: tuple[tuple[Article, ...], tuple[LabelledClaim, ...]],
) -> None:
    # Measured for the paper's rule: 300 of 300 selections of 20 words pass.
    generator = np.random.default_rng(7)
    long_enough = [article for article in pubmedqa[0] if len(words(article.text)) >= 100]
    for article in long_enough[:300]:
        text = article.text.split()
        picked = sorted(generator.choice(len(text), size=20, replace=False))
        audit = audit_quote(" ".join(text[i] for i in picked), article.text)
        assert audit.precision == 1.0
        assert audit.quote_distorted
    assert len(long_enough) >= 300


def test_a_sentence_of_another_abstract_never_passes_the_rule(
    pubmedqa: tuple[tuple[Article, ...], tuple[LabelledClaim, ...]],
) -> None:
    corpus = pubmedqa[0][:300]
    for article, other in pairwise(corpus):
        sentence = max(other.text.split(". "), key=len)
        assert rouge_l_precision(sentence, article.text) < MIN_PRECISION


def test_whole_sentences_of_real_abstracts_are_not_flagged(
    pubmedqa: tuple[tuple[Article, ...], tuple[LabelledClaim, ...]],
) -> None:
    sentences = [(s, a.text) for a in pubmedqa[0][:300] for s in a.text.split(". ") if words(s)]
    assert len(sentences) > 1_000
    assert not [s for s, text in sentences if audit_quote(s, text).quote_distorted]
