"""Play and judge a policy on a named set, with progress: the common part of several commands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from training.cli.terminal import progress

if TYPE_CHECKING:
    from clinical_envs.episode import Episode
    from oracles.policy import Policy
    from oracles.sample import Sample
    from oracles.world import World


def find_policy(world: World, name: str) -> Policy:
    """A policy by name; a `module:function` is looked for in the current directory first."""
    if ":" in name:
        sys.path.insert(0, str(Path.cwd()))
    return world.policy(name)


def play_set(
    world: World,
    policy: Policy,
    set_name: str,
    *,
    k: int,
    greedy: bool = False,
    seed: int = 0,
    out: Path | None = None,
) -> list[Episode]:
    """Rollouts of every case of a named set."""
    from oracles.evaluation import evaluate

    with progress(f"{world.name}: {policy.name} plays {set_name}") as tell:
        return evaluate(
            world,
            policy,
            world.cases(set_name),
            k=k,
            greedy=greedy,
            seed=seed,
            out=out,
            progress=tell,
        )


def judge(world: World, episodes: list[Episode]) -> Sample:
    """Every episode verified and held against the oracle."""
    from oracles.sample import Sample

    rows = []
    with progress(f"{world.name}: judging") as tell:
        for done, episode in enumerate(episodes, start=1):
            rows.append(world.assess(episode))
            if done % 100 == 0:
                tell(done, len(episodes))
    return Sample(tuple(rows), world.prevalence)
