"""The optimum of the reward with information credit, R + λ · Σ (H(b_{t-1}) - H(b_t))."""

from __future__ import annotations

import functools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.belief import InfoState, entropy, initial_state, path_weights, posterior
from clinical_envs.errors import InvalidArgument
from clinical_envs.task import Task
from oracles.exact import exact_value, leaves
from oracles.explanation import explain
from oracles.oracle import Oracle, solve
from oracles.policies import make_policy
from tests.oracles.variants import info_states
from tests.strategies import Play, plays, tasks

LAMBDAS = st.sampled_from([0.03, 0.2, 1.0, -0.5])


def shaped_optimum(task: Task, credit: float, info: InfoState) -> float:
    """By recursion; the credit is paid at every ask, repeats and flat findings included."""

    @functools.cache
    def value(at: InfoState) -> float:
        weights = path_weights(task, at)
        belief = weights / weights.sum()
        if at.turns_left == 0:
            return float(belief @ task.no_decision_utility)
        best = float((belief @ task.utility_matrix).max())
        best = max(best, value(at.waste()) - task.question_cost)
        for q in range(len(task.findings)):
            if at.knows(q):
                continue
            worth = -task.question_cost
            for present in (False, True):
                after = at.see(q, present)
                chance = float(path_weights(task, after).sum() / weights.sum())
                if chance > 0.0:
                    drop = _entropy(task, at) - _entropy(task, after)
                    worth += chance * (credit * drop + value(after))
            best = max(best, worth)
        return best

    return value(info)


def _entropy(task: Task, info: InfoState) -> float:
    weights = path_weights(task, info)
    shares = (weights / weights.sum()).tolist()
    return -math.fsum(p * math.log(p) for p in shares if p > 0.0)


@given(tasks(max_findings=3, max_turns=3, certain=True), LAMBDAS)
def test_the_shaped_optimum_equals_recursion_in_every_information_state(
    task: Task, credit: float
) -> None:
    oracle = Oracle(task, credit)
    for f in range(len(task.families)):
        for info in info_states(task, f):
            expected = shaped_optimum(task, credit, info)
            assert oracle.value(info) == pytest.approx(expected, abs=1e-11)


@given(tasks(max_findings=4, max_turns=5), LAMBDAS)
def test_the_shaped_policy_earns_the_shaped_optimum(task: Task, credit: float) -> None:
    oracle, earned = Oracle(task, credit), 0.0
    policy = make_policy("oracle", oracle)
    for f in range(len(task.families)):
        before = entropy(posterior(task, initial_state(task, f)))
        for leaf in leaves(task, policy, f):
            reach = task.prior * leaf.reach / len(task.families)
            information = before - entropy(posterior(task, leaf.info))
            earned += float(reach @ leaf.reward(task)) + credit * float(reach.sum()) * information
    assert earned == pytest.approx(oracle.optimal_value, abs=1e-10)


@given(tasks(max_findings=4, max_turns=5))
def test_more_credit_never_buys_less_information(task: Task) -> None:
    information = []
    for credit in (0.0, 0.1, 0.5, 2.0):
        policy, total = make_policy("oracle", Oracle(task, credit)), 0.0
        for f in range(len(task.families)):
            for leaf in leaves(task, policy, f):
                total -= float(task.prior @ leaf.reach) * entropy(posterior(task, leaf.info))
        information.append(total)
    assert information == pytest.approx(sorted(information), abs=1e-9)


@given(plays(max_findings=4))
def test_the_credits_of_an_episode_telescope(play: Play) -> None:
    encounter = play.finished()
    turns = explain(Oracle(play.task), encounter.episode()).turns
    first, last = (posterior(play.task, info) for info in (encounter.start, encounter.info))
    total = math.fsum(turn.entropy_drop for turn in turns)
    assert total == pytest.approx(entropy(first) - entropy(last), abs=1e-12)


@pytest.mark.parametrize("credit", [math.nan, math.inf, -math.inf])
def test_a_credit_that_is_no_number_is_refused(credit: float) -> None:
    with pytest.raises(InvalidArgument, match="credit"):
        solve("titration", credit=credit)


def test_the_shaped_value_with_revealed_findings_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="rho 0"):
        solve("titration", credit=0.1).revealed_value(0.3)


@pytest.mark.parametrize(
    ("name", "credit", "asks", "value"),
    [  # spec section 2; values where it gives them, else None
        ("titration", 0.0, 2.76, 0.043),
        ("titration", 0.03, 2.76, None),
        ("titration", 0.1, 3.10, None),
        ("titration", 0.2, 3.81, 0.016),
        ("diagnostics", 0.0, 3.92, 0.4316),
        ("diagnostics", 0.03, 3.99, None),
        ("diagnostics", 0.1, 4.31, None),
        ("diagnostics", 0.2, 4.47, 0.4292),
        ("refill", 0.0, 3.27, None),
        ("refill", 0.03, 3.30, None),
        ("refill", 0.1, 3.31, None),
        ("refill", 0.2, 3.39, None),
    ],
)
def test_asks_and_task_value_of_the_shaped_optimum(
    name: str, credit: float, asks: float, value: float | None
) -> None:
    oracle = solve(name, credit=credit)
    exact = exact_value(oracle.task, make_policy("oracle", oracle))
    assert exact.mean_asks == pytest.approx(asks, abs=0.005)
    if value is not None:
        assert exact.value == pytest.approx(value, abs=0.0005)
