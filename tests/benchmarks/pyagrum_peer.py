"""The full titration oracle against pyAgrum on the same task limited to three asks.

Its exact inference with no-forgetting has cliques of ((K + 1) · 3)^asks, K = 6 findings: three
asks take it a fraction of a second, four half a minute, and six are out of reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from clinical_envs import info_state, load_task
from oracles import Oracle
from tests.benchmarks.record import Figure, seconds
from tests.pyagrum_diagram import limited_value

ASKS = 3
THREE_ASKS = 0.0414471
ROUNDS = 5


def figures() -> Iterator[Figure]:
    task = load_task("titration")
    start = info_state(task, "anticoagulation", turns_left=ASKS + 1)
    ours, theirs = Oracle(task).value(start), limited_value(task, 0, ASKS)
    if max(abs(ours - THREE_ASKS), abs(ours - theirs)) > 1e-7:
        raise RuntimeError(f"values at {ASKS} asks differ: {ours} here, {theirs} in pyAgrum")
    rounds = [
        (
            seconds(lambda: Oracle(task).optimal_value),
            seconds(lambda: limited_value(task, 0, ASKS)),
        )
        for _ in range(ROUNDS)
    ]
    here, there = (1e3 * median(times) for times in zip(*rounds, strict=True))
    ratio = median(here_s / there_s for here_s, there_s in rounds)
    detail = (
        f"{here:.1f} ms for all 6 findings here, {there:.0f} ms for {ASKS} asks in pyAgrum; "
        f"both {ours:.7f} at {ASKS} asks"
    )
    yield Figure("oracle_vs_pyagrum", ratio, "ratio", detail)
