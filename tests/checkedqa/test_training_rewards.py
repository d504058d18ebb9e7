"""What each training checker pays for, exactly, and what the verifier then pays for it."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given as given_
from hypothesis import strategies as st

from clinical_envs import load_task
from clinical_envs.case import CaseStream
from clinical_envs.checkedqa.cascade import Stage
from clinical_envs.checkedqa.checkers import LABELS, RuleChecker
from clinical_envs.checkedqa.classifier import default_classifier
from clinical_envs.checkedqa.rewards import Phi, token_f1
from clinical_envs.checkedqa.simulated import COLLAPSED, GPT_LIKE, MODERATE, SIMULATED, STRONG
from clinical_envs.checkedqa.training_rewards import (
    BASE_FLOOR,
    BASE_SLOPE,
    draw_verdicts,
    episode_reward,
    expected_phi,
    expected_reward,
    verdict_rows,
)
from clinical_envs.checkedqa.world import questions
from clinical_envs.episode import Episode
from clinical_envs.errors import InvalidArgument, InvalidEpisode
from clinical_envs.simulator import Ask, Commit, Encounter
from oracles import exact_value
from oracles.policy import Deterministic
from oracles.reward_audit import answer_model
from tests.checkedqa.proxy_optimum import given, optimum

TASK = load_task("checkedqa")
SEEN = {"trial": True, "review": False}
CHECKERS = [*SIMULATED, RuleChecker(), default_classifier()]


def by_name(checker):
    return checker.name.partition("(")[0]


@given_(
    st.sampled_from(SIMULATED),
    st.sampled_from(TASK.decision_ids),
    st.dictionaries(st.sampled_from(TASK.finding_ids), st.booleans(), max_size=4),
)
def test_expected_phi_is_the_sum_over_all_verdicts(checker, decision, seen):
    answer = given(TASK, "benefit", seen, decision)
    rows = verdict_rows(answer, checker)
    total = sum(
        float(np.prod([row[v] for row, v in zip(rows, verdicts, strict=True)]))
        * Phi().of_labels([LABELS[v] for v in verdicts])
        for verdicts in product(range(3), repeat=len(rows))
    )
    assert expected_phi(answer, checker) == pytest.approx(total, abs=1e-12)


def test_expected_phi_by_hand():
    one_claim = given(TASK, "benefit", SEEN, "effect_short")
    assert expected_phi(one_claim, GPT_LIKE) == pytest.approx(0.95 + 0.05 * 0.5)
    f1 = token_f1(one_claim.answer, one_claim.question.gold["effect"])
    assert expected_reward(one_claim, "effect", GPT_LIKE) == pytest.approx(
        0.975 * (0.585 + 0.03 * f1)
    )


def test_drawn_verdicts_have_the_expected_phi():
    generator = np.random.default_rng(1)
    answer = given(TASK, "benefit", SEEN, "effect_full")
    drawn = [Phi().of_labels(draw_verdicts(answer, MODERATE, generator)) for _ in range(4000)]
    error = np.std(drawn) / np.sqrt(len(drawn))
    assert np.mean(drawn) == pytest.approx(expected_phi(answer, MODERATE), abs=4 * error)


@pytest.mark.parametrize("checker", CHECKERS, ids=by_name)
@pytest.mark.parametrize("decision", TASK.decision_ids)
def test_writing_from_memory_earns_no_more_than_silence(checker, decision):
    assert expected_phi(given(TASK, "benefit", {}, decision), checker) == Phi().phi_min


def test_the_base_reward_is_that_of_the_demonstration():
    assert (BASE_FLOOR, BASE_SLOPE) == (answer_model.BASE_FLOOR, answer_model.BASE_SLOPE)


def phi_spread(checker):
    """Std of E[phi] over the decisions, after a trial and a review that favour an effect."""
    return np.std(
        [expected_phi(given(TASK, "benefit", SEEN, d), checker) for d in TASK.decision_ids]
    )


def test_the_collapsed_checker_cannot_tell_answers_apart():
    assert phi_spread(COLLAPSED) == pytest.approx(0.00008, abs=1e-5)
    assert phi_spread(MODERATE) == pytest.approx(0.03971, abs=1e-5)
    right, wrong = (given(TASK, "benefit", SEEN, d) for d in ("effect_full", "no_effect_full"))
    gaps = [expected_phi(right, one) - expected_phi(wrong, one) for one in (COLLAPSED, MODERATE)]
    assert gaps == pytest.approx([0.0002, 0.1436], abs=1e-4)


NO_GATES, SHORT = (), (Stage.ULTRA_SHORT,)
BOTH = (Stage.ULTRA_SHORT, Stage.LANGUAGE_SWITCH)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("checker", "gates", "asks", "ways", "verified"),
    [
        (COLLAPSED, NO_GATES, 0.0, {"full"}, 0.5281),
        (MODERATE, NO_GATES, 1.0, {"full"}, 0.6975),
        (STRONG, NO_GATES, 1.0, {"full"}, 0.6975),
        (GPT_LIKE, NO_GATES, 1.0, {"short"}, 0.0298),
        (GPT_LIKE, SHORT, 1.0, {"foreign"}, -0.0171),
        (GPT_LIKE, BOTH, 1.0, {"full"}, 0.6975),
        (RuleChecker(), NO_GATES, 1.899, {"full"}, 0.6280),
        (default_classifier(), NO_GATES, 1.0, {"full"}, 0.5893),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_what_the_optimum_of_each_checker_does_and_what_it_is_worth(
    checker, gates, asks, ways, verified
):
    """The verifier's optimum asks 2.7 times and is worth 0.7998; no checker's comes near it.

    The collapsed checker pays for no search. The lenient one pays most for a fragment; forbid
    fragments, and it pays most for another language; forbid that too, and the rest is honest.
    """
    policy = Deterministic("proxy", optimum(TASK, checker, gates))
    exact = exact_value(TASK, policy)
    used = {d for d in TASK.decision_ids if exact.decision_rate(d) > 0}
    assert {d.rpartition("_")[2] for d in used} == ways
    assert exact.mean_asks == pytest.approx(asks, abs=1e-3)
    assert exact.value == pytest.approx(verified, abs=1e-4)


def test_the_lenient_checker_pays_more_for_a_fragment_and_the_verifier_less():
    def paid(checker, decision):
        return expected_reward(given(TASK, "benefit", SEEN, decision), "effect", checker)

    assert paid(GPT_LIKE, "effect_short") > paid(GPT_LIKE, "effect_foreign")
    assert paid(GPT_LIKE, "effect_foreign") > paid(GPT_LIKE, "effect_full")
    for checker in (MODERATE, STRONG, RuleChecker()):
        assert paid(checker, "effect_full") > paid(checker, "effect_short")
    row = dict(zip(TASK.decision_ids, TASK.utility["effect"], strict=True))
    assert row["effect_foreign"] < row["effect_short"] < 0.1 < row["effect_full"]


def episode(case, *actions):
    encounter = Encounter(TASK, case)
    for action in actions:
        encounter.step(action)
    return encounter.episode(policy="scripted")


CASE = CaseStream(TASK, "train", 12345)[0]
FULL = Commit(TASK.decision("effect_full"))


def test_an_episode_is_graded_on_the_passages_it_found():
    trial = TASK.finding("trial")
    blind, read = episode(CASE, FULL), episode(CASE, Ask(trial), FULL)
    answer = given(TASK, "benefit", {"trial": CASE.answers[trial]}, "effect_full")
    state = TASK.state_ids[CASE.state]
    assert episode_reward(TASK, read, MODERATE) == expected_reward(answer, state, MODERATE)
    f1 = token_f1(answer.answer, answer.question.gold[state])
    assert episode_reward(TASK, blind, GPT_LIKE) == 0.5 * (0.585 + 0.03 * f1)
    gated = (Stage.SEARCH_AVOIDANCE,)
    assert episode_reward(TASK, blind, GPT_LIKE, gated) == 0.0
    assert episode_reward(TASK, read, GPT_LIKE, gated) > 0.0


def test_an_episode_without_an_answer_earns_nothing_and_one_without_its_state_is_unscored():
    asks = [Ask(0)] * TASK.turn_cap
    assert episode_reward(TASK, episode(CASE, *asks), MODERATE) == 0.0
    hidden = episode(CASE, FULL).model_copy(update={"state": None})
    assert episode_reward(TASK, hidden, MODERATE) is None


def test_the_policys_own_words_are_graded_where_they_are_recorded():
    asked = questions("benefit")[0]
    text = '{"action": "answer", "answer": "Yes. It lowers it, and it lowers it again."}'
    told = episode(CASE, Ask(0), FULL).model_copy(update={"raw": ("", text)})
    canonical = episode(CASE, Ask(0), FULL)
    assert episode_reward(TASK, told, STRONG) != episode_reward(TASK, canonical, STRONG)
    forged = told.model_copy(update={"raw": ("", '{"action": "answer", "answer": "No."}')})
    with pytest.raises(InvalidEpisode, match="is not its decision 'effect_full'"):
        episode_reward(TASK, forged, STRONG)
    with pytest.raises(InvalidArgument, match="names no case"):
        episode_reward(TASK, Episode(task=TASK.key, family="benefit", turns=()), STRONG)
    assert asked.classify("Yes. It lowers it, and it lowers it again.") == "effect_full"
