"""A dialogue as token ids: the prompt, what follows a sampled turn, and where a turn ends.

Token in, token out: sampled ids are appended as they are and never tokenised again; only the text
of the environment is tokenised, and it is glued on with the chat template's own separators, so
that the whole equals the template's rendering of the dialogue.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from clinical_envs.errors import InvalidArgument

_FIRST, _TURN, _NEXT = "first-user-text", "model-text", "next-user-text"


class ChatTokens:
    """Token ids of one tokenizer's chat template, roles strictly alternating.

    tokenizer: any Hugging Face tokenizer with a chat template. end_of_turn: the id that ends a
    policy turn.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        rendered = self._render([_FIRST, _TURN, _NEXT])
        after = rendered.split(_TURN, 1)[1]
        self._before_reply, self._after_reply = after.split(_NEXT, 1)
        self.end_of_turn = self._end_of_turn_id()
        # the sampled turn already ends with this token
        end = tokenizer.convert_ids_to_tokens(self.end_of_turn)
        self._before_reply = self._before_reply.removeprefix(end)

    @property
    def pad(self) -> int:
        """The id used for padding."""
        pad = self.tokenizer.pad_token_id
        return int(self.end_of_turn if pad is None else pad)

    def prompt(self, text: str) -> tuple[int, ...]:
        """Ids of the first user turn, up to where the policy begins to speak."""
        return self._encode(self._render([text]))

    def reply(self, text: str) -> tuple[int, ...]:
        """Ids of a user turn after a sampled one, up to where the policy speaks again."""
        return self._encode(self._before_reply + text + self._after_reply)

    def turn(self, text: str) -> tuple[int, ...]:
        """Ids of a policy turn with its end, for supervised data."""
        return (*self._encode(text), self.end_of_turn)

    def text(self, ids: list[int]) -> str:
        """The text of a sampled turn, its end left out."""
        if ids and ids[-1] == self.end_of_turn:
            ids = ids[:-1]
        return str(
            self.tokenizer.decode(
                ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
        )

    def _render(self, texts: list[str]) -> str:
        roles = ("user", "assistant")
        messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
        return str(
            self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        )

    @lru_cache(maxsize=4096)  # noqa: B019 (one instance lives as long as its engine)
    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _end_of_turn_id(self) -> int:
        ids = self._encode(self._before_reply)
        special = set(self.tokenizer.all_special_ids) | set(self.tokenizer.added_tokens_decoder)
        if not ids or ids[0] not in special:
            raise InvalidArgument(
                "the chat template ends a model turn with no special token; turns cannot be told "
                "apart by ids"
            )
        return int(ids[0])
