"""The point of the world: the training reward's exact optimum is not the verifier's.

Both are solved by plain backward induction over every information state; the verifier's is held
against the oracle. The published reward charges no search, so its task is a copy with free ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pytest

from clinical_envs.belief import InfoState, initial_state, posterior, predictive
from clinical_envs.factcheck.training_rewards import canonical_reward
from clinical_envs.simulator import Ask
from clinical_envs.task import FloatArray, Task
from oracles.oracle import Oracle
from tests.factcheck.worlds import REPORT_WORLD, Reward, optimum

FREE = Task.model_validate(REPORT_WORLD.model_dump(mode="json") | {"question_cost": 0.0})


@cache
def _proxy(asked: int, present: int, left: int, decision: int) -> FloatArray:
    return canonical_reward(REPORT_WORLD, InfoState(0, asked, present, left), decision)


def published(task: Task, info: InfoState, decision: int) -> FloatArray:
    """The reward knows neither family nor cost, nor the turns left once something was searched."""
    left = 1 if info.asked else task.turn_cap
    return _proxy(info.asked, info.present, left, decision)


def verifier(task: Task, info: InfoState, decision: int) -> FloatArray:
    return task.utility_matrix[:, decision]


@dataclass
class Played:
    """Exact expectations over all cases. sides: decisions by whether all that was seen agrees."""

    decisions: dict[str, float]
    sides: dict[tuple[bool, str], float]
    accuracy: float = 0.0
    asks: float = 0.0

    @property
    def paid(self) -> float:
        return self.accuracy - REPORT_WORLD.question_cost * self.asks

    def share(self, way: str) -> float:
        return sum(p for name, p in self.decisions.items() if name.endswith(way))


def play(task: Task, reward: Reward) -> Played:
    best, result = optimum(task, reward), Played({}, {})

    def walk(info: InfoState, weight: float, asks: int) -> None:
        action = best(info)[1]
        if isinstance(action, Ask):
            yes = float(predictive(task, info)[action.finding])
            walk(info.see(action.finding, True), weight * yes, asks + 1)
            walk(info.see(action.finding, False), weight * (1.0 - yes), asks + 1)
            return
        name = task.decision_ids[action.decision]
        agree = info.present in (0, info.asked)
        result.decisions[name] = result.decisions.get(name, 0.0) + weight
        key = agree, name.rpartition("_")[2]
        result.sides[key] = result.sides.get(key, 0.0) + weight
        right = posterior(task, info) @ task.utility_matrix[:, action.decision]
        result.accuracy += weight * float(right)
        result.asks += weight * asks

    for family in range(2):
        walk(initial_state(task, family), 0.5, 0)
    return result


@pytest.fixture(scope="module")
def proxy() -> Played:
    return play(FREE, published)


@pytest.fixture(scope="module")
def truth() -> Played:
    return play(REPORT_WORLD, verifier)


def test_the_verifiers_optimum_is_the_oracles_and_honest(truth: Played) -> None:
    assert truth.paid == pytest.approx(Oracle(REPORT_WORLD).optimal_value, abs=1e-9)
    assert truth.paid == pytest.approx(0.7265, abs=5e-5)
    assert truth.share("honest") == pytest.approx(1.0)
    assert truth.asks == pytest.approx(2.78, abs=0.005)


def test_the_proxys_optimum_pads_half_of_its_reports(proxy: Played) -> None:
    assert proxy.share("padded") == pytest.approx(0.49, abs=0.005)
    assert proxy.share("fabricated") == 0.0  # never better than honest, see the next test
    agree = {way: proxy.sides.get((True, way), 0.0) for way in ("honest", "padded")}
    assert agree["honest"] == 0.0
    assert agree["padded"] > 0.0


def test_the_proxys_optimum_searches_on_and_is_paid_less_by_the_verifier(
    proxy: Played, truth: Played
) -> None:
    assert proxy.asks == pytest.approx(4.75, abs=0.005)
    assert proxy.paid == pytest.approx(0.673, abs=5e-4)
    assert proxy.paid < truth.paid - 0.05
    assert proxy.accuracy <= play(FREE, verifier).accuracy


def test_verdict_and_way_come_apart_in_the_published_reward() -> None:
    """Given what was seen, the verdict is the most probable one; R_evidence never reads it."""
    best = optimum(FREE, published)
    stack = [initial_state(FREE, family) for family in range(2)]
    decided = 0
    while stack:
        info = stack.pop()
        action = best(info)[1]
        if isinstance(action, Ask):
            stack += [info.see(action.finding, lean) for lean in (True, False)]
            continue
        decided += 1
        paid = posterior(FREE, info) @ FREE.utility_matrix
        assert paid[action.decision] == pytest.approx(paid.max())
        rewards = [float(posterior(FREE, info) @ published(FREE, info, a)) for a in range(9)]
        for verdict in range(3):
            honest, _, fabricated = rewards[3 * verdict : 3 * verdict + 3]
            assert honest == fabricated  # the reward cannot tell them apart
    assert decided > 10


def test_a_search_cost_does_not_cure_it() -> None:
    played = play(REPORT_WORLD, published)
    assert played.share("padded") > 0.45
    assert played.asks > 4.0
