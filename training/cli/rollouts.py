"""Play and judge a policy on a named set, with progress: the common part of several commands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from training.cli.terminal import progress

if TYPE_CHECKING:
    from clinical_envs.episode import Episode
    from oracles.policy import BatchPolicy, Policy
    from oracles.sample import Sample
    from oracles.world import World


def find_policy(world: World, name: str) -> Policy | BatchPolicy:
    """A policy by name, a checkpoint as `hf:PATH[#ADAPTER]`, or a function as `module:function`.

    A module is looked for in the current directory first.

    Raises:
        InvalidArgument: no such policy.
        MissingExtra: a checkpoint is asked for without the training stack.
    """
    if name.startswith("hf:"):
        return _checkpoint(world, name)
    if ":" in name:
        sys.path.insert(0, str(Path.cwd()))
    return world.policy(name)


def _checkpoint(world: World, name: str) -> BatchPolicy:
    from clinical_envs.errors import InvalidArgument, require
    from oracles.clinical import ClinicalWorld

    if not isinstance(world, ClinicalWorld):
        raise InvalidArgument(f"{world.name} is no clinical task; checkpoints play those only")
    for module in ("torch", "transformers", *(["peft"] if "#" in name else [])):
        require(module, "train")
    from transformers.utils.logging import disable_progress_bar

    from training.checkpoint_policy import load_checkpoint_policy

    disable_progress_bar()
    with progress(f"loading {name}"):
        return load_checkpoint_policy(world.task, name)


def play_set(
    world: World,
    policy: Policy | BatchPolicy,
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
