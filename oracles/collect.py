"""Episodes verified and judged, by task, policy and split; what cannot be used is named."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from clinical_envs.episode import Episode
from clinical_envs.errors import ClinicalEnvsError, InvalidArgument
from oracles.assessment import Assessment
from oracles.clinical import make_world
from oracles.world import World

Progress = Callable[[int], None]


class Key(NamedTuple):
    """One audited sample."""

    task: str
    policy: str
    split: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """An episode that contradicts its task or itself: its position (from 1) and why."""

    position: int
    reason: str


class Collected:
    """Assessed episodes. worlds: by name and by key; those missing are made when met.

    Rollouts of a case that took the same turns are judged once.
    """

    def __init__(self, worlds: dict[str, World]) -> None:
        self.worlds = worlds
        self.rows: dict[Key, list[Assessment]] = {}
        self.refused: list[Refused] = []
        self.unscored = 0
        self._seen: set[tuple[object, ...]] = set()
        self._judged: dict[tuple[object, ...], Assessment] = {}

    def add(self, episodes: Iterable[Episode], progress: Progress | None = None) -> None:
        """Assess episodes in order; progress is told how many are done."""
        for position, episode in enumerate(episodes, start=1):
            if progress is not None:
                progress(position)
            if "error" in episode.meta:
                self.unscored += 1
                continue
            try:
                self._add(episode, position)
            except ClinicalEnvsError as error:
                self.refused.append(Refused(position=position, reason=str(error)))

    def _add(self, episode: Episode, position: int) -> None:
        world, episode = self._world(episode)
        row = self._assess(world, episode, position)
        policy = episode.policy or "policy"
        if episode.case is not None and episode.rollout is not None:
            identity = (world.key, policy, episode.case_id, episode.rollout, episode.greedy)
            if identity in self._seen:
                raise InvalidArgument(
                    f"case {episode.case_id}, rollout {episode.rollout} of {policy} stands twice"
                )
            self._seen.add(identity)
        key = Key(world.key, policy, episode.case.split if episode.case else None)
        self.rows.setdefault(key, []).append(row)

    def _assess(self, world: World, episode: Episode, position: int) -> Assessment:
        if episode.case is None:
            return replace(world.assess(episode), case=f"episode {position}")
        initial = frozenset(episode.initial.items())
        content = (world.key, episode.case_id, episode.case.hash, episode.family, episode.state)
        same = (*content, initial, episode.turns, episode.raw)
        row = self._judged.get(same)
        if row is None:
            row = self._judged[same] = world.assess(episode)
        return replace(row, episode=episode)

    def _world(self, episode: Episode) -> tuple[World, Episode]:
        """The world of an episode, and the episode under the world's key."""
        name = episode.task
        if name not in self.worlds:
            world = make_world(name)
            known = self.worlds.setdefault(world.key, world)
            if known is not world and name.endswith((".yaml", ".yml")):
                raise InvalidArgument(
                    f"{name} is {world.key}, and so is another task of this audit with other "
                    "content; give one of them another version"
                )
            self.worlds[name] = known
        world = self.worlds[name]
        if world.key != name:
            episode = episode.model_copy(update={"task": world.key})
        return world, episode
