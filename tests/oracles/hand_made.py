"""Assessments written by hand, and a world that has nothing but names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from clinical_envs.episode import CaseRef, Episode
from oracles.assessment import Assessment
from oracles.sample import Sample

PREVALENCE = MappingProxyType({"low": 0.9, "high": 0.1})


def row(case: int = 0, *, rollout: int = 0, split: str = "heldout", **facts: Any) -> Assessment:
    """One assessed rollout of a case; a plain commit after one ask unless said otherwise."""
    greedy = facts.pop("greedy", False)
    episode = Episode(
        task="HandMade-v0@1.0.0",
        family="only",
        turns=(),
        case=CaseRef(split=split, seed=0, index=case),
        policy="by_hand",
        rollout=rollout,
        meta={"greedy": True} if greedy else {},
    )
    plain: dict[str, Any] = {
        "episode": episode,
        "case": str(episode.case_id),
        "family": "only",
        "group": "low",
        "reward": 0.0,
        "expected": False,
        "decision": "treat",
        "turns": 2,
        "asks": 1,
        "repeats": 0,
        "invalid_turns": 0,
    }
    return Assessment(**plain | facts)


def sample(rows: Iterable[Assessment], prevalence: Mapping[str, float] = PREVALENCE) -> Sample:
    """The rows as a sample of the hand-made world."""
    return Sample(tuple(rows), prevalence)


def caught(n: int, of: int, yes: Mapping[str, Any], no: Mapping[str, Any]) -> Sample:
    """One rollout of each of `of` cases, of which the first n have the facts `yes`."""
    return sample(row(i, **(yes if i < n else no)) for i in range(of))


@dataclass(frozen=True)
class NamesOnly:
    """What the statistics need of a world."""

    key: str = "HandMade-v0@1.0.0"
    name: str = "hand_made"
    prevalence: Mapping[str, float] = field(default_factory=lambda: PREVALENCE)
    high_risk_group: str | None = "high"
    families: tuple[str, ...] = ("only",)
    decisions: tuple[str, ...] = ("wait", "treat")
    oracle_decisions: Mapping[str, float] | None = None
    headroom: tuple[float, float] | None = None

    def cases(self, set_name: str) -> Any:
        raise NotImplementedError

    def policy(self, name: str) -> Any:
        raise NotImplementedError

    def reset(self, case: Any) -> Any:
        raise NotImplementedError

    def assess(self, episode: Episode) -> Assessment:
        raise NotImplementedError
