"""Play a policy on a set of cases, k rollouts a case; a killed run resumes where it stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clinical_envs.episode import Episode, read_episodes
from clinical_envs.errors import InvalidArgument
from oracles.policy import Policy
from oracles.world import World

Progress = Callable[[int, int], None]
_Done = frozenset[tuple[str | None, int | None, bool]]


def evaluate(
    world: World,
    policy: Policy,
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
        policy: who plays.
        cases: from `world.cases`.
        k: sampled rollouts a case.
        greedy: add a rollout in which the policy plays its most likely actions.
        seed: of the policy's own randomness; with the case and the rollout it fixes the draws.
        out: JSON Lines file. An existing one is continued: what it holds is not played again, and
            a last line that a kill left unfinished is cut.
        progress: called with cases finished and cases in all.

    Raises:
        InvalidArgument: k below 1, no cases, or `out` holds something else.
    """
    if k < 1:
        raise InvalidArgument(f"k is {k}; play at least one rollout a case")
    if not cases:
        raise InvalidArgument("the set has no cases")
    if out is None:
        return list(_play(world, policy, cases, k, greedy, seed, frozenset(), progress))
    path = Path(out)
    kept = _resume(path, world, policy, cases)
    done = frozenset((episode.case_id, episode.rollout, episode.greedy) for episode in kept)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as lines:
        for episode in _play(world, policy, cases, k, greedy, seed, done, progress):
            lines.write(episode.to_json() + "\n")
            lines.flush()
            kept.append(episode)
    return kept


def _play(
    world: World,
    policy: Policy,
    cases: Sequence[Any],
    k: int,
    greedy: bool,
    seed: int,
    done: _Done,
    progress: Progress | None,
) -> Iterator[Episode]:
    wanted = [(rollout, False) for rollout in range(k)] + [(0, True)] * greedy
    for finished, case in enumerate(cases, start=1):
        case_id = f"{case.split}/{case.seed}/{case.index}"
        played: Episode | None = None
        for rollout, is_greedy in wanted:
            if (case_id, rollout, is_greedy) in done:
                continue
            if played is None or not policy.deterministic:
                rng = _generator(case_id, policy.name, rollout, is_greedy, seed)
                played = _rollout(world, policy, case, rollout, is_greedy, rng)
            meta = {"greedy": True} if is_greedy else {}
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


def _resume(path: Path, world: World, policy: Policy, cases: Sequence[Any]) -> list[Episode]:
    """What a file already holds; an unfinished last line is cut from it."""
    if not path.exists() or path.stat().st_size == 0:
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    file = read_episodes(path)
    if file.damaged:
        bad = file.damaged[0]
        raise InvalidArgument(f"{path}, line {bad.line}: {bad.reason}; mend or move the file")
    splits = {case.split for case in cases}
    for episode in file.episodes:
        split = episode.case.split if episode.case else None
        if (episode.task, episode.policy) != (world.key, policy.name) or split not in splits:
            raise InvalidArgument(
                f"{path} holds episodes of {episode.policy} on {episode.task} ({split}), not of "
                f"{policy.name} on {world.key}; choose another file"
            )
    return file.episodes
