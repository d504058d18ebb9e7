"""Criteria, the strict and the weak verifier, and the panel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.errors import InvalidArgument
from clinical_envs.rubric.consensus import majority
from clinical_envs.rubric.criteria import (
    AllOf,
    AtLeast,
    Avoids,
    Claim,
    Concept,
    Explains,
    Item,
    Names,
    States,
)
from clinical_envs.rubric.verifiers import (
    STRICT,
    WEAK,
    Leniency,
    judge,
    judge_rubric,
    lets_pass,
    panel_votes,
)


def concept(name, group="g", topic="t"):
    return Concept(id=name, group=group, topic=topic)


CONCEPTS = [concept(f"c{i}", group=f"g{i % 3}", topic=f"t{i % 2}") for i in range(6)]
ASPIRIN = concept("aspirin", "antiplatelets", "stroke")
CLOPIDOGREL = concept("clopidogrel", "antiplatelets", "stroke")
THROMBOLYSIS = concept("thrombolysis", "reperfusion", "stroke")
FEVER, RASH, COUGH = (concept(name) for name in ("fever", "rash", "cough"))

some = st.lists(st.sampled_from(CONCEPTS), min_size=2, max_size=4, unique=True).map(tuple)
one = st.sampled_from(CONCEPTS)
criteria = st.one_of(
    some.map(AllOf),
    some.flatmap(lambda cs: st.integers(1, len(cs)).map(lambda n: AtLeast(n, cs))),
    one.map(States),
    one.map(Explains),
    one.map(Names),
    one.map(Avoids),
)
answers = st.lists(
    st.builds(Claim, concept=one, explicit=st.booleans(), reasoned=st.booleans()), max_size=5
)
switches = st.frozensets(st.sampled_from(Leniency))


@given(criteria, answers, switches)
def test_leniency_only_adds_and_every_addition_has_its_cause(criterion, answer, on):
    strict, weak = judge(criterion, answer, STRICT), judge(criterion, answer, on)
    assert strict.owed_to is None
    assert weak.met >= strict.met
    assert (weak.owed_to is not None) == (weak.met and not strict.met)
    if weak.owed_to is not None:
        assert weak.owed_to in on
        assert lets_pass(weak.owed_to, criterion, answer)


@given(criteria, answers, switches)
def test_switching_off_the_named_cause_and_wider_ones_takes_the_credit_away(criterion, answer, on):
    weak = judge(criterion, answer, on)
    if weak.owed_to is not None:
        wider = {weak.owed_to, Leniency.TOPICAL_ALIGNMENT}
        assert not judge(criterion, answer, on - wider).met


@given(criteria, answers, st.randoms())
def test_the_order_of_claims_does_not_matter(criterion, answer, shuffler):
    shuffled = list(answer)
    shuffler.shuffle(shuffled)
    assert judge(criterion, shuffled, WEAK) == judge(criterion, answer, WEAK)


@pytest.mark.parametrize(
    ("cause", "criterion", "answer"),
    [
        ("A.1", AllOf((FEVER, RASH)), [Claim(concept=FEVER)]),
        ("A.2", AtLeast(3, (FEVER, RASH, COUGH)), [Claim(concept=FEVER), Claim(concept=RASH)]),
        ("B.1", States(FEVER), [Claim(concept=FEVER, explicit=False)]),
        ("B.2", Explains(FEVER), [Claim(concept=FEVER)]),
        ("C.1", Names(ASPIRIN), [Claim(concept=CLOPIDOGREL)]),
        ("C.2", Names(ASPIRIN), [Claim(concept=THROMBOLYSIS)]),
    ],
)
def test_each_leniency_has_its_exploit_and_no_other_switch_allows_it(cause, criterion, answer):
    leniency = Leniency(cause)
    assert not judge(criterion, answer).met
    assert judge(criterion, answer, {leniency}).owed_to is leniency
    assert judge(criterion, answer, WEAK).owed_to is leniency
    others = WEAK - {leniency, Leniency.TOPICAL_ALIGNMENT}
    assert not judge(criterion, answer, others).met


def test_such_as_is_met_by_one_example():
    assert judge(AtLeast(1, (FEVER, RASH, COUGH)), [Claim(concept=COUGH)]).met


def test_a_prohibition_is_met_by_silence_and_read_literally_by_the_weak_verifier():
    off_topic = [Claim(concept=FEVER)]
    assert judge(Avoids(ASPIRIN), off_topic) == judge(Avoids(ASPIRIN), off_topic, WEAK)
    assert judge(Avoids(ASPIRIN), off_topic).met
    assert not judge(Avoids(ASPIRIN), [Claim(concept=ASPIRIN, explicit=False)], WEAK).met


def test_naming_one_symptom_twice_lists_one():
    assert not judge(AtLeast(2, (FEVER, RASH)), [Claim(concept=FEVER)] * 2).met


def test_criteria_that_ask_for_nothing_or_too_much_are_refused():
    with pytest.raises(InvalidArgument, match="two different"):
        AllOf((FEVER, FEVER))
    for number in (0, 3):
        with pytest.raises(InvalidArgument, match="AtLeast"):
            AtLeast(number, (FEVER, RASH))


RUBRIC = [
    Item(name="states fever", weight=2, criterion=States(FEVER)),
    Item(name="no aspirin", weight=-1, criterion=Avoids(ASPIRIN)),
]


def test_a_panel_without_noise_repeats_the_strict_verdicts():
    answer = [Claim(concept=FEVER)]
    votes = panel_votes(RUBRIC, answer, np.random.default_rng(0), flip_probability=0)
    assert [set(row) for row in votes] == [{one.met} for one in judge_rubric(RUBRIC, answer)]


def test_panel_noise_is_seeded_independent_and_of_the_stated_size():
    rubric = RUBRIC[:1] * 20_000
    answer = [Claim(concept=FEVER)]
    votes = np.array(panel_votes(rubric, answer, np.random.default_rng(3), flip_probability=0.1))
    again = np.array(panel_votes(rubric, answer, np.random.default_rng(3), flip_probability=0.1))
    assert (votes == again).all()
    wrong = ~votes
    # six standard errors of a share of .1 and of .01 in 20,000
    assert wrong.mean(axis=0) == pytest.approx([0.1] * 3, abs=0.013)
    assert (wrong[:, 0] & wrong[:, 1]).mean() == pytest.approx(0.01, abs=0.0043)
    assert np.mean([not majority(list(row)) for row in votes]) == pytest.approx(0.028, abs=0.007)


def test_a_panel_of_nobody_is_refused():
    with pytest.raises(InvalidArgument, match="0 judges"):
        panel_votes(RUBRIC, [], np.random.default_rng(0), judges=0)
