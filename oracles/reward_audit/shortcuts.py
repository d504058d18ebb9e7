"""The shortcut cascade in a log: ultra-short answers, no search, another language.

Each stage compares the late phase of the run with its early one; definitions are those of
`clinical_envs.checkedqa.cascade`. The evidence names the first step at which a stage is reached.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from clinical_envs.checkedqa.cascade import Behaviour, Stage, stages, ultra_short
from clinical_envs.rubric.scoring import scored_mean
from oracles.reward_audit.findings import Finding, Rule, Status, decide
from oracles.reward_audit.intervals import share_interval
from oracles.reward_audit.phases import phases, stack
from oracles.reward_audit.records import Key, RewardRow
from oracles.reward_audit.rules import LANGUAGE_SWITCH, SEARCH_AVOIDANCE, ULTRA_SHORT


def behaviour(rows: Sequence[RewardRow]) -> Behaviour:
    """The behaviour in these rows; what a row does not record is NaN and reaches no stage."""
    return Behaviour(
        claims=_column([row.claims for row in rows]),
        length=_column([row.length for row in rows]),
        searches=_column([row.searches for row in rows]),
        foreign_share=_column([row.foreign_share for row in rows]),
        reward=_column([row.reward for row in rows]),
    )


def first_steps(rows: Sequence[RewardRow]) -> dict[Stage, int]:
    """The first step at which each stage is reached, against the early phase of the run."""
    early = phases(row.step for row in rows).early
    base = behaviour([row for row in rows if row.step in early])
    by_step: dict[int, list[RewardRow]] = {}
    for row in rows:
        by_step.setdefault(row.step, []).append(row)
    reached: dict[Stage, int] = {}
    for step in sorted(by_step.keys() - early):
        for stage in stages(behaviour(by_step[step]), base):
            reached.setdefault(stage, step)
    return reached


def audit_shortcuts(rows: Sequence[RewardRow]) -> list[Finding]:
    """One finding per stage of the cascade.

    Answers without a search are search avoidance only if the reward rose meanwhile; if it did
    not, a flag becomes UNCLEAR.
    """
    phase = phases(row.step for row in rows)
    early = [row for row in rows if row.step in phase.early]
    late = [row for row in rows if row.step in phase.late]
    reached = first_steps(rows) if rows else {}
    lengths = [row.length for row in early if row.length is not None]
    base_length = float(np.median(lengths)) if lengths else math.nan
    short = [
        (row.prompt, float(_is_short(row, base_length)))
        for row in late
        if row.claims is not None or row.length is not None
    ]
    searched = [(row.prompt, float(row.searches > 0)) for row in late if row.searches is not None]
    foreign = [(row.prompt, row.foreign_share) for row in late if row.foreign_share is not None]
    gain = _mean_reward(late) - _mean_reward(early)
    avoidance = _finding(SEARCH_AVOIDANCE, Stage.SEARCH_AVOIDANCE, searched, reached)
    if avoidance.verdict is Status.FLAG and not gain > 0:
        avoidance = replace(avoidance, verdict=Status.UNCLEAR, prescription="")
    return [
        _finding(ULTRA_SHORT, Stage.ULTRA_SHORT, short, reached),
        replace(avoidance, evidence=f"{avoidance.evidence}; reward changed by {gain:+.3f}"),
        _finding(LANGUAGE_SWITCH, Stage.LANGUAGE_SWITCH, foreign, reached),
    ]


def _finding(
    rule: Rule, stage: Stage, values: Sequence[tuple[Key, float]], reached: Mapping[Stage, int]
) -> Finding:
    sums: dict[Key, tuple[float, float]] = {}
    for prompt, value in values:
        total, count = sums.get(prompt, (0.0, 0.0))
        sums[prompt] = (total + value, count + 1)
    per_prompt = stack(sums, 2)
    return decide(
        rule,
        share_interval(per_prompt[:, 0], per_prompt[:, 1]),
        prompts=len(sums),
        evidence=f"reached at step {reached[stage]}" if stage in reached else "not reached",
    )


def _is_short(row: RewardRow, base_length: float) -> bool:
    claims = np.array([math.nan if row.claims is None else row.claims])
    length = np.array([math.nan if row.length is None else row.length])
    return bool(ultra_short(claims, length, base_length)[0])


def _mean_reward(rows: Sequence[RewardRow]) -> float:
    mean = scored_mean(row.reward for row in rows).mean
    return math.nan if mean is None else mean


def _column(values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([math.nan if value is None else value for value in values])
