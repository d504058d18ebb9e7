"""The contract between training and whatever samples tokens: dialogues in, token records out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from training.dialogue import Speaker


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How turns are sampled. Anything but temperature 1 without truncation is for evaluation."""

    greedy: bool = False
    max_turn_tokens: int = 96
    max_context_tokens: int = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """One dialogue in tokens.

    completion_ids: policy and environment tokens after the prompt, as they were seen. env_mask: 1
    where the policy sampled the token, else 0. logprobs: of sampled tokens under the policy, 0.0
    elsewhere. turns: [start, end) of each policy turn in the completion. cut: a turn hit its token
    limit, or the dialogue the context limit. version: updates of the policy that sampled it, where
    that policy is a copy; None in the trainer's own process.
    """

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    env_mask: tuple[int, ...]
    logprobs: tuple[float, ...]
    turns: tuple[tuple[int, int], ...]
    cut: bool
    version: int | None = None


class Engine(Protocol):
    """Plays many dialogues at once."""

    def play(
        self, speakers: Sequence[Speaker], seeds: Sequence[int], sampling: Sampling
    ) -> list[TokenRecord]:
        """Play every dialogue to its end.

        Args:
            speakers: the environment's side, one a dialogue; they are advanced in place.
            seeds: one a dialogue; with the policy they fix what is sampled, whatever the batch,
                in an engine that can be seeded.
            sampling: greedy or temperature 1, and limits.

        Returns:
            One record a dialogue, in order.
        """
        ...
