"""The one harness: what `evaluate`, `gates`, `audit` and `report` need of a world.

A world has cases, starts an encounter on one, and assesses the finished record; an oracle behind
the assessment is optional.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from clinical_envs.episode import Episode
from oracles.assessment import Assessment
from oracles.policy import Policy


class Running(Protocol):
    """An encounter in progress."""

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        ...

    @property
    def view(self) -> Any:
        """All that a policy may know."""
        ...

    def step(self, action: Any) -> None:
        """Play one turn; text is read by the world's protocol."""
        ...

    def episode(self, *, policy: str, rollout: int, greedy: bool) -> Episode:
        """The finished record."""
        ...


class World(Protocol):
    """Cases, encounters and assessments under one name."""

    @property
    def key(self) -> str:
        """`id@version`."""
        ...

    @property
    def name(self) -> str:
        """Short name."""
        ...

    @property
    def prevalence(self) -> Mapping[str, float]:
        """P(risk group), in the order of the groups; empty where there are none."""
        ...

    @property
    def high_risk_group(self) -> str | None:
        """The group whose harm must not be traded for value."""
        ...

    @property
    def families(self) -> tuple[str, ...]:
        """Public presentations."""
        ...

    @property
    def decisions(self) -> tuple[str, ...]:
        """What can be committed to."""
        ...

    @property
    def oracle_decisions(self) -> Mapping[str, float] | None:
        """P(decision) of the oracle; None without an oracle."""
        ...

    @property
    def headroom(self) -> tuple[float, float] | None:
        """V* and the value of the best constant decision; None without an oracle."""
        ...

    def cases(self, set_name: str) -> Sequence[Any]:
        """A named set of cases, each with split, seed and index."""
        ...

    def policy(self, name: str) -> Policy:
        """A policy by name."""
        ...

    def reset(self, case: Any) -> Running:
        """Start an encounter."""
        ...

    def assess(self, episode: Episode) -> Assessment:
        """Verify and judge a finished record; raises InvalidEpisode."""
        ...
