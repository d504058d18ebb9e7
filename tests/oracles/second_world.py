"""A world that has nothing clinical: guess a coin's bias after looking at some tosses.

It has no oracle, no risk groups, no decision of high acuity and no belief; it exists to show that
the harness asks for none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clinical_envs.episode import AskTurn, CaseRef, CommitTurn, Episode, InvalidTurn, Turn
from clinical_envs.errors import InvalidArgument, InvalidEpisode
from oracles.assessment import Assessment
from oracles.policy import Policy

CAP = 4
COST = 0.1


@dataclass(frozen=True)
class Coin:
    """A coin that falls on heads mostly, or on tails."""

    split: str
    seed: int
    index: int
    heads: bool
    tosses: tuple[bool, ...]


class Guess:
    """One coin being guessed."""

    def __init__(self, world: CoinWorld, coin: Coin) -> None:
        self._world, self._coin, self._turns = world, coin, list[Turn]()

    @property
    def over(self) -> bool:
        return len(self._turns) == CAP or any(isinstance(t, CommitTurn) for t in self._turns)

    @property
    def view(self) -> tuple[bool, ...]:
        return tuple(turn.answer for turn in self._turns if isinstance(turn, AskTurn))

    def step(self, action: str) -> None:
        if action == "toss":
            toss = self._coin.tosses[len(self.view)]
            self._turns.append(AskTurn(ask=f"toss_{len(self.view)}", answer=toss))
        elif action in self._world.decisions:
            self._turns.append(CommitTurn(commit=action))
        else:
            self._turns.append(InvalidTurn(invalid="unknown_word"))

    def episode(self, *, policy: str, rollout: int, greedy: bool) -> Episode:
        coin = self._coin
        return Episode(
            task=self._world.key,
            family="coin",
            turns=tuple(self._turns),
            case=CaseRef(split=coin.split, seed=coin.seed, index=coin.index),
            state="heads" if coin.heads else "tails",
            policy=policy,
            rollout=rollout,
            meta={"tosses_seen": len(self.view)} | ({"greedy": True} if greedy else {}),
        )


@dataclass(frozen=True)
class Speaker:
    """A policy by its words."""

    name: str
    deterministic: bool

    def act(self, view: tuple[bool, ...], rng: np.random.Generator, *, greedy: bool = False) -> str:
        if self.name == "mute":
            return ""
        if self.name == "guess" and not greedy:
            return ("heads", "tails")[int(rng.integers(2))]
        if len(view) < 3:
            return "toss"
        return "heads" if sum(view) >= 2 else "tails"


@dataclass(frozen=True)
class CoinWorld:
    """Coins, as a world without an oracle."""

    key: str = "Coin-v0@1.0.0"
    name: str = "coin"
    prevalence: Mapping[str, float] = field(default_factory=dict)
    high_risk_group: str | None = None
    families: tuple[str, ...] = ("coin",)
    decisions: tuple[str, ...] = ("heads", "tails")
    oracle_decisions: Mapping[str, float] | None = None
    headroom: tuple[float, float] | None = None

    def cases(self, set_name: str) -> Sequence[Coin]:
        if set_name != "coins":
            raise InvalidArgument(f"no set {set_name!r}; known: 'coins'")
        rng = np.random.default_rng(5)
        coins = []
        for index in range(60):
            heads = bool(rng.random() < 0.5)
            tosses = tuple((rng.random(CAP) < (0.9 if heads else 0.1)).tolist())
            coins.append(Coin("coins", 5, index, heads, tosses))
        return coins

    def policy(self, name: str) -> Policy:
        return Speaker(name, deterministic=name != "guess")  # type: ignore[return-value]

    def reset(self, case: Coin) -> Guess:
        return Guess(self, case)

    def assess(self, episode: Episode) -> Assessment:
        if episode.task != self.key:
            raise InvalidEpisode(f"{episode.task} is not {self.key}")
        kinds: dict[type[Any], int] = {}
        for turn in episode.turns:
            kinds[type(turn)] = kinds.get(type(turn), 0) + 1
        last = episode.turns[-1]
        decision = last.commit if isinstance(last, CommitTurn) else None
        charged = kinds.get(AskTurn, 0) + kinds.get(InvalidTurn, 0)
        return Assessment(
            episode=episode,
            case=str(episode.case_id),
            family=episode.family,
            group=None,
            reward=float(decision == episode.state) - COST * charged,
            expected=False,
            decision=decision,
            turns=len(episode.turns),
            asks=kinds.get(AskTurn, 0),
            repeats=0,
            invalid_turns=kinds.get(InvalidTurn, 0),
            informative_seen=kinds.get(AskTurn, 0) > 0,
        )
