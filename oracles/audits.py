"""The guarded audit: metrics and flags of every policy in a set of episodes.

Episodes come from any framework as JSON Lines. Whatever cannot be read, verified or scored is
counted and named; nothing is dropped silently, and no claim outgrows its sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from clinical_envs.catalog import load_task
from clinical_envs.episode import DamagedLine, Episode, EpisodeFile, KeyMapping, read_episodes
from clinical_envs.errors import ClinicalEnvsError, InvalidArgument
from clinical_envs.task import Task
from oracles.assessment import Assessment
from oracles.clinical import make_world
from oracles.flags import Flag, Verdict, raise_flags
from oracles.metrics import Metrics, breakdown, measure
from oracles.sample import Estimate, Sample, paired_difference
from oracles.world import World

Source = str | Path | EpisodeFile | Iterable[Episode]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """An episode that contradicts its task or itself: its position (from 1) and why."""

    position: int
    reason: str


@dataclass(frozen=True)
class PolicyAudit:
    """One policy on one split of one world.

    sample: every assessed episode, greedy ones included. gain: paired difference of value to the
    baseline on shared cases; None without a baseline.
    """

    world: World
    policy: str
    split: str | None
    sample: Sample
    flags: tuple[Flag, ...]
    gain: Estimate | None = None

    @cached_property
    def metrics(self) -> Metrics:
        """Overall metrics."""
        return measure(self.sample, self.world)

    @cached_property
    def breakdown(self) -> dict[str, Any]:
        """Metrics overall, by group and by family, as plain data."""
        return breakdown(self.sample, self.world)

    @property
    def up(self) -> tuple[str, ...]:
        """Names of the flags that are up."""
        return tuple(flag.name for flag in self.flags if flag.verdict is Verdict.FLAG)

    @property
    def exploiting(self) -> bool:
        """Whether the value rises above the baseline's while a flag is up."""
        rises = self.gain is not None and self.gain.low is not None and self.gain.low > 0.0
        return rises and bool(self.up)

    @property
    def status(self) -> str:
        """The verdict in a word: PARSE-FAIL, EXPLOITING, FLAGGED, UNCLEAR or CLEAR."""
        if all(row.turns == row.invalid_turns for row in self.sample.rows):
            return "PARSE-FAIL"
        if self.exploiting:
            return "EXPLOITING"
        if self.up:
            return "FLAGGED"
        open_verdicts = (Verdict.UNCLEAR, Verdict.SKIPPED)
        return "UNCLEAR" if any(f.verdict in open_verdicts for f in self.flags) else "CLEAR"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "task": self.world.key,
            "name": self.world.name,
            "policy": self.policy,
            "split": self.split,
            "status": self.status,
            "exploiting": self.exploiting,
            "gain": None if self.gain is None else _estimate(self.gain),
            "metrics": self.breakdown,
            "flags": [_flag(flag) for flag in self.flags],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Every policy found, and everything that was not read, verified or scored."""

    policies: tuple[PolicyAudit, ...]
    damaged: tuple[DamagedLine, ...]
    refused: tuple[Refused, ...]
    unscored: int
    episodes: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "episodes": self.episodes,
            "unscored": self.unscored,
            "damaged": [{"line": line.line, "reason": line.reason} for line in self.damaged],
            "refused": [{"episode": bad.position, "reason": bad.reason} for bad in self.refused],
            "policies": [policy.to_dict() for policy in self.policies],
        }


def audit(
    episodes: Source,
    baseline: Source | None = None,
    *,
    tasks: Sequence[str | Path | Task] = (),
    mapping: KeyMapping | None = None,
) -> Audit:
    """Audit episodes of any number of tasks and policies.

    Args:
        episodes: a JSON Lines file, or episodes.
        baseline: episodes to compare with, task by task, on the cases both have.
        tasks: task files that the episodes name by id.
        mapping: how foreign keys are renamed.

    Raises:
        InvalidArgument: a file cannot be read, or the baseline of a task has several policies.
    """
    worlds = {world.key: world for world in map(make_world, tasks)}
    file = _file(episodes, mapping)
    found = _Collected(worlds)
    found.add(file.episodes)
    reference = _Collected(worlds)
    if baseline is not None:
        reference.add(_file(baseline, mapping).episodes)
    policies = [
        _audit_policy(found.worlds[key.task], key, rows, reference.rows)
        for key, rows in found.rows.items()
    ]
    return Audit(
        policies=tuple(policies),
        damaged=tuple(file.damaged),
        refused=tuple(found.refused),
        unscored=found.unscored,
        episodes=len(file.episodes),
    )


class _Key(NamedTuple):
    task: str
    policy: str
    split: str | None


_Rows = dict[_Key, list[Assessment]]


class _Collected:
    """Assessed episodes by task, policy and split."""

    def __init__(self, worlds: dict[str, World]) -> None:
        self.worlds = worlds
        self.rows: _Rows = {}
        self.refused: list[Refused] = []
        self.unscored = 0
        self._seen: set[tuple[object, ...]] = set()

    def add(self, episodes: Iterable[Episode]) -> None:
        for position, episode in enumerate(episodes, start=1):
            if "error" in episode.meta:
                self.unscored += 1
                continue
            try:
                self._add(episode, position)
            except ClinicalEnvsError as error:
                self.refused.append(Refused(position=position, reason=str(error)))

    def _add(self, episode: Episode, position: int) -> None:
        world, episode = self._world(episode)
        policy = episode.policy or "policy"
        if episode.case is not None and episode.rollout is not None:
            identity = (world.key, policy, episode.case_id, episode.rollout, episode.greedy)
            if identity in self._seen:
                raise InvalidArgument(
                    f"case {episode.case_id}, rollout {episode.rollout} of {policy} stands twice"
                )
            self._seen.add(identity)
        key = _Key(world.key, policy, episode.case.split if episode.case else None)
        self.rows.setdefault(key, []).append(world.assess(episode))

    def _world(self, episode: Episode) -> tuple[World, Episode]:
        name = episode.task
        if name.endswith((".yaml", ".yml")):
            task = load_task(name)
            self.worlds.setdefault(task.key, make_world(task))
            return self.worlds[task.key], episode.model_copy(update={"task": task.key})
        if name not in self.worlds:
            self.worlds[name] = make_world(name)
        world = self.worlds[name]
        return world, episode if world.key == name else episode.model_copy(
            update={"task": world.key}
        )


def _audit_policy(world: World, key: _Key, rows: list[Assessment], reference: _Rows) -> PolicyAudit:
    sample = Sample(tuple(rows), world.prevalence)
    sampled = sample.where(lambda row: not row.greedy)
    baselines = {other: rows for other, rows in reference.items() if other.task == world.key}
    names = {other.policy for other in baselines}
    if len(names) > 1:
        raise InvalidArgument(f"the baseline of {world.key} holds {sorted(names)}; give one policy")
    theirs = gain = None
    if baselines:
        rows_there = tuple(row for there in baselines.values() for row in there if not row.greedy)
        theirs = Sample(rows_there, world.prevalence)
        gain = paired_difference(sampled, theirs, lambda row: row.reward)
    flags = raise_flags(sampled, world, theirs)
    return PolicyAudit(world, key.policy, key.split, sample, flags, gain)


def _file(source: Source, mapping: KeyMapping | None) -> EpisodeFile:
    if isinstance(source, str | Path):
        return read_episodes(source, mapping)
    if isinstance(source, EpisodeFile):
        return source
    return EpisodeFile(source="<episodes>", episodes=list(source))


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {name: getattr(estimate, name) for name in Estimate.__slots__}


def _flag(flag: Flag) -> dict[str, Any]:
    return {
        "flag": flag.name,
        "verdict": flag.verdict.value,
        "rule": flag.rule,
        "threshold": flag.threshold,
        "rate": _estimate(flag.rate),
        "detail": flag.detail,
        "advice": flag.advice,
        "examples": [
            {
                "case": row.case,
                "rollout": row.episode.rollout,
                "decision": row.decision,
                "oracle_decision": row.oracle_decision,
            }
            for row in flag.examples
        ],
    }
