"""A chat model as a judge: asked until its reply can be read, a bounded number of times."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, TypeVar

from clinical_envs.factcheck.verdict import Verdict
from training.agents.evidence_scorer import (
    TOP_LOGPROBS,
    EndpointOptions,
    OptionScores,
    UnknownScore,
)
from training.agents.reply import said
from training.endpoint import ChatModel, Completion, ContextExceededError, EndpointError
from training.judges.cache import ReplyCache, reply_key

T = TypeVar("T")

Reader = Callable[[str], tuple[T, str]]
"""Reads a reply: what it says, and what is wrong with it (empty if nothing is)."""

ATTEMPTS = 3
MAX_TOKENS = 2048
_FAILURES_IN_A_ROW = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a judge was asked and what that took.

    questions: in all; cached: answered by the cache; requests: replies received; unread: questions
    whose last reply could not be read whole; failed: questions that ended with a failed request.
    uncounted: replies whose tokens the server does not count, which the sums leave out.
    """

    questions: int = 0
    cached: int = 0
    requests: int = 0
    unread: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    uncounted: int = 0

    def cost(self, prompt_price: float, completion_price: float) -> float:
        """Of the tokens, in the unit of two prices per million tokens."""
        tokens = self.prompt_tokens * prompt_price + self.completion_tokens * completion_price
        return tokens / 1e6


class Judge:
    """One chat model, its cache and what it has cost; safe to use from many threads.

    name: of the model, and part of the cache's keys. max_tokens: of a reply, thoughts included.
    Replies are decoded greedily; one that was read is remembered, because a server may still answer
    the same question differently. trouble: why the last request that failed did.

    Both ways of asking raise `EndpointError` once five requests in a row have failed, whatever they
    asked; a single failure leaves its question unanswered.
    """

    def __init__(
        self,
        model: ChatModel,
        name: str,
        cache: ReplyCache | None = None,
        *,
        max_tokens: int = MAX_TOKENS,
    ) -> None:
        self.name, self.spent = name, Spent()
        self.trouble: str | None = None
        self._model, self._cache, self._max_tokens = model, cache, max_tokens
        self._lock, self._failures = threading.Lock(), 0

    def ask(self, question: str, read: Reader[T]) -> T | None:
        """What the judge says, or None where no reply could be had.

        A reply that cannot be read whole is sent back with what is wrong with it, twice at most;
        then the last reply counts as far as it goes. Only replies that were read whole are
        remembered, so that a later run asks again for what is missing.
        """
        key = reply_key(self.name, question, max_tokens=self._max_tokens)
        remembered = self._remembered(key)
        if remembered is not None:
            value, problem = read(remembered)
            if not problem:
                self._count(questions=1, cached=1)
                return value
        return self._ask(key, question, read)

    def option_scores(self, prompt: str, options: Mapping[Verdict, str]) -> OptionScores:
        """P(option | prompt), so that a judge is an option model too; asked once, then remembered.

        Raises:
            UnknownScore: the request failed, or the reply has no log-probabilities.
        """
        key = reply_key(self.name, prompt, top_logprobs=TOP_LOGPROBS)
        remembered = self._remembered(key)
        if remembered is not None:
            first = tuple((str(token), float(logprob)) for token, logprob in json.loads(remembered))
            completion: Completion | None = Completion(
                text="", finish_reason="stop", top_logprobs=(first,)
            )
        else:
            # at temperature 1 the probabilities are the model's own, whatever the server returns
            messages = [{"role": "user", "content": prompt}]
            completion = self._request(
                messages, temperature=1.0, max_tokens=1, top_logprobs=TOP_LOGPROBS
            )
        self._count(questions=1, cached=remembered is not None, failed=completion is None)
        if completion is None:
            raise UnknownScore(str(self.trouble))
        if remembered is None and completion.top_logprobs:
            self._remember(key, json.dumps(completion.top_logprobs[0]))
        return EndpointOptions(_Said(completion)).option_scores(prompt, options)

    def _ask(self, key: str, question: str, read: Reader[T]) -> T | None:
        messages = [{"role": "user", "content": question}]
        value: T | None = None
        for _ in range(ATTEMPTS):
            completion = self._request(messages, temperature=0.0, max_tokens=self._max_tokens)
            if completion is None:
                self._count(questions=1, failed=1)
                return value
            reply = said(completion.text).strip()
            value, problem = read(reply)
            cut = completion.finish_reason == "length"
            if not problem and not cut:
                self._remember(key, reply)
                self._count(questions=1)
                return value
            if cut:
                value = value if problem else None  # it reads well, and its end is not there
                problem = f"it was cut at {self._max_tokens} tokens; be brief"
            again = f"This reply cannot be read: {problem}. Reply again in the form asked for."
            messages += [
                {"role": "assistant", "content": reply or "(nothing)"},
                {"role": "user", "content": again},
            ]
        self._count(questions=1, unread=1)
        return value

    def _request(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        temperature: float,
        max_tokens: int,
        top_logprobs: int | None = None,
    ) -> Completion | None:
        """One reply; None if the request failed, unless too many in a row have."""
        try:
            completion = self._model.chat(
                messages,
                temperature=temperature,
                max_tokens=max_tokens,
                top_logprobs=top_logprobs,
            )
        except EndpointError as error:
            with self._lock:
                self.trouble = str(error)
                # a question too long for the model says nothing about the next
                self._failures += not isinstance(error, ContextExceededError)
                if self._failures >= _FAILURES_IN_A_ROW:
                    raise
            return None
        prompt, text = completion.prompt_tokens, completion.completion_tokens
        with self._lock:
            self._failures = 0
        self._count(
            requests=1,
            prompt_tokens=prompt or 0,
            completion_tokens=text or 0,
            uncounted=prompt is None or text is None,
        )
        return completion

    def _remembered(self, key: str) -> str | None:
        return self._cache.get(key) if self._cache else None

    def _remember(self, key: str, reply: str) -> None:
        if self._cache:
            self._cache.put(key, reply)

    def _count(self, **more: int) -> None:
        with self._lock:
            totals = {name: getattr(self.spent, name) + n for name, n in more.items()}
            self.spent = replace(self.spent, **totals)


@dataclass(frozen=True, slots=True)
class _Said:
    """A chat model that has already answered."""

    completion: Completion

    def chat(self, *_: Any, **__: Any) -> Completion:
        return self.completion


def quoted(name: str, text: str) -> str:
    """The text between two marks that it cannot contain, for they bear its own hash.

    >>> print(quoted("answer", "Take aspirin."))
    [answer 8e92864123d6d8a0]
    Take aspirin.
    [end of answer 8e92864123d6d8a0]
    """
    mark = f"{name} {sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
    return f"[{mark}]\n{text}\n[end of {mark}]"
