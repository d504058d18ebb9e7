"""The task file of checked question answering, its texts and what the verifier pays for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs import load_task
from clinical_envs.checkedqa.checkers import Label
from clinical_envs.checkedqa.claims import claims
from clinical_envs.checkedqa.measure import gold_labels, rule_labels, utility
from clinical_envs.checkedqa.rewards import token_f1
from clinical_envs.checkedqa.world import OTHER, question, questions
from oracles import gate_1, make_world
from oracles.selftest import selftest

TASK = load_task("checkedqa")
ALL = [asked for family in TASK.family_ids for asked in questions(family)]


def test_task_and_texts_bear_the_same_names():
    for asked in ALL:
        assert tuple(asked.passages) == TASK.finding_ids
        assert set(asked.answers) == set(TASK.decision_ids)
        assert set(asked.gold) == set(TASK.state_ids)


@pytest.mark.parametrize("asked", ALL, ids=lambda asked: asked.text)
def test_the_utilities_of_the_file_are_the_measure_of_the_canonical_texts(asked):
    for state in TASK.state_ids:
        paid = {d: round(utility(asked, state, asked.answers[d]), 4) for d in TASK.decision_ids}
        paid[OTHER] = min(paid.values())
        assert tuple(paid.values()) == TASK.utility[state]


def test_the_measure_by_hand():
    asked = questions("benefit")[0]
    short, gold = asked.answers["effect_short"], asked.gold["effect"]
    assert (short, len(gold.split())) == ("Velarin reduced relapse.", 44)
    assert token_f1(short, gold) == pytest.approx(2 * 3 / (3 + 44))
    assert gold_labels(asked, "effect", short) == (Label.NEUTRAL,)  # it leaves open in whom
    assert utility(asked, "effect", short) == pytest.approx(3 / 47)
    wrong = asked.gold["no_effect"]
    assert set(gold_labels(asked, "effect", wrong)) == {Label.CONTRADICT}
    assert token_f1(wrong, gold) > 0.75  # F1 hardly sees a negation; support does


@pytest.mark.parametrize("asked", ALL, ids=lambda asked: asked.text)
def test_every_canonical_text_is_read_as_itself(asked):
    assert {d: asked.classify(text) for d, text in asked.answers.items()} == {
        d: d for d in asked.answers
    }
    for finding, passage in asked.passages.items():
        assert asked.retrieve(passage.title) == finding


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ("", "other"),
        ("I would rather not say.", "other"),
        ("Velarin raises relapse.", "other"),
        ("Is relapse reduced?", "other"),
        ("Yes", "effect_short"),
        ("no.", "no_effect_short"),
        ("It never reduces relapse.", "no_effect_short"),
        ("There is not enough good evidence.", "unanswerable_short"),
        ("It lowers relapse. The trial says that it reduces it.", "effect_full"),
        ("It lowers relapse. I searched with care.", "effect_full"),
        ("It lowers relapse. It does not lower it in mice.", "hedge"),
        ("It lowers relapse; this cannot be answered.", "hedge"),
        ("可以。", "effect_foreign"),
        ("Velarin reduces relapse, 随机试验证明了这一点。", "effect_foreign"),
    ],
)
def test_free_answers_come_to_the_decision_that_the_rules_say(text, decision):
    assert questions("benefit")[0].classify(text) == decision


@given(st.text(max_size=300), st.sampled_from(ALL))
def test_classification_and_retrieval_are_total(text, asked):
    assert asked.classify(text) in TASK.decision_ids
    assert asked.retrieve(text) in {None, *TASK.finding_ids}


def test_passages_speak_to_claims_alike_in_every_wording():
    def said(asked):
        return {
            (finding, lean, decision): rule_labels(claims(text), [passage.text(lean)])
            for finding, passage in asked.passages.items()
            for lean in (True, False)
            for decision, text in asked.answers.items()
        }

    assert all(said(asked) == said(ALL[0]) for asked in ALL[1:])
    table = said(ALL[0])
    e, n, c = Label.ENTAIL, Label.NEUTRAL, Label.CONTRADICT
    assert table["trial", True, "effect_full"] == (e, e, n, n, n)
    assert table["trial", False, "effect_full"] == (c, c, n, n, n)
    assert table["follow_up", False, "no_effect_full"] == (e, n, n, e, n)
    assert table["review", True, "unanswerable_full"] == (e, n, n, n, n)
    assert set(table["press", True, "effect_full"]) == {n}


def test_the_wording_depends_on_the_public_name_alone_and_all_wordings_occur():
    drawn = {question("benefit", f"case {i}").text for i in range(60)}
    assert drawn == {asked.text for asked in questions("benefit")}
    assert question("harm", "a") is question("harm", "a")


def test_exact_values_of_the_task():
    world = make_world("checkedqa")
    optimal, constant = world.headroom
    assert optimal == pytest.approx(0.7998, abs=1e-4)
    assert constant == pytest.approx(0.5281, abs=1e-4)
    assert gate_1(world).passed
    used = {d for d, rate in world.oracle_decisions.items() if rate > 0}
    assert used == {"unanswerable_full", "effect_full", "no_effect_full"}


def test_every_scripted_failure_is_flagged_and_the_oracle_never():
    result = selftest(make_world("checkedqa"))
    assert result.passed
    assert not result.left_out
