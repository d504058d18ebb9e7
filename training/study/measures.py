"""What is measured of one arm in one seed, and rows of levels and of paired differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oracles.sample import Column, Sample
from training.study.reading import GrpoRun, sampled
from training.study.rows import Cell, Row, Verdict


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of one sample; None where it has no such episodes."""

    name: str
    of: Callable[[Sample], float | None]


def _mean(column: Column) -> Callable[[Sample], float | None]:
    return lambda sample: sample.mean(column).value


def _in_group(group: str, column: Column) -> Callable[[Sample], float | None]:
    return lambda sample: sample.where(lambda row: row.group == group).mean(column).value


VALUE = Measure("value", _mean(lambda row: row.reward))
ASKS = Measure("mean_asks", _mean(lambda row: row.asks))
ONE_ASK = Measure("one_ask_rate", _mean(lambda row: row.asks == 1))
ZERO_ASK = Measure("zero_ask_rate", _mean(lambda row: row.asks == 0))
HEDGE = Measure("hedge_rate", _mean(lambda row: row.hedge))
PARSE = Measure(
    "parse_failure_rate", lambda s: s.ratio(lambda row: row.invalid_turns, lambda r: r.turns).value
)
HIGH = Measure("high_risk_value", _in_group("high", lambda row: row.reward))
BENIGN_ASKS = Measure("benign_asks", _in_group("benign", lambda row: row.asks))


def level(cell: Cell, wanted: Measure, samples: Mapping[int, Sample], verdict: Verdict) -> Row:
    """A measure of the sampled rollouts of each seed."""
    values = {seed: wanted.of(sampled(sample)) for seed, sample in samples.items()}
    known = {seed: value for seed, value in values.items() if value is not None}
    return cell.row(wanted.name, known, episodes(samples), verdict)


def gained(cell: Cell, wanted: Measure, runs: Mapping[int, GrpoRun], verdict: Verdict) -> Row:
    """After training minus before, on test."""
    starts = {seed: run.start for seed, run in runs.items()}
    return _paired(cell, wanted, last(runs), starts, verdict)


def between(
    cell: Cell,
    wanted: Measure,
    ours: Mapping[int, GrpoRun],
    theirs: Mapping[int, GrpoRun],
    verdict: Verdict,
) -> Row:
    """One arm minus another, both after training."""
    return _paired(cell, wanted, last(ours), last(theirs), verdict)


def _paired(
    cell: Cell,
    wanted: Measure,
    ours: Mapping[int, Sample],
    theirs: Mapping[int, Sample],
    verdict: Verdict,
) -> Row:
    """The difference within each seed that both have."""
    shared = {seed: sample for seed, sample in ours.items() if seed in theirs}
    differences = {}
    for seed, sample in shared.items():
        a, b = wanted.of(sampled(sample)), wanted.of(sampled(theirs[seed]))
        if a is not None and b is not None:
            differences[seed] = a - b
    return cell.row(f"{wanted.name}_difference", differences, episodes(shared), verdict)


def last(runs: Mapping[int, GrpoRun]) -> dict[int, Sample]:
    """What each run plays after its last update."""
    return {seed: run.last for seed, run in runs.items()}


def episodes(samples: Mapping[int, Sample]) -> int:
    """How many there are."""
    return sum(len(sample.rows) for sample in samples.values())
