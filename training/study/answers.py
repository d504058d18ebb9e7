"""The questions of the study, each answered from the episodes of its arms.

Differences are taken within a seed, since arms of one seed share warmup, cases and order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from clinical_envs.errors import InvalidArgument
from oracles.clinical import ClinicalWorld
from oracles.gates import gate_2
from oracles.metrics import measure
from oracles.sample import Sample
from training.break_even import break_even
from training.study.measures import (
    ASKS,
    BENIGN_ASKS,
    HEDGE,
    HIGH,
    ONE_ASK,
    PARSE,
    VALUE,
    ZERO_ASK,
    between,
    episodes,
    gained,
    last,
    level,
)
from training.study.plan import LAMBDAS, TASKS, UPDATES
from training.study.reading import GrpoRun, Study
from training.study.rows import (
    MEASURED,
    MET,
    NOT_MET,
    Cell,
    Row,
    above_zero,
    below_zero,
    exact,
    not_above_zero,
    within,
)

GAIN_BARS = {"diagnostics": 0.90, "refill": 0.90, "titration": 0.70}
RISING = (("0.1", "0.15"), ("0.15", "0.2"), ("0.2", "0.3"))
WINDOW = 10  # updates that are the end, for a phase's parse failures


def answers(study: Study) -> Iterator[Row]:
    """Every row, question by question."""
    yield from _light_start(study)
    for task in TASKS:
        yield from _full(study, task)
    yield from _arms(study)
    yield from _decoupled(study)
    yield from _dial(study)
    yield from _bias(study)
    for task in TASKS:
        yield from _recommended(study, task)


def _light_start(study: Study) -> Iterator[Row]:
    cell = Cell(question="light start", task="diagnostics", arm="start")
    runs = study.runs("diagnostics", "outcome")
    starts = {seed: run.start for seed, run in runs.items()}
    bars = (
        (PARSE, 0.0, 0.01),
        (VALUE, 0.20, 0.33),
        (ASKS, 2.0, 3.0),
        (HEDGE, 0.35, 0.65),
        (ZERO_ASK, 0.0, 0.10),
    )
    for wanted, low, high in bars:
        yield level(cell, wanted, starts, within(low, high))
    for wanted in (ONE_ASK, HIGH):
        yield level(cell, wanted, starts, MEASURED)
    passed = {seed: float(run.gate_2 is True) for seed, run in runs.items()}
    yield cell.row("gate_2_passes", passed, episodes(starts), within(1.0, 1.0))


def _full(study: Study, task: str) -> Iterator[Row]:
    cell = Cell(question="full warmup", task=task, arm="full")
    world, samples = study.world(task), study.warmups(task, "full", "test")
    yield level(cell, PARSE, samples, within(0.0, 0.005))
    for name, greedy in (("gain_greedy", True), ("gain_sampled", False)):
        gains = {
            seed: gain_by_regret(sample.where(lambda row, g=greedy: row.greedy is g), world)  # type: ignore[misc]
            for seed, sample in samples.items()
        }
        known = {seed: gain for seed, gain in gains.items() if gain is not None}
        yield cell.row(name, known, episodes(samples), within(GAIN_BARS[task], 1.0))


def gain_by_regret(sample: Sample, world: ClinicalWorld) -> float | None:
    """Share of the oracle's gain over the best constant: 1 - E[regret] / (V* - V_const).

    Regret is exact given what was seen, so that it varies less from case to case than reward.
    """
    if world.headroom is None:
        raise InvalidArgument(f"{world.name} has no oracle; the gain cannot be taken")
    optimal, constant = world.headroom
    regret = sample.mean(lambda row: row.regret).value
    return None if regret is None else 1.0 - regret / (optimal - constant)


def _arms(study: Study) -> Iterator[Row]:
    outcome = study.runs("diagnostics", "outcome")
    credit = study.runs("diagnostics", "credit")
    cell = Cell(question="outcome from light", task="diagnostics", arm="outcome - start")
    for wanted, bar in ((VALUE, above_zero), (ASKS, below_zero)):
        yield gained(cell, wanted, outcome, bar)
    for wanted in (ONE_ASK, HIGH, HEDGE):
        yield gained(cell, wanted, outcome, MEASURED)
    cell = Cell(question="credit from light", task="diagnostics", arm="credit - outcome")
    yield between(cell, ASKS, credit, outcome, above_zero)
    for wanted in (VALUE, ONE_ASK, HIGH, HEDGE):
        yield between(cell, wanted, credit, outcome, MEASURED)
    for arm, runs in (("outcome", outcome), ("credit", credit)):
        cell = Cell(question="levels after training", task="diagnostics", arm=arm)
        for wanted in (VALUE, ASKS, ONE_ASK, HIGH, HEDGE, PARSE):
            yield level(cell, wanted, last(runs), MEASURED)
        for update in (20, 40, UPDATES):
            drift = {s: run.at(update, "rollout/kl_per_turn") for s, run in runs.items()}
            yield cell.row(f"kl_per_turn_at_{update}", drift, len(drift))


def _decoupled(study: Study) -> Iterator[Row]:
    runs, outcome = study.runs("diagnostics", "decoupled"), study.runs("diagnostics", "outcome")
    cell = Cell(question="decoupled from light", task="diagnostics", arm="decoupled")
    for phase, rest in (("explore", 1), ("exploit", 0)):
        moved = {s: _phase(run, "grad_norm", rest) for s, run in runs.items()}
        yield cell.row(
            f"{phase}_share_of_steps_that_update",
            {s: float(np.mean([norm > 0.0 for norm in norms])) for s, norms in moved.items()},
            sum(map(len, moved.values())),
            lambda found: MET if all(x > 0.0 for x in found.values) else NOT_MET,
        )
        failed = {s: _phase(r, "rollout/parse_failure_rate", rest) for s, r in runs.items()}
        for when, window in (("", UPDATES), ("_at_the_end", WINDOW)):
            yield cell.row(
                f"{phase}_parse_failure_rate{when}",
                {s: float(np.mean(rates[-window:])) for s, rates in failed.items()},
                sum(len(rates[-window:]) for rates in failed.values()),
                within(0.0, 0.01),
            )
    for wanted in (VALUE, ASKS, HIGH, PARSE):
        yield level(cell, wanted, last(runs), MEASURED)
    cell = Cell(question="decoupled from light", task="diagnostics", arm="decoupled - outcome")
    yield between(cell, BENIGN_ASKS, runs, outcome, above_zero)


def _phase(run: GrpoRun, name: str, rest: int) -> list[float]:
    """Steps count from 1: exploring has the odd ones, exploiting the even ones."""
    return [value for step, value in run.logged(name) if step % 2 == rest]


def _dial(study: Study) -> Iterator[Row]:
    runs = {weight: study.runs("titration", f"lambda-{weight}") for weight in LAMBDAS}
    cell = Cell(question="lambda dial", task="titration", arm="oracle")
    yield exact(cell, "expected_turning_point", break_even(study.world("titration").oracle))
    starts = {seed: run.start for seed, run in runs["0"].items()}
    yield level(Cell(question="lambda dial", task="titration", arm="start"), ASKS, starts, MEASURED)
    for weight, arm in runs.items():
        cell = Cell(question="lambda dial", task="titration", arm=f"lambda {weight}")
        for wanted in (ASKS, VALUE):
            yield level(cell, wanted, last(arm), MEASURED)
    for low, high in RISING:
        cell = Cell(question="lambda dial", task="titration", arm=f"lambda {high} - {low}")
        yield between(cell, ASKS, runs[high], runs[low], above_zero)
    for weight in ("0", "0.03"):
        cell = Cell(question="lambda dial", task="titration", arm=f"lambda {weight} - 0.1")
        yield between(cell, ASKS, runs[weight], runs["0.1"], not_above_zero)


def _bias(study: Study) -> Iterator[Row]:
    world = study.world("diagnostics")
    for kind, wanted in (("full-severe", 0.0), ("full-mild", 1.0)):
        cell = Cell(question="coverage bias", task="diagnostics", arm=kind)
        samples = study.warmups("diagnostics", kind, "validation")
        passed = {s: float(gate_2(sample, world).passed is True) for s, sample in samples.items()}
        yield cell.row("gate_2_passes", passed, episodes(samples), within(wanted, wanted))
        yield level(cell, HIGH, samples, MEASURED)


def _recommended(study: Study, task: str) -> Iterator[Row]:
    cell = Cell(question="recommended", task=task, arm="recommended")
    runs, world = study.runs(task, "recommended"), study.world(task)
    n = sum(len(run.chosen.sample.rows) for run in runs.values())
    up = {seed: float(len(run.chosen.up)) for seed, run in runs.items()}
    names = sorted({name for run in runs.values() for name in run.chosen.up})
    yield cell.row(" ".join(["flags_up", *names]), up, n, within(0.0, 0.0))
    gaps = {
        seed: measure(
            run.chosen.sample.where(lambda row: row.group == world.high_risk_group), world
        ).oracle_gap.value
        for seed, run in runs.items()
    }
    known = {seed: gap for seed, gap in gaps.items() if gap is not None}
    yield cell.row("high_risk_value_below_oracle", known, n, within(-10.0, 0.10))
    chosen = {seed: run.chosen.sample for seed, run in runs.items()}
    for wanted in (VALUE, ASKS):
        yield level(cell, wanted, chosen, MEASURED)
    yield gained(
        Cell(question="recommended", task=task, arm="recommended - start"), VALUE, runs, MEASURED
    )
