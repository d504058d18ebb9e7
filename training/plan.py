"""Which cases each policy update plays: fixed before the first step, so that a resumed run and
every process agree.
"""  # noqa: D205

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from clinical_envs.case import Case
from clinical_envs.errors import InvalidArgument
from oracles.clinical import ClinicalWorld
from training.config import Config


def training_plan(world: ClinicalWorld, config: Config) -> list[int]:
    """Positions in the `train` set, `optim.groups` for each of `optim.steps` updates.

    Without `reward.high_risk_share` the set is walked in random order, again and again; with it
    each update draws that share of its groups (rounded, at least one) from the high-risk cases.

    Raises:
        InvalidArgument: a share is asked for and the set has no such cases.
    """
    cases: Sequence[Case] = world.cases("train")
    rng = np.random.default_rng([config.seed, 1])
    optim, share = config.optim, config.reward.high_risk_share
    if share is None:
        walk = _endless(list(range(len(cases))), rng)
        return [case for _ in range(optim.steps) for case in _distinct(walk, optim.groups)]
    high = [i for i, case in enumerate(cases) if _group(world, case) == world.high_risk_group]
    others = [i for i in range(len(cases)) if i not in set(high)]
    n_high = max(1, round(share * optim.groups)) if share > 0.0 else 0
    if n_high > len(high) or optim.groups - n_high > len(others):
        raise InvalidArgument(
            f"the train set has {len(high)} high-risk and {len(others)} other cases, too few for "
            f"{n_high} and {optim.groups - n_high} groups an update; change high_risk_share"
        )
    high_walk, other_walk = _endless(high, rng), _endless(others, rng)
    plan: list[int] = []
    for _ in range(optim.steps):
        step = _distinct(high_walk, n_high) + _distinct(other_walk, optim.groups - n_high)
        plan += [step[int(i)] for i in rng.permutation(optim.groups)]
    return plan


def _distinct(walk: Iterator[int], n: int) -> list[int]:
    """The next n of a walk without one twice, so that no two groups of an update are the same."""
    chosen: dict[int, None] = {}
    while len(chosen) < n:
        chosen[next(walk)] = None
    return list(chosen)


def _endless(items: list[int], rng: np.random.Generator) -> Iterator[int]:
    while True:
        yield from (items[int(i)] for i in rng.permutation(len(items)))


def _group(world: ClinicalWorld, case: Case) -> str:
    return world.task.risk_groups[world.task.group_of_state[case.state]]
