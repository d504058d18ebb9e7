"""The splitter and the cue reader: total on any text, right on the hard sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.checkedqa.claims import claims, sentences
from clinical_envs.checkedqa.cues import overlap, quantities_conflict, read_cues


@given(st.text())
def test_the_splitter_accepts_any_text_and_loses_no_letter(text):
    joined = "".join("".join(sentences(text)).split())
    assert [c for c in joined if c.isalpha()] == [c for c in text if c.isalpha()]
    assert all(any(c.isalpha() for c in claim) for claim in claims(text))


@given(st.text(), st.text())
def test_cues_accept_any_text(one, other):
    asked, found = read_cues(one), read_cues(other)
    assert 0 <= overlap(asked, found) <= 1
    assert asked.direction in (-1, 0, 1)
    assert not quantities_conflict(asked, asked)


@pytest.mark.parametrize("empty", ["", "   ", "...", "123. 456!", "Is it safe?", "***\n---"])
def test_an_answer_that_asserts_nothing_has_no_claims(empty):
    assert claims(empty) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The dose was 0.5 mg vs. 1.5 mg. It worked.", 2),
        ("E. coli was found in 3.2 % of cases.", 1),
        ("阿司匹林有效。没有出血！", 2),
        ("아스피린은 효과가 있다. 출혈은 없다.", 2),
        ("It cures; it harms, but it helps.", 3),
    ],
)
def test_claims_are_counted_in_any_script(text, expected):
    assert len(claims(text)) == expected


def test_units_are_converted_before_they_are_compared():
    five_mg = read_cues("a dose of 5 mg")
    assert not quantities_conflict(five_mg, read_cues("a dose of 0.005 g"))
    assert quantities_conflict(five_mg, read_cues("a dose of 5 g"))
    assert not quantities_conflict(read_cues("over 2 weeks"), read_cues("over 14 days"))


def test_the_number_of_a_name_is_no_quantity():
    assert read_cues("IL-6 and COVID-19 in TNF2").quantities == frozenset()
    assert read_cues("from 5-10 mg").quantities == {("", 5.0), ("mass", 0.01)}


def test_two_negations_cancel_and_missing_evidence_is_no_negation():
    assert not read_cues("it is not without risk").negated
    found = read_cues("no evidence that it does not help")
    assert found.no_evidence
    assert found.negated
