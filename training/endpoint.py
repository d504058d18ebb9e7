"""One client for every OpenAI-compatible chat endpoint: `openai:URL#MODEL`.

vLLM, llama.cpp, Ollama or a hosted service. How failures are waited for, and where the key comes
from, is told in `training.transport`.
"""

from __future__ import annotations

import difflib
import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

from clinical_envs.errors import InvalidArgument
from training.transport import KEY_VARIABLE, EndpointError, Reply, Transport

__all__ = [
    "ChatModel",
    "Completion",
    "ContextExceededError",
    "Endpoint",
    "EndpointError",
    "Usage",
]
_SEED_BITS = 31  # the fewest that any of the servers takes
_UNTRUNCATED = {"top_p": 1.0, "top_k": 0, "min_p": 0.0}  # servers have other defaults
_DISPENSABLE = ("seed", *_UNTRUNCATED)
_LISTED_MODELS = 12
_CONTEXT = re.compile(r"context[ _](length|size|window)", re.IGNORECASE)
_RENAMED = re.compile("unsupported.*max_completion_tokens", re.IGNORECASE)


class ContextExceededError(EndpointError):
    """The prompt and the tokens asked for do not fit the model's context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One reply of a chat endpoint.

    text: without lone surrogates; empty where the model said nothing. finish_reason: "stop",
    "length" for a text cut at its token limit, or another word of the server. tokens: as the
    server counts, None where it does not. top_logprobs: for each generated token the most likely
    ones, (text, log probability in nats), best first; None unless asked for.
    """

    text: str
    finish_reason: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    top_logprobs: tuple[tuple[tuple[str, float], ...], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Running totals. requests: completions received; retries: attempts that had to be repeated.

    Tokens are sums over the replies that count them.
    """

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    retries: int = 0


class ChatModel(Protocol):
    """Anything that answers a dialogue; tests use scripted ones."""

    def chat(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        temperature: float = 0.0,
        max_tokens: int = 512,
        seed: int | None = None,
        schema: Mapping[str, Any] | None = None,
        top_logprobs: int | None = None,
    ) -> Completion:
        """The next assistant turn."""
        ...


class Endpoint:
    """A model behind `openai:URL#MODEL`, asked from many threads; close it.

    A URL without a version in its path gets `/v1`. Making one waits for the server and checks
    that it has the model, where it lists its models.

    name: `openai:URL#MODEL`, as it was given. left_out: settings of sampling that the server
    refused, and that it is asked without.

    Args:
        spec: `openai:URL#MODEL`.
        timeout_s: of one attempt.
        patience_s: how long attempts are repeated after the first that failed.
        say: told what is waited for, at most once in ten seconds.

    Raises:
        InvalidArgument: the specification or the key is malformed.
        EndpointError: there is no such model, or the patience ran out.
        MissingExtra: httpx is not installed.
    """

    def __init__(
        self,
        spec: str,
        *,
        timeout_s: float = 60.0,
        patience_s: float = 300.0,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.name = spec
        self.url, self.model = _split(spec)
        self.left_out: frozenset[str] = frozenset()
        self._limit_key = "max_tokens"
        self._usage, self._lock = Usage(), threading.Lock()
        self._transport = Transport(self.url, timeout_s=timeout_s, patience_s=patience_s, say=say)
        try:
            self._check_model()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"Endpoint({self.name!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connections; other threads finish the request they are at, and no pause."""
        self._transport.close()

    @property
    def usage(self) -> Usage:
        """Totals so far."""
        return replace(self._usage, retries=self._transport.retries)

    def chat(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        temperature: float = 0.0,
        max_tokens: int = 512,
        seed: int | None = None,
        schema: Mapping[str, Any] | None = None,
        top_logprobs: int | None = None,
    ) -> Completion:
        """The next assistant turn.

        Args:
            messages: role and content of each turn so far.
            temperature: 0 for the most likely tokens; above 0 nothing else shapes the sampling.
            max_tokens: a longer turn is cut; its finish reason is "length".
            seed: of the sampling, any integer; its low 31 bits are sent.
            schema: JSON schema that the text must follow; a server that takes none refuses.
            top_logprobs: how many of the most likely tokens to return at each position.

        Raises:
            ContextExceededError: the dialogue no longer fits the model.
            EndpointError: any other failure, once no waiting can help or the patience ran out.
        """
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [dict(message) for message in messages],
            "temperature": temperature,
        }
        if temperature > 0.0:
            body |= _UNTRUNCATED
        if seed is not None:
            body["seed"] = seed % 2**_SEED_BITS
        if schema is not None:
            wanted = {"name": "turn", "strict": True, "schema": dict(schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": wanted}
        if top_logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": top_logprobs}
        reply = self._complete(body, max_tokens)
        completion = self._completion(reply, wants_logprobs=top_logprobs is not None)
        with self._lock:
            self._usage = Usage(
                requests=self._usage.requests + 1,
                prompt_tokens=self._usage.prompt_tokens + (completion.prompt_tokens or 0),
                completion_tokens=self._usage.completion_tokens
                + (completion.completion_tokens or 0),
            )
        return completion

    def _complete(self, body: Mapping[str, Any], max_tokens: int) -> Reply:
        """The reply to a request for a completion, in the words that this server takes."""
        while True:
            request = {name: value for name, value in body.items() if name not in self.left_out}
            request[self._limit_key] = max_tokens
            reply = self._transport.ask("POST", "chat/completions", request)
            if reply.status == 200:
                return reply
            if not self._reword(reply, request):
                raise self._refused(reply, request)

    def _reword(self, reply: Reply, request: Mapping[str, Any]) -> bool:
        """Whether only a setting of sampling, or the name of the limit, is refused.

        Later requests know; one that another thread sent before finds nothing new to learn.
        """
        if reply.status not in (400, 422):
            return False
        detail = self._transport.detail(reply.content)
        refused = {n for n in _DISPENSABLE if n in request and re.search(rf"\b{n}\b", detail)}
        if "max_tokens" in request and _RENAMED.search(detail):
            self._limit_key = "max_completion_tokens"
        elif refused:
            with self._lock:
                new, self.left_out = refused - self.left_out, self.left_out | refused
            if new:
                names = ", ".join(sorted(new))
                self._transport.tell(f"takes no {names}; its own defaults decide there")
        else:
            return False
        return True

    def _refused(self, reply: Reply, request: Mapping[str, Any]) -> EndpointError:
        """What to do about a status that no waiting changes."""
        detail = self._transport.detail(reply.content)
        said = f"{self.url} refused the request with status {reply.status} ({detail})"
        if reply.status in (401, 403):
            advice = "another key" if self._transport.has_key else "the key of this endpoint"
            return EndpointError(f"{said}; set {KEY_VARIABLE} to {advice}")
        if reply.status in (400, 413) and _CONTEXT.search(detail):
            return ContextExceededError(
                f"{said}; serve {self.model} with a longer context, or let a turn have fewer tokens"
            )
        if "response_format" in request:
            return EndpointError(f"{said}; it may take no JSON schema, so ask without one")
        return EndpointError(f"{said}; is it an OpenAI-compatible chat endpoint with this model?")

    def _check_model(self) -> None:
        """Refuse a model that the endpoint does not list; some endpoints list none."""
        reply = self._transport.ask("GET", "models")
        if reply.status == 401:
            raise self._refused(reply, {})
        if reply.status != 200:
            return
        match self._json(reply):
            case {"data": [*models]}:
                names = [str(model.get("id")) for model in models if isinstance(model, dict)]
            case _:
                return
        if names and self.model not in names:
            near = difflib.get_close_matches(self.model, names, n=_LISTED_MODELS, cutoff=0.0)
            more = f" and {len(names) - len(near)} more" if len(names) > len(near) else ""
            listed = ", ".join(map(repr, near))
            raise EndpointError(f"{self.url} has no model {self.model!r}; it has {listed}{more}")

    def _completion(self, reply: Reply, *, wants_logprobs: bool) -> Completion:
        match data := self._json(reply):
            case {"choices": [{"message": {**message}} as choice, *_]}:
                content, usage = message.get("content"), data.get("usage")
            case _:
                raise self._strange(reply, "no choices with a message")
        if not isinstance(content, str | None):
            raise self._strange(reply, "a message whose content is not text")
        counts = usage if isinstance(usage, dict) else {}
        completion = Completion(
            text=(content or "").encode("utf-8", "backslashreplace").decode(),
            finish_reason=str(choice.get("finish_reason") or "unknown"),
            prompt_tokens=_integer(counts.get("prompt_tokens")),
            completion_tokens=_integer(counts.get("completion_tokens")),
        )
        if not wants_logprobs:
            return completion
        try:
            return replace(completion, top_logprobs=_top_logprobs(choice["logprobs"]["content"]))
        except (KeyError, TypeError, ValueError):
            raise self._strange(reply, "no log probabilities, which were asked for") from None

    def _json(self, reply: Reply) -> Any:
        try:
            return json.loads(reply.content)
        except (ValueError, RecursionError):
            raise self._strange(reply, "something else than JSON") from None

    def _strange(self, reply: Reply, what: str) -> EndpointError:
        return EndpointError(
            f"{self.url} answered with {what} ({self._transport.detail(reply.content)}); is it an "
            "OpenAI-compatible chat endpoint?"
        )


def _split(spec: str) -> tuple[str, str]:
    """Base URL and model of `openai:URL#MODEL`.

    >>> _split("openai:http://127.0.0.1:8000#qwen")
    ('http://127.0.0.1:8000/v1', 'qwen')
    >>> _split("openai:https://llm.example/api/v1/#med/gemma:4b")
    ('https://llm.example/api/v1', 'med/gemma:4b')
    """
    url, _, model = spec.removeprefix("openai:").partition("#")
    shown = re.sub(r"//[^/@#]*@", "//***@", re.sub(r"\?[^#]*", "?***", spec))
    try:
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")  # what resolving the name would trip over
        well_formed = parts.scheme in ("http", "https") and bool(parts.hostname)
        well_formed = well_formed and parts.port != 0 and not re.search(r"\s", url)
    except ValueError:
        well_formed = False
    if not (well_formed and spec.startswith("openai:")):
        raise InvalidArgument(
            f"{shown!r} is no endpoint; write openai:http://HOST:PORT#MODEL or "
            "openai:https://HOST/v1#MODEL"
        )
    if parts.username is not None or parts.query:
        raise InvalidArgument(
            f"the URL of an endpoint at {parts.hostname} has a user or a query; give the key in "
            f"{KEY_VARIABLE}"
        )
    if not model:
        raise InvalidArgument(f"{shown!r} names no model; write openai:URL#MODEL")
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    if not any(re.fullmatch(r"v\d\w*", part) for part in path.split("/")):
        path += "/v1"
    return f"{parts.scheme}://{parts.netloc}{path}", model


def _integer(value: Any) -> int | None:
    return value if type(value) is int else None


def _top_logprobs(content: Sequence[Any]) -> tuple[tuple[tuple[str, float], ...], ...]:
    positions = (
        [(str(top["token"]), float(top["logprob"])) for top in token["top_logprobs"]]
        for token in content
    )
    return tuple(tuple(sorted(tops, key=lambda top: -top[1])) for tops in positions)
