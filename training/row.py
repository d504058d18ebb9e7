"""One dialogue while an engine plays it: what was said, what counts as whole, what is cut.

Both engines keep their books here, so that limits mean the same wherever tokens are sampled.
"""

from __future__ import annotations

from training.chat import ChatTokens
from training.dialogue import Speaker
from training.engine import Sampling, TokenRecord


class Row:
    """The tokens of one dialogue and whose turn it is.

    A turn ends with the end-of-turn token. One that reaches its token limit, or the context limit
    of the dialogue, is cut; a dialogue whose reply would not fit into the context is over and cut.
    """

    def __init__(self, speaker: Speaker, tokens: ChatTokens, sampling: Sampling) -> None:
        self.speaker, self.tokens, self.sampling = speaker, tokens, sampling
        self.prompt = tokens.prompt(speaker.opening)
        self.ids: list[int] = []
        self.speaking = self.over = self.cut = False
        self._mask: list[int] = []
        self._logprobs: list[float] = []
        self._turns: list[tuple[int, int]] = []
        self._turn_start = 0

    @property
    def length(self) -> int:
        """Tokens so far, the prompt included."""
        return len(self.prompt) + len(self.ids)

    @property
    def allowance(self) -> int:
        """Tokens that the policy may still say in this turn; the first one is always allowed."""
        in_turn = self.sampling.max_turn_tokens - (len(self.ids) - self._turn_start)
        return max(1, min(in_turn, self.sampling.max_context_tokens - self.length))

    def begin_turn(self) -> None:
        """The policy speaks next."""
        self.speaking, self._turn_start = True, len(self.ids)

    def say(self, token: int, logprob: float) -> None:
        """One sampled token, appended as it is."""
        last = self.allowance == 1
        self.ids.append(token)
        self._mask.append(1)
        self._logprobs.append(logprob)
        ended = token == self.tokens.end_of_turn
        self.cut |= last and not ended
        self.speaking = not (ended or last)

    def end_turn(self) -> None:
        """Give the turn to the speaker and append its reply, if there is one and it fits."""
        self._turns.append((self._turn_start, len(self.ids)))
        complete = self.ids[-1] == self.tokens.end_of_turn
        answer = self.speaker.answer(
            self.tokens.text(self.ids[self._turn_start :]), complete=complete
        )
        if answer is None:
            self.over = True
            return
        reply = self.tokens.reply(answer)
        if self.length + len(reply) >= self.sampling.max_context_tokens:
            self.over = self.cut = True
            return
        self.ids += reply
        self._mask += [0] * len(reply)
        self._logprobs += [0.0] * len(reply)

    @property
    def unread(self) -> list[int]:
        """The last token of the newest turn and the reply to it: what a cache has not been fed."""
        return self.ids[self._turns[-1][1] - 1 :]

    def record(self, version: int | None = None) -> TokenRecord:
        """The finished record. version: of the policy that sampled it."""
        return TokenRecord(
            prompt_ids=self.prompt,
            completion_ids=tuple(self.ids),
            env_mask=tuple(self._mask),
            logprobs=tuple(self._logprobs),
            turns=tuple(self._turns),
            cut=self.cut,
            version=version,
        )
