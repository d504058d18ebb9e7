"""Exploitation, agreement, taxonomy and the split of presence and absence."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.rubric.verifiers import Leniency
from oracles.reward_audit.agreement import agreement, audit_agreement
from oracles.reward_audit.exploitation import (
    audit_exploitation,
    exploitation_rate,
    taxonomy,
    windows,
)
from oracles.reward_audit.findings import Status
from oracles.reward_audit.presence import audit_presence, satisfaction
from oracles.reward_audit.records import JudgmentRow

bits = st.lists(st.booleans(), min_size=4, max_size=4)


def row(step, training, panel=(False,) * 3, *, prompt=0, criterion=0, **other):
    return JudgmentRow(
        step=step, prompt=prompt, criterion=criterion, training=training, panel=list(panel), **other
    )


def test_golden_exploitation_rate_of_section_g():
    weights, before, after, denied = (2, 1, 1, 3), (0, 1, 0, 0), (1, 1, 0, 1), (1, 1, 0, 0)
    assert exploitation_rate(weights, before, after, denied) == pytest.approx(0.4)
    rows = []
    for criterion, w in enumerate(weights):
        for step, seen in ((0, before), (25, after)):
            panel = [not denied[criterion]] * 3
            rows.append(row(step, bool(seen[criterion]), panel, criterion=criterion, weight=w))
    (window,), _ = windows(rows)
    assert window.rate == pytest.approx(0.4)
    assert [one.criterion for one in window.exploits] == [0]


@given(bits, bits, bits, st.lists(st.floats(-5, 5), min_size=4, max_size=4))
def test_the_rate_of_rows_is_the_rate_of_arrays_and_lies_between_0_and_1(was, now, denied, weights):
    rows = []
    for i, weight in enumerate(weights):
        credited = [value == (weight >= 0) for value in (was[i], now[i], not denied[i])]
        rows += [
            row(0, credited[0], criterion=i, weight=weight),
            row(25, credited[1], [credited[2]] * 3, criterion=i, weight=weight),
        ]
    (window,), _ = windows(rows)
    expected = exploitation_rate(weights, was, now, denied)
    assert (window.rate is None) == (expected is None)
    if expected is not None:
        assert window.rate == pytest.approx(expected)
        assert 0 <= window.rate <= 1


def test_a_window_without_gains_has_no_rate():
    (window,), _ = windows([row(0, True), row(25, True)])
    assert window.rate is None
    assert exploitation_rate([1], [1], [1], [1]) is None


def test_a_criterion_credited_lost_and_credited_again_counts_twice():
    found, _ = windows([row(step, step % 50 == 25) for step in range(0, 100, 25)])
    assert sum(len(window.exploits) for window in found) == 2


def test_a_window_across_a_missing_checkpoint_is_left_out_and_counted():
    found, left_out = windows([row(step, False) for step in (0, 25, 50, 100, 125)])
    assert [(one.start, one.stop) for one in found] == [(0, 25), (25, 50), (100, 125)]
    assert left_out == 1


def test_a_failed_judge_leaves_the_criterion_unscored_unless_another_settles_it():
    (open_case,), _ = windows([row(0, False), row(25, True, (False, False, None))])
    (settled,), _ = windows([row(0, False), row(25, True, (True, False, None))])
    (unjudged,), _ = windows([row(0, False), row(25, True, ())])
    (unseen,), _ = windows([row(0, None), row(25, True)])
    assert [one.unscored for one in (open_case, settled, unjudged, unseen)] == [1, 0, 1, 1]
    assert settled.rate == 0
    assert open_case.rate is None


def test_a_criterion_recorded_at_one_end_only_is_counted():
    (window,), _ = windows([row(0, False), row(25, True), row(25, True, criterion=1)])
    assert window.absent == 1


def test_the_taxonomy_counts_exploits_by_cause():
    found = taxonomy(
        [row(0, True, cause=Leniency.MISSING_CONJUNCT)] * 2
        + [row(0, True), row(0, True, cause=Leniency.TOPICAL_ALIGNMENT)]
    )
    assert found == {"A.1": 2, "C.2": 1, "unclassified": 1}


def test_one_checkpoint_or_few_prompts_skip_exploitation():
    single = [row(0, True, prompt=prompt) for prompt in range(50)]
    few = [row(step, step > 0, prompt=prompt) for step in (0, 25, 50) for prompt in range(5)]
    for rows, n in ((single, 50), (few, 5)):
        for finding in audit_exploitation("v", rows):
            assert (finding.verdict, finding.n) == (Status.SKIPPED, n)


@given(st.lists(st.tuples(st.sampled_from([True, False, None]), bits), max_size=12))
def test_agreement_false_positives_and_false_negatives_are_shares_of_one_whole(pairs):
    found = agreement(pairs)
    assert found.scored + found.unscored == len(pairs)
    if found.scored:
        assert found.agreement + found.false_positive + found.false_negative == pytest.approx(1)
    else:
        assert found.agreement is None


def test_the_agreement_audit_flags_a_poor_verifier_and_clears_a_good_one():
    generator = np.random.default_rng(0)
    for error, verdict in ((0.30, Status.FLAG), (0.03, Status.CLEAR)):
        rows = [
            row(0, bool(generator.random() < error), prompt=prompt, criterion=criterion)
            for prompt in range(60)
            for criterion in range(8)
        ]
        finding = audit_agreement("v", rows)
        assert finding.verdict is verdict
        assert "false negatives 0.000" in finding.evidence


def test_a_prompt_without_a_demand_is_skipped_there_and_not_counted_as_0():
    rows = [
        row(0, True, demand="presence"),
        row(0, False, criterion=1, demand="presence"),
        row(0, True, prompt=1, demand="absence"),
        row(0, None, prompt=2, demand="presence"),
    ]
    assert satisfaction(rows, "presence", {0}) == {0: 0.5}
    assert satisfaction(rows, "absence", {0}) == {1: 1.0}


def test_satisfaction_of_a_negative_weight_is_not_meeting_it():
    assert satisfaction([row(0, False, weight=-1.0, demand="absence")], "absence", {0}) == {0: 1.0}


def test_presence_gaming_needs_both_demands_and_two_phases():
    def rows(steps, demands):
        return [
            row(step, step > 0, prompt=prompt, criterion=demand, demand=demand)
            for step in steps
            for prompt in range(30)
            for demand in demands
        ]

    assert audit_presence("v", rows([0], ["presence", "absence"])).verdict is Status.SKIPPED
    assert audit_presence("v", rows([0, 25], ["presence"])).verdict is Status.SKIPPED
    both = audit_presence("v", rows([0, 25], ["presence", "absence"]))
    assert (both.verdict, both.value) == (Status.CLEAR, 0.0)
