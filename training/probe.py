"""Before anything is sampled: is the served model the one that the run starts from?

A few tokens are sampled at temperature 0.5 and their log-probabilities computed here. There the
three that a server may report come apart: of the distribution that was sampled (wanted), of
temperature 1 (`raw_logprobs`, which at temperature 1 nobody would notice), and logits.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch

from training.chat import ChatTokens
from training.on_policy import agreement
from training.patience import ServedError
from training.vllm_server import VllmServer

_TEXT = "A patient has a fever. What do you ask?"
_TEMPERATURE, _SAMPLES, _TOKENS = 0.5, 4, 8


def check_start(
    server: VllmServer, base: str, model: Any, tokens: ChatTokens, tolerance: float
) -> None:
    """Compare the served model with this one, its adapter, if it has one, switched off.

    Raises:
        Trouble: the server does not answer now.
        ServedError: they are not the same, or the server's log-probabilities are not those of the
            distribution that it samples.
    """
    prompt = tokens.prompt(_TEXT)
    replies = server.complete(
        [prompt] * _SAMPLES,
        model=base,
        max_tokens=_TOKENS,
        stop=tokens.end_of_turn,
        temperature=_TEMPERATURE,
    )
    said = [value for reply in replies for value in reply.logprobs]
    sampled: list[float] = []
    raw: list[float] = []
    for reply in replies:
        logits = _logits(model, prompt, reply.ids)
        index = torch.tensor(reply.ids, device=logits.device)[:, None]
        for values, scale in ((sampled, _TEMPERATURE), (raw, 1.0)):
            values += torch.log_softmax(logits / scale, -1).gather(1, index)[:, 0].tolist()
    found, at_one = agreement(said, sampled, raw), agreement(said, raw, sampled)
    if max(said) > tolerance or (found.at_base and at_one.max_diff <= tolerance):
        raise ServedError(
            f"{server.url} reports other log-probabilities than those it samples from, and "
            "importance ratios would be wrong; start it with --logprobs-mode processed_logprobs"
        )
    if found.max_diff > tolerance / _TEMPERATURE:  # as errors of logits grow
        raise ServedError(
            f"{server.url} serves another model than the run starts from: log-probabilities differ "
            f"by {found.max_diff:.2g} nats; serve the folder of --start, in the dtype of "
            "model.dtype"
        )


def _logits(model: Any, prompt: tuple[int, ...], ids: tuple[int, ...]) -> torch.Tensor:
    """Of each sampled token, shape (tokens, vocabulary)."""
    mode = model.training
    model.eval()
    try:
        adapter_off = getattr(model, "disable_adapter", nullcontext)
        with torch.no_grad(), adapter_off():
            whole = torch.tensor([[*prompt, *ids]], device=model.device)
            kept: torch.Tensor = model(input_ids=whole, logits_to_keep=len(ids) + 1).logits
            return kept[0, :-1].float()
    finally:
        model.train(mode)
