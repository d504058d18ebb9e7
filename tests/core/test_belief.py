"""The belief is Bayes' rule and nothing else moves it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from clinical_envs.belief import (
    InfoState,
    entropy,
    info_state,
    initial_state,
    path_weights,
    posterior,
    predictive,
)
from clinical_envs.catalog import load_task
from clinical_envs.errors import InvalidArgument
from clinical_envs.task import Task
from tests.core.bayes import brute_posterior, brute_predictive, evidence_probability
from tests.core.small_task import small_task, small_task_data
from tests.strategies import task_data, tasks


class Situation(NamedTuple):
    """A task, a family, and findings seen in some order."""

    task: Task
    family: str
    seen: dict[str, bool]

    @property
    def info(self) -> InfoState:
        return info_state(self.task, self.family, self.seen, self.task.turn_cap)


@st.composite
def _seen(draw: st.DrawFn, task: Task) -> dict[str, bool]:
    names = draw(st.lists(st.sampled_from(task.finding_ids), unique=True))
    return {name: draw(st.booleans()) for name in names}


@st.composite
def situations(draw: st.DrawFn, *, certain: bool = False) -> Situation:
    task = draw(tasks(certain=certain))
    return Situation(task, draw(st.sampled_from(task.family_ids)), draw(_seen(task)))


@given(situations(certain=True))
def test_the_posterior_is_brute_force_bayes(at: Situation) -> None:
    if evidence_probability(*at) == 0.0:
        with pytest.raises(InvalidArgument, match="no state can give the answers"):
            posterior(at.task, at.info)
        return
    expected = brute_posterior(*at)
    np.testing.assert_allclose(posterior(at.task, at.info), expected, rtol=1e-9, atol=1e-12)


@given(situations(certain=True))
def test_the_path_weights_sum_to_the_probability_of_the_answers(at: Situation) -> None:
    total = path_weights(at.task, at.info).sum()
    assert math.isclose(total, evidence_probability(*at), rel_tol=1e-9, abs_tol=1e-15)


@given(situations(certain=True))
def test_the_predictive_is_brute_force_bayes(at: Situation) -> None:
    assume(evidence_probability(*at) > 0.0)
    expected = brute_predictive(*at)
    found = predictive(at.task, at.info)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    for name, present in at.seen.items():
        assert found[at.task.finding(name)] == float(present)


@given(situations(), st.randoms(use_true_random=False))
def test_the_order_of_asking_does_not_matter(at: Situation, random: Any) -> None:
    names = list(at.seen)
    random.shuffle(names)
    other = Situation(at.task, at.family, {name: at.seen[name] for name in names})
    assert other.info == at.info
    assert hash(other.info) == hash(at.info)
    assert dict(other.info.seen()) == {at.task.finding(q): a for q, a in at.seen.items()}


@given(situations())
def test_a_repeated_ask_moves_nothing_but_the_turns(at: Situation) -> None:
    for name, present in at.seen.items():
        again = at.info.see(at.task.finding(name), present)
        assert again == at.info._replace(turns_left=at.info.turns_left - 1)
        assert again == at.info.waste()
        np.testing.assert_array_equal(posterior(at.task, again), posterior(at.task, at.info))


@given(situations())
def test_the_turns_left_move_no_belief(at: Situation) -> None:
    np.testing.assert_array_equal(
        posterior(at.task, at.info._replace(turns_left=0)), posterior(at.task, at.info)
    )


@given(situations(), st.booleans())
def test_an_uninformative_finding_moves_nothing(at: Situation, present: bool) -> None:
    informative = at.task.informative[at.info.family]
    for q in set(range(len(at.task.findings))) - set(informative):
        if not at.info.knows(q):
            moved = posterior(at.task, at.info.see(q, present))
            np.testing.assert_allclose(moved, posterior(at.task, at.info), rtol=0, atol=1e-12)


def test_a_finding_is_informative_where_its_probability_depends_on_the_state() -> None:
    assert small_task().informative == ((0, 1), (0, 1, 2))


@given(situations())
def test_the_posterior_is_a_martingale_and_information_is_never_negative(at: Situation) -> None:
    belief = posterior(at.task, at.info)
    for q, chance in enumerate(predictive(at.task, at.info)):
        if at.info.knows(q):
            continue
        after = {present: posterior(at.task, at.info.see(q, present)) for present in (True, False)}
        expected = chance * after[True] + (1.0 - chance) * after[False]
        np.testing.assert_allclose(expected, belief, rtol=0, atol=1e-12)
        left = chance * entropy(after[True]) + (1.0 - chance) * entropy(after[False])
        assert left <= entropy(belief) + 1e-12


@given(situations(certain=True))
def test_the_entropy_lies_between_zero_and_the_log_of_the_number_of_states(at: Situation) -> None:
    assume(evidence_probability(*at) > 0.0)
    belief = posterior(at.task, at.info)
    assert math.isclose(belief.sum(), 1.0)
    expected = -math.fsum(b * math.log(b) for b in belief.tolist() if b > 0.0)
    assert math.isclose(entropy(belief), expected, abs_tol=1e-12)
    assert -1e-12 <= entropy(belief) <= math.log(len(at.task.states)) + 1e-12


def test_entropy_is_exact_at_its_ends() -> None:
    assert entropy(np.array([0.0, 1.0, 0.0])) == 0.0
    assert math.isclose(entropy(np.full(4, 0.25)), math.log(4.0))


@st.composite
def _relabelled(draw: st.DrawFn) -> tuple[Situation, Situation, list[int], list[int]]:
    """The same situation with states and findings in another order and under other names."""
    data = draw(task_data())
    data.pop("checklist", None)
    data.pop("high_acuity", None)
    task = Task.model_validate(data)
    states = draw(st.permutations(range(len(task.states))))
    findings = draw(st.permutations(range(len(task.findings))))
    other = {**data, "utility": {}, "no_decision": "worst"}
    other["states"] = [{**data["states"][s], "id": f"renamed_{s}"} for s in states]
    for s in states:
        other["utility"][f"renamed_{s}"] = data["utility"][data["states"][s]["id"]]
    other["findings"] = [
        {
            **data["findings"][q],
            "id": f"renamed_{q}",
            "p": {f: [row[s] for s in states] for f, row in data["findings"][q]["p"].items()},
        }
        for q in findings
    ]
    at = Situation(task, draw(st.sampled_from(task.family_ids)), draw(_seen(task)))
    seen = {f"renamed_{task.finding(name)}": present for name, present in at.seen.items()}
    return at, Situation(Task.model_validate(other), at.family, seen), states, findings


@given(_relabelled())
def test_relabelling_states_and_findings_changes_nothing(
    pair: tuple[Situation, Situation, list[int], list[int]],
) -> None:
    at, other, states, findings = pair
    belief, renamed = posterior(at.task, at.info), posterior(other.task, other.info)
    np.testing.assert_allclose(renamed, belief[states], rtol=0, atol=1e-12)
    chance, renamed = predictive(at.task, at.info), predictive(other.task, other.info)
    np.testing.assert_allclose(renamed, chance[findings], rtol=0, atol=1e-12)


def test_a_posterior_worked_by_hand() -> None:
    # child, pus seen: 0.7*0.2, 0.25*0.7, 0.05*0.6 = 0.14, 0.175, 0.03, which sum to 0.345.
    belief = posterior(small_task(), info_state(small_task(), "child", {"exudate": True}))
    np.testing.assert_allclose(belief, [0.14 / 0.345, 0.175 / 0.345, 0.03 / 0.345])


def test_the_belief_of_a_certain_finding_is_certain() -> None:
    data = small_task_data()
    data["findings"][0]["p"]["child"] = [0.0, 1.0, 0.0]
    task = Task.model_validate(data)
    assert posterior(task, info_state(task, "child", {"exudate": True})).tolist() == [0, 1, 0]
    without = posterior(task, info_state(task, "child", {"exudate": False}))
    np.testing.assert_allclose(without, [0.7 / 0.75, 0.0, 0.05 / 0.75])


def test_an_information_state_counts_turns_and_bits() -> None:
    task = load_task("diagnostics")
    info = info_state(task, "abdominal", {"fever": True, "hypotension": False})
    assert info == InfoState(1, (1 << 14) | 1, 1 << 14, 10)
    assert list(info.seen()) == [(0, False), (14, True)]
    assert info.knows(0)
    assert not info.knows(1)
    assert initial_state(task, 1, [(14, True), (0, False)]).turns_left == 12


def test_an_answer_may_be_a_numpy_boolean() -> None:
    seen = {"exudate": np.bool_(True), "cough": np.bool_(False)}
    info = info_state(small_task(), "child", seen)  # type: ignore[arg-type]
    assert info == info_state(small_task(), "child", {"exudate": True, "cough": False})


def test_what_was_seen_last_counts() -> None:
    info = info_state(small_task(), "child", {"exudate": True, "cough": True})
    changed = info.see(0, present=False)
    assert dict(changed.seen()) == {0: False, 2: True}
    assert (changed.asked, changed.present) == (0b101, 0b100)


def test_a_task_may_have_as_many_findings_as_there_are_bits() -> None:
    data = small_task_data()
    data["findings"] += [{**data["findings"][1], "id": f"f{i}"} for i in range(60)]
    task = Task.model_validate(data)
    assert len(task.findings) == 63
    seen = {name: q % 2 == 0 for q, name in enumerate(task.finding_ids)}
    info = info_state(task, "adult", seen, 1)
    assert dict(info.seen()) == {q: q % 2 == 0 for q in range(63)}
    assert math.isclose(posterior(task, info).sum(), 1.0)


def test_nonsense_arguments_are_refused() -> None:
    task = small_task()
    with pytest.raises(InvalidArgument, match=r"no family 'chld' .* known: child, adult"):
        info_state(task, "chld")
    with pytest.raises(InvalidArgument, match=r"no finding 'couhg'; did you mean 'cough'\?"):
        info_state(task, "child", {"couhg": True})
    for answer in ("no", 1, None):
        with pytest.raises(InvalidArgument, match=f"answer to 'cough' is {answer!r}; give True"):
            info_state(task, "child", {"cough": answer})  # type: ignore[dict-item]
    for turns in (-1, task.turn_cap + 1):
        with pytest.raises(InvalidArgument, match=f"turns_left is {turns}"):
            info_state(task, "child", {}, turns)
