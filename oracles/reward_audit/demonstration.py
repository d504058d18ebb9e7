"""Collapse, the moderate optimum and the cascade on a toy policy, or which of them is absent.

Each statement carries what was measured and whether it holds; none is assumed to. `STRONG` and
`GPT_LIKE` have one confusion matrix and differ only in their verdict on claims off their form, so
the two together separate strength from leniency.

Two choices bear on the bar of collapse and are shown beside it. `COLLAPSED` supports almost
nothing, as published; a checker that splits its 3 % evenly leaves more spread. And early in
training the cost of a search spreads the reward under any checker, until the policy has settled on
not searching.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

from clinical_envs.checkedqa.cascade import Stage
from clinical_envs.checkedqa.simulated import (
    COLLAPSED,
    GPT_LIKE,
    MODERATE,
    SIMULATED,
    STRONG,
    Confusion,
)
from clinical_envs.errors import InvalidArgument
from oracles.reward_audit.intervals import Interval
from oracles.reward_audit.training_model import STEPS, Training, train

SEEDS = (0, 1, 2, 3, 4)
SPREAD_LIMIT = 0.1
HORIZONS = (200, STEPS)
"""Training steps after which the policies are compared: the picture changes between them."""

_WINDOW = 20

_EVEN_ROW = (0.015, 0.970, 0.015)
COLLAPSED_EVENLY = Confusion(
    name="evenly collapsed",
    entail=_EVEN_ROW,
    neutral=_EVEN_ROW,
    contradict=_EVEN_ROW,
    off_form=_EVEN_ROW,
)

GATES: tuple[tuple[Stage, ...], ...] = tuple(tuple(Stage)[:number] for number in range(4))
"""Counter-measures switched on one by one, in the order of the stages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A checker with counter-measures, trained once per seed.

    `f1` is the mean of the last 20 steps before each of `HORIZONS`, the spreads are means over all
    steps. `reached` holds per stage the first step in each seed, `None` where it never came.
    """

    checker: str
    gates: tuple[Stage, ...]
    f1: tuple[Interval, ...]
    reward_spread: Interval
    phi_spread: Interval
    reached: dict[Stage, tuple[int | None, ...]]


@dataclass(frozen=True, slots=True)
class Statement:
    """A claim about the demonstration, whether it holds here, and what was measured."""

    claim: str
    holds: bool
    measured: str


@dataclass(frozen=True, slots=True)
class Demonstration:
    """All settings and what they show."""

    settings: tuple[Setting, ...]
    statements: tuple[Statement, ...]


def demonstrate(seeds: Sequence[int] = SEEDS) -> Demonstration:
    """Train every checker without counter-measures, and the lenient one with them one by one.

    Raises:
        InvalidArgument: fewer than three seeds.
    """
    checkers = (*SIMULATED, COLLAPSED_EVENLY)
    free = {one.name: [train(one, seed=seed) for seed in seeds] for one in checkers}
    gated = [[train(GPT_LIKE, gates, seed=seed) for seed in seeds] for gates in GATES[1:]]
    settings = [_setting(name, (), runs) for name, runs in free.items()]
    settings += [
        _setting(GPT_LIKE.name, gates, runs) for gates, runs in zip(GATES[1:], gated, strict=True)
    ]
    cascade = [free[GPT_LIKE.name], *gated]
    statements = (
        *(
            _collapse(free[one.name], free[MODERATE.name], one.name, steps)
            for one in (COLLAPSED, COLLAPSED_EVENLY)
            for steps in (STEPS, _WINDOW)
        ),
        *(
            _optimum(free[MODERATE.name], free[one.name], one.name, horizon)
            for horizon in HORIZONS
            for one in SIMULATED
            if one is not MODERATE
        ),
        *(_earlier(free[one.name], free[MODERATE.name], one.name) for one in (STRONG, GPT_LIKE)),
        *(_revealed(gates, runs) for gates, runs in zip(GATES, cascade, strict=True)),
    )
    return Demonstration(tuple(settings), statements)


def over_seeds(values: Sequence[float]) -> Interval:
    """Mean with its 95 % t interval over seeds.

    Raises:
        InvalidArgument: fewer than three seeds.
    """
    if len(values) < 3:
        raise InvalidArgument(f"{len(values)} seeds give no interval; use three or more")
    mean, error = float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))
    half = float(t.ppf(0.975, len(values) - 1)) * error
    return Interval(mean, mean - half, mean + half)


def _f1(run: Training, horizon: int) -> float:
    return float(run.f1[horizon - _WINDOW : horizon].mean())


def _setting(checker: str, gates: tuple[Stage, ...], runs: Sequence[Training]) -> Setting:
    return Setting(
        checker=checker,
        gates=gates,
        f1=tuple(over_seeds([_f1(run, horizon) for run in runs]) for horizon in HORIZONS),
        reward_spread=over_seeds([float(run.reward_spread.mean()) for run in runs]),
        phi_spread=over_seeds([float(run.phi_spread.mean()) for run in runs]),
        reached={stage: tuple(run.reached.get(stage) for run in runs) for stage in Stage},
    )


def _collapse(
    collapsed: Sequence[Training], moderate: Sequence[Training], name: str, steps: int
) -> Statement:
    ratio = over_seeds(
        [
            float(one.reward_spread[:steps].mean() / other.reward_spread[:steps].mean())
            for one, other in zip(collapsed, moderate, strict=True)
        ]
    )
    return Statement(
        f"over {steps} steps the {name} checker leaves under a tenth of the moderate reward spread",
        ratio.high < SPREAD_LIMIT,
        f"ratio {ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]",
    )


def _optimum(
    moderate: Sequence[Training], other: Sequence[Training], name: str, horizon: int
) -> Statement:
    gain = over_seeds(
        [_f1(one, horizon) - _f1(two, horizon) for one, two in zip(moderate, other, strict=True)]
    )
    return Statement(
        f"after {horizon} steps the moderate checker has a higher F1 than the {name} one",
        gain.low > 0,
        f"difference {gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]",
    )


def _earlier(strong: Sequence[Training], moderate: Sequence[Training], name: str) -> Statement:
    steps = [
        (one.reached.get(Stage.ULTRA_SHORT), two.reached.get(Stage.ULTRA_SHORT))
        for one, two in zip(strong, moderate, strict=True)
    ]
    return Statement(
        f"the {name} checker reaches the first stage before the moderate one in every seed",
        all(mine is not None and (theirs is None or mine < theirs) for mine, theirs in steps),
        f"steps (this, moderate): {steps}",
    )


def _revealed(gates: tuple[Stage, ...], runs: Sequence[Training]) -> Statement:
    """With the first k remedies the first stage to come is the next one; with all of them, none."""
    first = [min(run.reached, key=run.reached.__getitem__, default=None) for run in runs]
    expected = tuple(Stage)[len(gates)] if len(gates) < len(Stage) else None
    remedies = " + ".join(gates) or "none"
    return Statement(
        f"remedies against {remedies}: the first stage reached is {expected or 'none'}",
        all(one == expected for one in first),
        f"first stages {[one and one.value for one in first]}",
    )
