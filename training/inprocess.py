"""An engine in the trainer's own process: dialogues in lockstep over one key/value cache.

Every prompt is prefilled once and shared by its dialogues. All dialogues sample turn t together,
token by token; then the replies go in as one block, padded on the left, and the cache is kept.
Padding leaves holes in the cache, so positions are counted from the tokens that exist, and the
masks of layers with a sliding window are made from those positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from training.chat import ChatTokens
from training.dialogue import Speaker
from training.engine import Sampling, TokenRecord
from training.row import Row


class _SampledRow(Row):
    """A dialogue with its own random draws."""

    def __init__(self, speaker: Speaker, tokens: ChatTokens, sampling: Sampling, seed: int) -> None:
        super().__init__(speaker, tokens, sampling)
        self.rng = np.random.default_rng(seed)

    def sample(self, logprobs: torch.Tensor, cumulative: np.ndarray[Any, Any] | None) -> int:
        """The next token from its log-probabilities, said."""
        if cumulative is None:
            token = int(logprobs.argmax())
        else:
            draw = self.rng.random() * cumulative[-1]
            token = int(np.searchsorted(cumulative, draw, side="right"))
            token = min(token, len(cumulative) - 1)
        self.say(token, float(logprobs[token]))
        return token


class InProcessEngine:
    """Samples from a model in this process.

    model: a causal language model, or a PEFT model over one. tokens: its chat template in ids.
    """

    def __init__(self, model: Any, tokens: ChatTokens) -> None:
        self.model = model
        self.tokens = tokens

    def play(
        self, speakers: Sequence[Speaker], seeds: Sequence[int], sampling: Sampling
    ) -> list[TokenRecord]:
        """Play every dialogue to its end."""
        training = self.model.training
        self.model.eval()
        try:
            with torch.no_grad():
                return self._play(speakers, seeds, sampling)
        finally:
            self.model.train(training)

    def _play(
        self, speakers: Sequence[Speaker], seeds: Sequence[int], sampling: Sampling
    ) -> list[TokenRecord]:
        rows = [
            _SampledRow(speaker, self.tokens, sampling, seed)
            for speaker, seed in zip(speakers, seeds, strict=True)
        ]
        batch = _Batch(self.model, self.tokens.pad)
        logits = batch.prefill([row.prompt for row in rows])
        active = rows
        while active:
            logits = _speak(batch, active, logits, greedy=sampling.greedy)
            for row in active:
                row.end_turn()
            keep = [i for i, row in enumerate(active) if not row.over]
            if len(keep) < len(active):
                batch.select(keep)
                active = [active[i] for i in keep]
            if active:
                logits = batch.feed([row.unread for row in active])
        return [row.record() for row in rows]


def _speak(
    batch: _Batch, rows: list[_SampledRow], logits: torch.Tensor, *, greedy: bool
) -> torch.Tensor:
    """Sample one turn of every row; the last token of a turn is fed with the reply."""
    for row in rows:
        row.begin_turn()
    while True:
        logprobs = torch.log_softmax(logits.float(), dim=-1)
        cumulative = None if greedy else logprobs.exp().double().cumsum(-1).cpu().numpy()
        feed: list[list[int]] = []
        for i, row in enumerate(rows):
            if not row.speaking:
                feed.append([])
                continue
            token = row.sample(logprobs[i], None if cumulative is None else cumulative[i])
            feed.append([token] if row.speaking else [])
        if not any(row.speaking for row in rows):
            return logits
        logits = batch.feed(feed)


class _Batch:
    """The cache of the rows that are still playing.

    mask: 1 where a cached token exists. positions: of the cached tokens, counted without the holes.
    """

    def __init__(self, model: Any, pad: int) -> None:
        self.model, self.pad, self.device = model, pad, model.device
        self.window = _sliding_window(model.config)
        self.cache: Any = DynamicCache()  # keeps every token, also for layers with a window
        self.mask = self.positions = torch.empty(0)

    def prefill(self, prompts: list[tuple[int, ...]]) -> torch.Tensor:
        """Run every distinct prompt once; logits after the prompt of each row."""
        distinct = {prompt: i for i, prompt in enumerate(dict.fromkeys(prompts))}
        self.mask = torch.zeros(len(distinct), 0, dtype=torch.long, device=self.device)
        self.positions = self.mask
        logits = self.feed([list(prompt) for prompt in distinct])
        rows = [distinct[prompt] for prompt in prompts]
        self.select(rows)
        return logits[torch.tensor(rows, device=self.device)]

    def select(self, rows: list[int]) -> None:
        """Keep some rows, in this order."""
        index = torch.tensor(rows, dtype=torch.long, device=self.device)
        if rows:
            self.cache.batch_select_indices(index)
        self.mask, self.positions = self.mask[index], self.positions[index]

    def feed(self, tokens: list[list[int]]) -> torch.Tensor:
        """Feed each row its tokens, padded on the left; logits after the last token of each row.

        The logits of a row that is fed nothing have no meaning.
        """
        width = max(len(row) for row in tokens)
        ids = torch.full((len(tokens), width), self.pad, dtype=torch.long)
        new = torch.zeros(len(tokens), width, dtype=torch.long)
        for i, row in enumerate(tokens):
            if row:
                ids[i, width - len(row) :] = torch.tensor(row)
                new[i, width - len(row) :] = 1
        new = new.to(self.device)
        positions = (self.mask.sum(1, keepdim=True) + new.cumsum(1) - 1).clamp(min=0)
        self.mask = torch.cat([self.mask, new], dim=1)
        self.positions = torch.cat([self.positions, positions], dim=1)
        out = self.model(
            input_ids=ids.to(self.device),
            attention_mask=self.mask if self.window is None else self._masks(positions),
            position_ids=positions,
            cache=self.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        self.cache = out.cache
        return out.logits[:, -1]

    def _masks(self, queries: torch.Tensor) -> dict[str, torch.Tensor]:
        """Who attends to whom, by kind of layer, from positions: a hole takes no place in a window.

        Every query attends to itself, so that the meaningless ones have no empty row either.
        """
        keys, at = self.positions[:, None, :], queries[:, :, None]
        cached, width = self.mask.shape[1], queries.shape[1]
        columns = torch.arange(cached, device=self.device)
        itself = columns[None, None, :] == columns[None, cached - width :, None]
        full = (self.mask[:, None, :].bool() & (keys <= at)) | itself
        sliding = full & ((keys > at - self.window) | itself)
        return {"full_attention": full[:, None], "sliding_attention": sliding[:, None]}


def _sliding_window(config: Any) -> int | None:
    layers = getattr(config, "layer_types", None) or []
    return int(config.sliding_window) if "sliding_attention" in layers else None
