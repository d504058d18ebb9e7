"""Simulated checkers have the confusion matrix they state."""

import numpy as np
import pytest

from clinical_envs.checkedqa.checkers import LABELS, CachedChecker, Label
from clinical_envs.checkedqa.simulated import (
    COLLAPSED,
    GPT_LIKE,
    MODERATE,
    SIMULATED,
    STRONG,
    AnnotatedChecker,
    Confusion,
)
from clinical_envs.errors import InvalidArgument


@pytest.mark.parametrize("confusion", SIMULATED, ids=lambda one: one.name)
def test_drawn_verdicts_follow_the_matrix(confusion):
    n = 40_000
    generator = np.random.default_rng(1)
    for row, truth in enumerate(confusion.rows):
        drawn = np.bincount(confusion.draw(np.full(n, row), False, generator), minlength=3) / n
        # five standard errors of a share in 40,000
        assert drawn == pytest.approx(truth, abs=5 * 0.5 / np.sqrt(n))
    off = np.bincount(confusion.draw(np.zeros(n, int), True, generator), minlength=3) / n
    assert off == pytest.approx(confusion.off_form, abs=5 * 0.5 / np.sqrt(n))


def test_typical_answers_get_the_published_shares():
    """arXiv 2605.25988: support about 0 and neutral above 97 %; 54/30/16; 86/10/4."""
    support, neutral, _ = COLLAPSED.shares()
    assert support < 0.005
    assert neutral > 0.97
    assert MODERATE.shares() == pytest.approx([0.54, 0.30, 0.16], abs=0.005)
    assert STRONG.shares() == pytest.approx([0.86, 0.10, 0.04], abs=0.005)
    assert GPT_LIKE.rows == STRONG.rows


def test_an_annotated_checker_answers_known_pairs_only():
    checker = AnnotatedChecker(MODERATE, {("c", "e"): Label.ENTAIL}, np.random.default_rng(0))
    assert checker.check("c", "e").probs == MODERATE.entail
    with pytest.raises(InvalidArgument, match="no truth"):
        checker.check("other", "e")
    drawn = {checker.check("c", "e").label for _ in range(200)}
    assert drawn == set(LABELS)
    cached = CachedChecker(checker)
    assert len({cached.check("c", "e").label for _ in range(50)}) == 1


def test_a_row_that_is_no_distribution_is_refused():
    good = (1.0, 0.0, 0.0)
    with pytest.raises(InvalidArgument, match="does not sum to 1"):
        Confusion(name="x", entail=good, neutral=good, contradict=(0.5, 0, 0), off_form=good)
