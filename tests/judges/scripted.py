"""Chat models that say what a test wants, and the replies that judges give."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clinical_envs.rubric.pairwise import DIMENSIONS
from training.endpoint import Completion, EndpointError

Messages = Sequence[Mapping[str, str]]


class Scripted:
    """Says the next text of a list, or what a function makes of the messages.

    An exception in the place of a text is raised. heard: the messages of every request.
    """

    def __init__(self, script: Sequence[Any] | Callable[[Messages], Any]) -> None:
        self._script = script if callable(script) else iter(script)
        self._lock = threading.Lock()
        self.heard: list[Messages] = []
        self.parameters: list[dict[str, Any]] = []

    def chat(
        self,
        messages: Messages,
        *,
        temperature: float = 0.0,
        max_tokens: int = 512,
        seed: int | None = None,
        schema: Mapping[str, Any] | None = None,
        top_logprobs: int | None = None,
    ) -> Completion:
        with self._lock:
            self.heard.append([dict(one) for one in messages])
            self.parameters.append({"temperature": temperature, "max_tokens": max_tokens})
            script = self._script
            said = script(messages) if callable(script) else next(script)
        if isinstance(said, Exception):
            raise said
        if isinstance(said, Completion):
            return said
        return Completion(text=said, finish_reason="stop", prompt_tokens=10, completion_tokens=2)


def verdicts(*met: bool | None) -> str:
    """A judge's reply on a rubric; None leaves a criterion out."""
    given = enumerate(met, start=1)
    return json.dumps(
        {str(i): {"explanation": "x", "criteria_met": one} for i, one in given if one is not None}
    )


def ratings(a: float, b: float) -> str:
    """A judge's reply on a pair, the same rating in every dimension."""
    return json.dumps({"A": dict.fromkeys(DIMENSIONS, a), "B": dict.fromkeys(DIMENSIONS, b)})


def letters(**logprobs: float) -> Completion:
    """A reply of one token with these log-probabilities; underscores are spaces."""
    tops = sorted(logprobs.items(), key=lambda top: -top[1])
    named = tuple((text.replace("_", " "), logprob) for text, logprob in tops)
    return Completion(text=named[0][0], finish_reason="length", top_logprobs=(named,))


def down() -> EndpointError:
    """What an endpoint raises that is not there."""
    return EndpointError("http://judge: connection refused; see that the server runs")
