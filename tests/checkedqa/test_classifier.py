"""The calibrated classifier on the project's pairs and, where they lie, on PubMedQA's."""

import json

import numpy as np
import pytest

from clinical_envs.checkedqa.checkers import LABELS, Label, RuleChecker
from clinical_envs.checkedqa.classifier import (
    FEATURES,
    calibration_error,
    cross_validate,
    default_classifier,
    features,
    fit,
)
from clinical_envs.checkedqa.pairs import Pair, pubmedqa_pairs, written_pairs
from clinical_envs.errors import InvalidArgument


def test_written_pairs_are_seeded_and_hold_all_labels():
    pairs = written_pairs(np.random.default_rng(5), 300)
    assert pairs == written_pairs(np.random.default_rng(5), 300)
    shares = [sum(pair.label is label for pair in pairs) / 300 for label in LABELS]
    assert min(shares) > 0.25


def test_both_checkers_solve_unseen_written_pairs():
    unseen = written_pairs(np.random.default_rng(99), 300)
    for checker in (RuleChecker(), default_classifier()):
        right = [checker.check(pair.claim, pair.evidence).label is pair.label for pair in unseen]
        assert np.mean(right) > 0.98


def test_the_classifier_is_deterministic_and_named_by_its_weights():
    pairs = written_pairs(np.random.default_rng(0), 600)
    assert fit(pairs).name == default_classifier().name
    assert fit(pairs[:300]).name != default_classifier().name


def test_features_have_their_names_and_range():
    found = features("Drug X does not help 5 mice", "Drug X may help 7 rats.")
    assert found.shape == (len(FEATURES),)
    assert ((found >= 0) & (found <= 1)).all()


def test_calibration_error_of_known_predictions():
    truth = np.array([0, 0, 1, 1])
    certain = np.eye(3)[[0, 0, 0, 0]]
    assert calibration_error(certain, truth) == pytest.approx(0.5)
    assert calibration_error(np.eye(3)[truth], truth) == 0


def test_the_fit_is_the_optimum_of_its_own_loss():
    # with a constant feature vector the fitted probabilities are the label shares
    pairs = [Pair("a", "b", Label.ENTAIL)] * 60 + [Pair("a", "b", Label.NEUTRAL)] * 40
    probs = fit(pairs).check("a", "b").probs
    assert probs == pytest.approx((0.6, 0.4, 0.0), abs=0.01)


def test_no_pairs_and_too_few_folds_are_refused():
    with pytest.raises(InvalidArgument, match="no pairs"):
        fit([])
    with pytest.raises(InvalidArgument, match="1 folds"):
        cross_validate(written_pairs(np.random.default_rng(0), 10), folds=1)


def test_pubmedqa_is_none_where_absent_and_refused_where_it_is_something_else(tmp_path):
    assert pubmedqa_pairs(tmp_path) is None
    folder = tmp_path / "pubmedqa"
    folder.mkdir()
    for content in ("[]", '{"1": {}}', '{"1": []}', "not json"):
        (folder / "ori_pqal.json").write_text(content)
        with pytest.raises(InvalidArgument, match="is not PubMedQA"):
            pubmedqa_pairs(tmp_path)
    record = {"QUESTION": "q", "LONG_ANSWER": "a", "final_decision": "maybe"}
    (folder / "ori_pqal.json").write_text(json.dumps({"1": record}))
    assert pubmedqa_pairs(tmp_path) == (Pair("q", "a", Label.NEUTRAL),)


def test_pubmedqa_held_out_figures():
    """Reference measurement (evidence.md, 0.8): accuracy .706, majority .552, ECE .023."""
    pairs = pubmedqa_pairs()
    if pairs is None:
        pytest.skip("PubMedQA is not in the data folder; set CLINICAL_ENVS_DATA")
    found = cross_validate(pairs)
    assert found.majority == pytest.approx(0.552)
    assert found.accuracy == pytest.approx(0.706, abs=0.015)
    assert found.calibration_error < 0.04
    # "maybe" is never predicted: seven lexical features cannot see it
    assert found.predicted_shares[1] < 0.01
