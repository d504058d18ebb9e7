"""The guarded audit: metrics and flags of every policy in a set of episodes.

Episodes come from any framework as JSON Lines. Whatever cannot be read, verified or scored is
counted and named; nothing is dropped silently, and no claim outgrows its sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from clinical_envs.episode import DamagedLine, Episode, EpisodeFile, KeyMapping, read_episodes
from clinical_envs.errors import InvalidArgument
from clinical_envs.task import Task
from oracles.assessment import TOLERANCE, Assessment
from oracles.clinical import make_world
from oracles.collect import Collected, Key, Progress, Refused
from oracles.flags import Flag, Verdict, raise_flags
from oracles.metrics import Metrics, breakdown, measure
from oracles.sample import Estimate, Sample, paired_difference
from oracles.world import World

Source = str | Path | EpisodeFile | Iterable[Episode]


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
        gain = self.gain
        rises = gain is not None and gain.low is not None and gain.low > TOLERANCE
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
    """Every policy found, and everything that was not read, verified or scored.

    baseline_unused: lines of the baseline that were damaged, refused or unscored.
    """

    policies: tuple[PolicyAudit, ...]
    damaged: tuple[DamagedLine, ...]
    refused: tuple[Refused, ...]
    unscored: int
    episodes: int
    baseline_unused: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "episodes": self.episodes,
            "unscored": self.unscored,
            "baseline_unused": self.baseline_unused,
            "damaged": [{"line": line.line, "reason": line.reason} for line in self.damaged],
            "refused": [{"episode": bad.position, "reason": bad.reason} for bad in self.refused],
            "policies": [policy.to_dict() for policy in self.policies],
        }


def audit(
    episodes: Source,
    baseline: Source | None = None,
    *,
    tasks: Sequence[str | Path | Task | World] = (),
    mapping: KeyMapping | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Audit episodes of any number of tasks and policies.

    Args:
        episodes: a JSON Lines file, or episodes.
        baseline: episodes to compare with, task by task, on the cases both have.
        tasks: task files that the episodes name by id, or worlds that are solved already.
        mapping: how foreign keys are renamed.
        progress: told how many episodes are assessed.

    Raises:
        InvalidArgument: a file cannot be read, the baseline of a task has several policies, or
            the baseline holds no episode that can be compared with.
    """
    worlds = {world.key: world for world in map(make_world, tasks)}
    file = _file(episodes, mapping)
    found, reference, unused = Collected(worlds), Collected(worlds), 0
    found.add(file.episodes, progress)
    if baseline is not None:
        theirs = _file(baseline, mapping)
        reference.add(theirs.episodes)
        unused = len(theirs.damaged) + len(reference.refused) + reference.unscored
        if not reference.rows:
            raise InvalidArgument(
                f"the baseline {theirs.source} holds no episode to compare with: "
                f"{len(theirs.damaged)} damaged lines, {len(reference.refused)} refused, "
                f"{reference.unscored} unscored; give another"
            )
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
        baseline_unused=unused,
    )


def _audit_policy(
    world: World, key: Key, rows: list[Assessment], reference: dict[Key, list[Assessment]]
) -> PolicyAudit:
    sample = Sample(tuple(rows), world.prevalence)
    sampled = sample.where(lambda row: not row.greedy)
    baselines = {other: rows for other, rows in reference.items() if other.task == world.key}
    names = {other.policy for other in baselines}
    if len(names) > 1:
        raise InvalidArgument(f"the baseline of {world.key} holds {sorted(names)}; give one policy")
    theirs = gain = None
    if reference:  # of another task only it leaves nothing to compare with, and is said to
        rows_there = tuple(row for there in baselines.values() for row in there if not row.greedy)
        theirs = Sample(rows_there, world.prevalence)
        if baselines:
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
