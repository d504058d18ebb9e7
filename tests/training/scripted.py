"""Test doubles of the two sides of a dialogue: a speaker with a script, and a model with one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

from tests.training.toy import chat, tokenizer
from training.dialogue import Speaker


@dataclass
class Listener:
    """Passes everything on to a speaker and writes it down."""

    speaker: Speaker
    heard: list[tuple[str, bool, str | None]] = field(default_factory=list)

    @property
    def opening(self) -> str:
        return self.speaker.opening

    def answer(self, text: str, *, complete: bool = True) -> str | None:
        reply = self.speaker.answer(text, complete=complete)
        self.heard.append((text, complete, reply))
        return reply


@dataclass
class Script:
    """A speaker that gives these replies and then ends the dialogue."""

    opening: str
    replies: Sequence[str] = ()
    heard: list[tuple[str, bool]] = field(default_factory=list)

    def answer(self, text: str, *, complete: bool = True) -> str | None:
        self.heard.append((text, complete))
        turn = len(self.heard)
        return self.replies[turn - 1] if turn <= len(self.replies) else None


class Histories:
    """Stands in for a key/value cache: what each row has been fed."""

    def __init__(self, rows: int) -> None:
        self.rows: list[list[int]] = [[] for _ in range(rows)]

    def batch_select_indices(self, index: torch.Tensor) -> None:
        self.rows = [list(self.rows[i]) for i in index.tolist()]


class ScriptedModel:
    """A model that is certain of each next token: per opening, the ids of every turn.

    After the last token of a turn it repeats that token, so that only a limit can stop it.
    """

    def __init__(self, turns: Mapping[str, Sequence[Sequence[int]]]) -> None:
        self.turns = {chat().prompt(opening): lines for opening, lines in turns.items()}
        self.config = SimpleNamespace()
        self.device = torch.device("cpu")
        self.training = False
        self.batch_sizes: list[int] = []
        self._speak = tokenizer().convert_tokens_to_ids("model\n")

    def eval(self) -> None:
        """Nothing to switch."""

    def train(self, mode: bool) -> None:
        """Nothing to switch."""

    def __call__(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, cache: Any, **_: Any
    ) -> SimpleNamespace:
        cache = cache or Histories(len(input_ids))
        self.batch_sizes.append(len(input_ids))
        new = attention_mask[:, -input_ids.shape[1] :]
        logits = torch.full((len(input_ids), 1, len(tokenizer())), -1e9)
        for i, history in enumerate(cache.rows):
            history += input_ids[i][new[i] == 1].tolist()
            logits[i, 0, self._next(history)] = 0.0
        return SimpleNamespace(logits=logits, cache=cache)

    def _next(self, history: list[int]) -> int:
        starts = [i for i, token in enumerate(history) if token == self._speak]
        opening = tuple(history[: starts[0] + 1])
        said = history[starts[-1] + 1 :]
        turn = self.turns[opening][len(starts) - 1]
        return turn[min(len(said), len(turn) - 1)]
