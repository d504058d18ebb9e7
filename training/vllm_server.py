"""A client of vLLM's own server: token ids in, token ids and their log-probabilities out.

Sampling is plain: temperature 1, no top-p, top-k, min-p or penalty, whatever default the
checkpoint or the server has, and no end but the end of a turn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from training.node_http import NodeClient, detail
from training.patience import ServedError, Trouble
from training.rollout_node import KEY_VARIABLE

_PLAIN = {
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "ignore_eos": True,
    "skip_special_tokens": False,
    "logprobs": 0,
    "return_token_ids": True,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What was sampled after one prompt.

    ids: its end included, where it came to its end. logprobs: of each, in nats.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a server serves. base: name of the model. context: its longest sequence in tokens."""

    base: str
    context: int
    adapters: frozenset[str]


class VllmServer:
    """One attempt a call; trouble that may pass is raised as `Trouble`. Close it.

    url: `http://HOST:PORT`. timeout_s: of one request.

    Raises:
        MissingExtra: httpx is not installed.
    """

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self._client = NodeClient(url, secret=KEY_VARIABLE, timeout_s=timeout_s)
        self.url = self._client.url

    def __repr__(self) -> str:
        return f"VllmServer({self.url!r})"

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def offer(self) -> Offer:
        """What it serves, which it says once it is ready."""
        self._expect(self._client.ask("GET", "/health"), "is not ready")
        listed = self._expect(self._client.ask("GET", "/v1/models"), "lists no models")
        try:
            models = listed.json()["data"]
            base = next(model for model in models if model["parent"] is None)
            return Offer(
                base=base["id"],
                context=int(base["max_model_len"]),
                adapters=frozenset(m["id"] for m in models if m["parent"] is not None),
            )
        except (ValueError, KeyError, TypeError, StopIteration):
            raise ServedError(
                f"{self.url} is no vLLM server: /v1/models lists no base model; check vllm.url"
            ) from None

    def complete(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        model: str,
        max_tokens: int,
        stop: int,
        temperature: float = 1.0,
    ) -> list[Reply]:
        """One sampled continuation of each prompt, in order.

        stop: the token that ends one. temperature: 0 takes the likeliest tokens.

        Raises:
            Trouble: it may work later, or once the model is loaded again.
            ServedError: the server refuses, or its answer is not what was asked for.
        """
        body = {
            "model": model,
            "prompt": [list(prompt) for prompt in prompts],
            "max_tokens": max_tokens,
            "temperature": temperature,
            "stop_token_ids": [stop],
            **_PLAIN,
        }
        response = self._client.ask("POST", "/v1/completions", body)
        if response.status_code in (404, 500):
            raise Trouble(f"{self.url}: {detail(response)}")
        self._expect(response, "refuses to sample")
        try:
            data = response.json()
            choices = sorted(data["choices"], key=lambda choice: int(choice["index"]))
            replies = [_reply(choice) for choice in choices]
            served = data["model"]
        except (ValueError, KeyError, TypeError):
            raise ServedError(
                f"{self.url}: a completion without token ids and log-probabilities; run the vLLM "
                "that training/constraints/serve.txt pins"
            ) from None
        if served != model or len(replies) != len(prompts):
            raise ServedError(
                f"{self.url}: asked {model} for {len(prompts)} completions, got {len(replies)} "
                f"of {served}"
            )
        for reply in replies:
            self._check_end(reply, max_tokens, stop)
        return replies

    def load(self, name: str, path: str) -> None:
        """Load an adapter from a folder on the server's machine; one that is there already stays.

        Raises:
            ServedError: the server will not have it.
        """
        response = self._client.ask(
            "POST", "/v1/load_lora_adapter", {"lora_name": name, "lora_path": path}
        )
        if response.status_code == 200:
            return
        offer = self.offer()  # a request that timed out may have worked; a dead engine is trouble
        if name not in offer.adapters:
            raise ServedError(f"{self.url} does not load {path}: {_advice(response)}")

    def unload(self, name: str) -> None:
        """Forget an adapter, if it is there."""
        response = self._client.ask("POST", "/v1/unload_lora_adapter", {"lora_name": name})
        if response.status_code != 404:
            self._expect(response, f"does not unload {name}")

    def _expect(self, response: Any, otherwise: str) -> Any:
        if response.status_code != 200:
            raise ServedError(f"{self.url} {otherwise}: {detail(response)}")
        return response

    def _check_end(self, reply: Reply, max_tokens: int, stop: int) -> None:
        sound = 0 < len(reply.ids) == len(reply.logprobs) <= max_tokens
        whole = sound and (reply.ids[-1] == stop or len(reply.ids) == max_tokens)
        if not whole or not all(map(math.isfinite, reply.logprobs)):
            raise Trouble(
                f"{self.url}: a completion of {len(reply.ids)} tokens and {len(reply.logprobs)} "
                f"log-probabilities that neither ends its turn nor has its {max_tokens} tokens"
            )


def _reply(choice: Mapping[str, Any]) -> Reply:
    return Reply(
        ids=tuple(int(token) for token in choice["token_ids"]),
        logprobs=tuple(float(value) for value in choice["logprobs"]["token_logprobs"]),
    )


def _advice(response: Any) -> str:
    """What the server says, and what that means where it is known."""
    said = detail(response)
    if "max_lora_rank" in said:
        return f"{said}; start the server with a --max-lora-rank of lora.rank or more"
    if "No adapter found" in said:
        return (
            f"{said}; it does not see that folder: give a vllm.shared_folder that both nodes see "
            "under one path, or set vllm.sync=upload"
        )
    if response.status_code in (404, 405):
        return (
            f"{said}; start it with clinical-envs serve, or with --enable-lora and the environment "
            "variable VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"
        )
    return said
