"""An engine on a rollout server: every turn of all dialogues is one batch of requests.

Token ids go in and come out, and are appended as they are. The server keeps the keys and values
of what it has seen, so that a turn costs its own tokens only. A request that failed is asked
again, of the same policy: what it would have answered was never seen, so nothing is lost, played
twice or biased. Rows whose context is nearly full may say less than the others; they go in a
request of their own.

Sampling cannot be seeded. One request carries one seed, and equal prompts under one seed would be
answered alike, which would make the rollouts of a group copies; so none is sent, and playing
again gives other dialogues from the same distribution.
"""

from __future__ import annotations

from collections.abc import Sequence

from training.adapter_sync import AdapterSync
from training.chat import ChatTokens
from training.dialogue import Speaker
from training.engine import Sampling, TokenRecord
from training.row import Row


class ServedEngine:
    """Samples from the policy that a server plays.

    sync: knows which that is. tokens: the chat template in ids.
    """

    def __init__(self, sync: AdapterSync, tokens: ChatTokens) -> None:
        self.sync, self.tokens = sync, tokens

    def play(
        self, speakers: Sequence[Speaker], seeds: Sequence[int], sampling: Sampling
    ) -> list[TokenRecord]:
        """Play every dialogue to its end; the seeds have no effect.

        Raises:
            ServedError: the server refuses, or was away for longer than the patience.
        """
        version = self.sync.current.version
        rows = [Row(speaker, self.tokens, sampling) for speaker in speakers]
        active = rows
        while active:
            requests: dict[int, list[Row]] = {}
            for row in active:
                row.begin_turn()
                requests.setdefault(row.allowance, []).append(row)
            for allowance, asked in requests.items():
                self._speak(asked, allowance, greedy=sampling.greedy)
            for row in active:
                row.end_turn()
            active = [row for row in active if not row.over]
        return [row.record(version) for row in rows]

    def _speak(self, rows: Sequence[Row], allowance: int, *, greedy: bool) -> None:
        """One turn of rows that may all say the same number of tokens."""
        sync = self.sync
        replies = sync.patience.until_it_works(
            lambda: sync.server.complete(
                [[*row.prompt, *row.ids] for row in rows],
                model=sync.current.name,
                max_tokens=allowance,
                stop=self.tokens.end_of_turn,
                temperature=0.0 if greedy else 1.0,
            ),
            recover=sync.restore,
        )
        for row, reply in zip(rows, replies, strict=True):
            for token, logprob in zip(reply.ids, reply.logprobs, strict=True):
                row.say(token, logprob)
