"""Play a policy on a set of cases, k rollouts a case; a killed run resumes where it stopped."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clinical_envs.episode import Episode, read_episodes
from clinical_envs.errors import InvalidArgument
from oracles.policy import BatchPolicy, Policy, Rollout
from oracles.world import World

Progress = Callable[[int, int], None]
_Identity = tuple[str | None, int | None, bool]


def evaluate(
    world: World,
    policy: Policy | BatchPolicy,
    cases: Sequence[Any],
    *,
    k: int = 12,
    greedy: bool = False,
    seed: int = 0,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> list[Episode]:
    """Play k sampled rollouts of every case, and one greedy one where asked.

    Args:
        world: what is played.
        policy: who plays; one that plays batches is given whole cases, and what it played is
            written after each batch.
        cases: from `world.cases`.
        k: sampled rollouts a case.
        greedy: add a rollout in which the policy plays its most likely actions.
        seed: of the policy's own randomness; with the case and the rollout it fixes the draws.
        out: JSON Lines file. An existing one is continued: what it holds is not played again,
            a last line that a kill left unfinished is cut, and other rollouts stay in it. Where
            the policy has a `weights_digest`, its episodes hold it, and those of other weights
            under the same name are not continued.
        progress: called with cases finished and cases in all.

    Raises:
        InvalidArgument: k below 1, no cases, or `out` holds something else.
    """
    if k < 1:
        raise InvalidArgument(f"k is {k}; play at least one rollout a case")
    if not cases:
        raise InvalidArgument("the set has no cases")
    if out is None:
        plan = _Plan(k, greedy, seed, _weights(policy))
        return list(_played(world, policy, cases, plan, progress))
    path = Path(out)
    kept = {_identity(episode): episode for episode in _resume(path, world, policy, cases, seed)}
    plan = _Plan(k, greedy, seed, _weights(policy), frozenset(kept))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as lines:
        for episode in _played(world, policy, cases, plan, progress):
            lines.write(episode.to_json() + "\n")
            lines.flush()
            kept[_identity(episode)] = episode
    wanted = [(_case_id(case), *rollout) for case in cases for rollout in plan.rollouts()]
    return [kept[identity] for identity in wanted]


class _Plan(NamedTuple):
    """What is to be played.

    weights: of the policy, where it has some. done: what a file holds already.
    """

    k: int
    greedy: bool
    seed: int
    weights: dict[str, str]
    done: frozenset[_Identity] = frozenset()

    def rollouts(self) -> list[tuple[int, bool]]:
        """Number and greediness of every rollout of a case."""
        return [(number, False) for number in range(self.k)] + [(0, True)] * self.greedy

    def missing(self, case: Any) -> list[tuple[int, bool]]:
        """Those of a case that are not done."""
        case_id = _case_id(case)
        return [rollout for rollout in self.rollouts() if (case_id, *rollout) not in self.done]

    def meta(self) -> dict[str, Any]:
        """What every episode says of how it was played."""
        return {"seed": self.seed} | self.weights


def _played(
    world: World,
    policy: Policy | BatchPolicy,
    cases: Sequence[Any],
    plan: _Plan,
    progress: Progress | None,
) -> Iterator[Episode]:
    if isinstance(policy, BatchPolicy):
        return _play_batches(policy, cases, plan, progress)
    return _play(world, policy, cases, plan, progress)


def _play_batches(
    policy: BatchPolicy, cases: Sequence[Any], plan: _Plan, progress: Progress | None
) -> Iterator[Episode]:
    size = max(1, policy.batch_size // len(plan.rollouts()))
    for start in range(0, len(cases), size):
        part = cases[start : start + size]
        rollouts = [
            Rollout(
                case=case, number=n, greedy=mode, seed=_seed(_case_id(case), n, mode, plan.seed)
            )
            for case in part
            for n, mode in plan.missing(case)
        ]
        for episode in policy.play(rollouts) if rollouts else ():
            yield episode.model_copy(update={"meta": episode.meta | plan.meta()})
        if progress is not None:
            progress(start + len(part), len(cases))


def _play(
    world: World, policy: Policy, cases: Sequence[Any], plan: _Plan, progress: Progress | None
) -> Iterator[Episode]:
    for finished, case in enumerate(cases, start=1):
        played: Episode | None = None
        for rollout, is_greedy in plan.missing(case):
            if played is None or not policy.deterministic:
                rng = _generator(_case_id(case), policy.name, rollout, is_greedy, plan.seed)
                played = _rollout(world, policy, case, rollout, is_greedy, rng)
            meta = played.meta | plan.meta() | ({"greedy": True} if is_greedy else {})
            yield played.model_copy(update={"rollout": rollout, "meta": meta})
        if progress is not None:
            progress(finished, len(cases))


def _rollout(
    world: World, policy: Policy, case: Any, rollout: int, greedy: bool, rng: np.random.Generator
) -> Episode:
    running = world.reset(case)
    while not running.over:
        running.step(policy.act(running.view, rng, greedy=greedy))
    return running.episode(policy=policy.name, rollout=rollout, greedy=greedy)


def _generator(
    case_id: str, policy: str, rollout: int, greedy: bool, seed: int
) -> np.random.Generator:
    identity = json.dumps([case_id, policy, rollout, greedy, seed])
    return np.random.default_rng(list(hashlib.sha256(identity.encode()).digest()))


def _seed(case_id: str, rollout: int, greedy: bool, seed: int) -> int:
    """Of a rollout in a batch: without the policy, so that two checkpoints share their draws."""
    identity = json.dumps([case_id, rollout, greedy, seed])
    return int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8], "little")


def _weights(policy: Policy | BatchPolicy) -> dict[str, str]:
    """Tells the checkpoints apart that lay under one name at different times."""
    digest = getattr(policy, "weights_digest", "")
    return {"weights": digest[:12]} if digest else {}


def _case_id(case: Any) -> str:
    return f"{case.split}/{case.seed}/{case.index}"


def _identity(episode: Episode) -> _Identity:
    return episode.case_id, episode.rollout, episode.greedy


def _resume(
    path: Path, world: World, policy: Policy | BatchPolicy, cases: Sequence[Any], seed: int
) -> list[Episode]:
    """What a file already holds; an unfinished last line is cut from it."""
    if not path.exists() or path.stat().st_size == 0:
        return []
    whole = path.read_bytes().rfind(b"\n") + 1
    if whole < path.stat().st_size:
        os.truncate(path, whole)
    file = read_episodes(path)
    if file.damaged:
        bad = file.damaged[0]
        raise InvalidArgument(f"{path}, line {bad.line}: {bad.reason}; mend or move the file")
    splits, weights = {case.split for case in cases}, _weights(policy)
    hashes: dict[str | None, str | None] = {
        _case_id(case): getattr(case, "hash", None) for case in cases
    }
    for episode in file.episodes:
        split = episode.case.split if episode.case else None
        if (episode.task, episode.policy) != (world.key, policy.name) or split not in splits:
            raise InvalidArgument(
                f"{path} holds episodes of {episode.policy} on {episode.task} ({split}), not of "
                f"{policy.name} on {world.key} ({', '.join(sorted(splits))}); choose another file"
            )
        played = episode.case.hash if episode.case else None
        if hashes.get(episode.case_id) not in (None, played):
            raise InvalidArgument(
                f"{path} holds another case {episode.case_id}, such as one with another rho; "
                "choose another file"
            )
        if any(episode.meta.get(name) != value for name, value in weights.items()):
            raise InvalidArgument(
                f"{path} was played with other weights than {policy.name} has now; choose another "
                "file, or move that one"
            )
        if episode.meta.get("seed") != seed:
            raise InvalidArgument(
                f"{path} was played with seed {episode.meta.get('seed')}, not {seed}; choose "
                "another file"
            )
    return file.episodes
