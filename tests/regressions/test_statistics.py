"""Public reports of evaluation statistics gone wrong, each asked of this package.

Every test names the thread and the numbers it gives, where it gives some.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from clinical_envs.catalog import load_task
from oracles.assessment import Assessment
from oracles.audits import audit
from oracles.clinical import ClinicalWorld
from oracles.evaluation import evaluate
from oracles.metrics import measure
from oracles.policy import FunctionPolicy
from oracles.sample import Sample, unbiased_any
from tests.oracles.hand_made import NamesOnly, row, sample

WORLD = NamesOnly()


def reward(a: Assessment) -> float:
    return a.reward


def half_width(found: Sample) -> float:
    estimate = found.mean(reward)
    assert estimate.low is not None
    assert estimate.high is not None
    return (estimate.high - estimate.low) / 2


def graded(case: int, hits: int, n: int) -> list[Assessment]:
    return [
        row(case, rollout=i, oracle_reward=1.0, reward=1.0 if i < hits else 0.0) for i in range(n)
    ]


def test_inspect_ai_1118_the_error_of_a_mean_is_that_of_the_case_means() -> None:
    """The spread of case means already holds the noise of sampling within a case."""
    rng = np.random.default_rng(0)
    cases, rollouts = 200, 12
    values = rng.normal(0.0, 1.0, (cases, 1)) + rng.normal(0.0, 2.0, (cases, rollouts))
    rows = [row(c, rollout=i, reward=values[c, i]) for c in range(cases) for i in range(rollouts)]
    by_case = float(stats.sem(values.mean(axis=1)))
    by_rollout = float(stats.sem(values.ravel()))
    found = half_width(sample(rows))
    assert found == pytest.approx(1.96 * by_case, rel=0.06)
    assert found > 1.3 * 1.96 * by_rollout


def test_inspect_ai_4161_and_5146_a_share_stays_in_bounds_and_cases_are_resampled_whole() -> None:
    """At 19 of 20 an interval of the normal or t kind ends above 1."""
    rows = [row(c, rollout=i, reward=float(c < 19)) for c in range(20) for i in range(5)]
    share = sample(rows).share(reward)
    interval = stats.binomtest(19, 20).proportion_ci(method="wilson")
    assert (share.low, share.high) == pytest.approx((interval.low, interval.high))
    assert interval.high < 1.0 < 0.95 + 1.96 * math.sqrt(0.95 * 0.05 / 20)
    assert sample(rows).mean(reward).value == pytest.approx(0.95)


@pytest.mark.parametrize("reward_of_one", [0.0, 1.0])
def test_openai_evals_1834_one_sample_gives_no_interval_and_no_nan(reward_of_one: float) -> None:
    for estimate in (
        sample([row(reward=reward_of_one)]).mean(reward),
        sample([row(reward=reward_of_one)]).share(reward),
    ):
        assert (estimate.value, estimate.low, estimate.high) == (reward_of_one, None, None)


def test_openai_evals_1834_the_bootstrap_resamples_all_with_replacement() -> None:
    """The spread is that of the mean of all n, not of the n // 2 that were drawn there."""
    values = np.random.default_rng(3).exponential(1.0, 101)
    found = half_width(sample(row(i, reward=float(v)) for i, v in enumerate(values)))
    assert found == pytest.approx(1.96 * float(stats.sem(values)), rel=0.08)


def test_aprender_2118_one_rollout_a_case_gives_support_at_one_and_nothing_higher() -> None:
    """50 of 164 solved once is 30.5 %; cases in the place of rollouts made it 97.7 % at 10."""
    rows = [r for case in range(164) for r in graded(case, int(case < 50), 1)]
    metrics = measure(sample(rows), WORLD)
    assert metrics.k == 1
    assert metrics.support_at_k.value == pytest.approx(50 / 164)
    assert unbiased_any(164, 50, 10) == pytest.approx(0.977, abs=5e-4)  # what must not happen


def test_verl_7240_support_at_n_of_n_is_whether_any_rollout_passed() -> None:
    """Resampling with replacement would give 1 - (3/4)^4 = .684 for one hit in four."""
    metrics = measure(sample(graded(0, 1, 4) + graded(1, 0, 4)), WORLD)
    assert (metrics.k, metrics.support_at_k.value) == (4, 0.5)


def test_prime_rl_1834_rollouts_beyond_k_lower_the_variance_and_not_the_mean() -> None:
    rng = np.random.default_rng(4)
    hits = rng.random((4000, 64)) < 0.05
    plain = hits[:, :12].any(axis=1).astype(float)
    better = np.array([unbiased_any(64, int(h.sum()), 12) for h in hits])
    truth = 1.0 - 0.95**12
    assert float(plain.mean()) == pytest.approx(truth, abs=0.03)
    assert float(better.mean()) == pytest.approx(truth, abs=0.012)
    assert float(better.std()) < 0.45 * float(plain.std())  # .19 against .50


def test_rliable_20_seeds_that_differ_have_an_interval_and_the_unit_is_the_case() -> None:
    """Resampling the wrong axis showed no variance; rollouts in order of case or not, as one."""
    values = np.array([0.1, 0.5, 0.9, 0.3, 0.7])
    rows = [row(c, rollout=i, reward=float(v)) for c, v in enumerate(values) for i in range(150)]
    mixed = sorted(rows, key=lambda r: (r.episode.rollout or 0, r.case))
    one, other = sample(rows).mean(reward), sample(mixed).mean(reward)
    assert half_width(sample(rows)) > 0.15
    assert (other.low, other.high) == pytest.approx((one.low, one.high))


def test_skyrl_311_support_is_there_for_multi_turn_play_and_uses_the_final_reward() -> None:
    world = ClinicalWorld(load_task("titration"))
    cases = world.cases("heldout")[:30]
    rows = [world.assess(e) for e in evaluate(world, world.policy("random"), cases, k=4)]
    assert max(r.turns for r in rows) > 1
    found = measure(Sample(tuple(rows), world.prevalence), world)
    by_case: dict[str, list[bool]] = {}
    for r in rows:
        by_case.setdefault(r.case, []).append(bool(r.oracle_grade))
    assert found.k == 4
    assert found.support_at_k.value == pytest.approx(np.mean([any(g) for g in by_case.values()]))
    assert found.pass_pow_k.value == pytest.approx(np.mean([all(g) for g in by_case.values()]))


def test_openenv_1025_an_episode_without_a_verdict_is_unscored_not_zero() -> None:
    world = ClinicalWorld(load_task("titration"))
    good = evaluate(world, world.policy("oracle"), world.cases("heldout"), k=1)
    lost = [e.model_copy(update={"turns": (), "meta": {"error": "timeout"}}) for e in good[:20]]
    found = audit([*lost, *good[20:]])
    assert found.unscored == 20
    (policy,) = found.policies
    rewards = [world.assess(e).reward for e in good[20:]]
    assert policy.metrics.value.value == pytest.approx(float(np.mean(rewards)))


def test_garak_2033_a_share_of_none_or_all_is_not_certain() -> None:
    """10 of 10 is [72 %, 100 %] and 0 of 10 is [0 %, 28 %] by Wilson's interval."""
    none = sample(row(i, reward=0.0) for i in range(10)).share(reward)
    every = sample(row(i, reward=1.0) for i in range(10)).share(reward)
    assert (none.low, none.high) == pytest.approx((0.0, 0.2775), abs=5e-5)
    assert (every.low, every.high) == pytest.approx((0.7225, 1.0), abs=5e-5)


def test_medagents_benchmark_4_a_policy_whose_turns_are_never_read_is_a_parse_failure() -> None:
    """Its value is the task's charge for silence, and the report leads with why."""
    world = ClinicalWorld(load_task("titration"))
    chatty = FunctionPolicy("chatty", lambda view, rng: "I would start full-intensity therapy.")
    found = audit(evaluate(world, chatty, world.cases("heldout"), k=2))
    (policy,) = found.policies
    assert policy.status == policy.to_dict()["status"] == "PARSE-FAIL"
    metrics = policy.metrics
    assert metrics.parse_failure_rate.value == 1.0
    assert metrics.decisions["no_decision"] == 1.0
    assert metrics.value.value is not None
    assert metrics.value.value < -0.3  # ten charged turns, and the worst decision


def test_a_case_named_twice_is_one_case_with_two_rollouts() -> None:
    twice = sample([row(0, reward=1.0), row(0, reward=0.0), row(1, reward=1.0)])
    found = twice.mean(reward)
    assert (found.n, found.n_cases) == (3, 2)
