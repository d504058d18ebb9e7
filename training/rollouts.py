"""TRL's `rollout_func`: plays the cases that a batch of prompts names, and scores each rollout.

A dataset row is the number of a case in the `train` set as text; all rollouts of a group face that
one case. Rewards are computed here, from the finished episode and the signal of the configuration,
and travel with the rollout; nothing of them reaches evaluation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clinical_envs.case import Case
from clinical_envs.episode import Episode
from clinical_envs.errors import InvalidArgument
from clinical_envs.simulator import Invalid
from oracles.clinical import ClinicalWorld
from training.config import Config
from training.dialogue import (
    EpisodeSpeaker,
    ExploitSpeaker,
    ExploreSpeaker,
    MenuSpeaker,
    Speaker,
)
from training.engine import Engine, Sampling, TokenRecord
from training.rewards import exploit_reward, explore_reward
from training.signals import make_signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One rollout with its reward, NaN where it is unscored.

    turn_rewards: what each policy turn earned; they sum to reward. utility: of how it ended, to
    see groups that end alike. episode: None in a phase of the decoupled variant.
    """

    record: TokenRecord
    case: int
    reward: float
    turn_rewards: tuple[float, ...]
    utility: float
    invalid_turns: int
    asks: int
    entropy_drops: tuple[float, ...] = ()
    episode: Episode | None = None


class Rollouts:
    """Callable as `rollout_func`. last: the rollouts of the newest batch, for the trainer."""

    def __init__(self, world: ClinicalWorld, config: Config, engine: Engine) -> None:
        self.world, self.config, self.engine = world, config, engine
        self.cases: Sequence[Case] = world.cases("train")
        self.last: list[Scored] = []
        self._revealed: dict[int, list[ExploreSpeaker]] = {}
        self._sampling = Sampling(
            max_turn_tokens=config.limits.turn_tokens,
            max_context_tokens=config.limits.context_tokens,
        )
        self._signal = make_signal(world, config)

    @property
    def decoupled(self) -> bool:
        """Whether updates alternate between an exploring and an exploiting phase."""
        return self.config.reward.variant == "decoupled"

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        """Play one batch; prompts come repeated, the rollouts of a group in a row."""
        size = self.config.optim.rollouts
        if len(prompts) % size:
            raise InvalidArgument(f"a batch of {len(prompts)} rows splits a group of {size}")
        step = int(trainer.state.global_step)
        rows = [int(prompt) for prompt in prompts]
        if self.decoupled and step % 2 == 1:
            self.last = self._exploit(rows, step)
        elif self.decoupled:
            self.last = self._explore(rows, step)
        else:
            self.last = self._episodes(rows, step)
        return {
            "prompt_ids": [list(scored.record.prompt_ids) for scored in self.last],
            "completion_ids": [list(scored.record.completion_ids) for scored in self.last],
            "logprobs": [list(scored.record.logprobs) for scored in self.last],
            "env_mask": [list(scored.record.env_mask) for scored in self.last],
            "reward": [scored.reward for scored in self.last],
        }

    def _episodes(self, rows: list[int], step: int) -> list[Scored]:
        speaker_type = MenuSpeaker if self.config.model.menu else EpisodeSpeaker
        speakers = [speaker_type(self.world.task, self.cases[row]) for row in rows]
        records = self._play(speakers, rows, step)
        return [
            self._score(speaker, record, row, i)
            for i, (speaker, record, row) in enumerate(zip(speakers, records, rows, strict=True))
        ]

    def _score(
        self, speaker: EpisodeSpeaker, record: TokenRecord, row: int, position: int
    ) -> Scored:
        rollout = position % self.config.optim.rollouts
        episode = speaker.finish(policy="policy", rollout=rollout)
        earned = self._signal.earned(episode)
        task, state = self.world.task, self.cases[row].state
        decision = speaker.decision
        utility = (
            task.no_decision_utility[state]
            if decision is None
            else task.utility_matrix[state, decision]
        )
        return Scored(
            record=record,
            case=row,
            reward=sum(earned.turns),
            turn_rewards=earned.turns,
            utility=float(utility),
            invalid_turns=sum(isinstance(action, Invalid) for action in speaker.actions),
            asks=speaker.asks,
            entropy_drops=earned.entropy_drops,
            episode=episode,
        )

    def _explore(self, rows: list[int], step: int) -> list[Scored]:
        task, kappa = self.world.task, self.config.reward.kappa
        speakers = [ExploreSpeaker(task, self.cases[row]) for row in rows]
        records = self._play(speakers, rows, step)
        size = self.config.optim.rollouts
        self._revealed = {
            start: speakers[start : start + size] for start in range(0, len(rows), size)
        }
        scored = []
        for speaker, record, row in zip(speakers, records, rows, strict=True):
            reward = explore_reward(task, speaker.start, speaker.info, len(speaker.actions), kappa)
            invalid = sum(isinstance(action, Invalid) for action in speaker.actions)
            scored.append(
                Scored(
                    record=record,
                    case=row,
                    reward=reward,
                    turn_rewards=(),
                    utility=reward,
                    invalid_turns=invalid,
                    asks=len(speaker.actions) - invalid,
                )
            )
        return scored

    def _exploit(self, rows: list[int], step: int) -> list[Scored]:
        """Eight commits on one transcript, drawn from the group that explored the same case.

        A run that was stopped between the phases explores once more, and learns nothing from it.
        """
        task, size = self.world.task, self.config.optim.rollouts
        if not self._revealed:
            self._explore(rows, step - 1)
        speakers: list[ExploitSpeaker] = []
        for start in range(0, len(rows), size):
            group = self._revealed[start]
            if group[0].case != self.cases[rows[start]]:
                raise InvalidArgument("the exploiting phase faces another case than the exploring")
            drawn = group[self._seed(rows[start], step, size) % size]
            speakers += [ExploitSpeaker(task, drawn.info) for _ in range(size)]
        records = self._play(speakers, rows, step)
        return [
            Scored(
                record=record,
                case=row,
                reward=exploit_reward(task, self.cases[row].state, speaker.action),
                turn_rewards=(),
                utility=exploit_reward(task, self.cases[row].state, speaker.action),
                invalid_turns=int(isinstance(speaker.action, Invalid)),
                asks=0,
            )
            for speaker, record, row in zip(speakers, records, rows, strict=True)
        ]

    def _play(self, speakers: Sequence[Speaker], rows: list[int], step: int) -> list[TokenRecord]:
        seeds = [
            self._seed(row, step, i % self.config.optim.rollouts) for i, row in enumerate(rows)
        ]
        return self.engine.play(speakers, seeds, self._sampling)

    def _seed(self, case: int, step: int, rollout: int) -> int:
        identity = json.dumps([self.config.seed, step, case, rollout])
        return int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8], "little")


def summary(scored: Sequence[Scored], group_size: int) -> dict[str, float]:
    """What is logged of a batch of rollouts at every step."""
    from training.advantages import same_utility_share

    turns = sum(len(rollout.record.turns) for rollout in scored)
    utilities = np.array([rollout.utility for rollout in scored]).reshape(-1, group_size)
    drops = [drop for rollout in scored for drop in rollout.entropy_drops if drop != 0.0]
    logged = {
        "rollout/asks": float(np.mean([rollout.asks for rollout in scored])),
        "rollout/one_ask_rate": float(np.mean([rollout.asks == 1 for rollout in scored])),
        "rollout/parse_failure_rate": sum(r.invalid_turns for r in scored) / max(1, turns),
        "rollout/same_utility_groups": same_utility_share(utilities),
        "rollout/cut": float(np.mean([rollout.record.cut for rollout in scored])),
        "rollout/unscored": float(np.isnan([rollout.reward for rollout in scored]).mean()),
        "rollout/utility": float(np.mean([rollout.utility for rollout in scored])),
    }
    if drops:
        logged["rollout/negative_entropy_drops"] = float(np.mean([drop < 0.0 for drop in drops]))
    return logged
