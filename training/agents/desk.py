"""Where one claim is checked: a model to ask, literature to search, and what both have cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.query import Match
from clinical_envs.factcheck.query_error import QueryError
from clinical_envs.factcheck.search import SearchBackend
from clinical_envs.simulator import Invalid
from training.agents.reply import encodable
from training.endpoint import ChatModel, ContextExceededError

CAP = 5
"""Searches of one claim."""
PAPERS = 5
"""Articles that one search shows."""
MAX_TOKENS = 4096
"""Tokens of one reply."""
REFUSED = "search_cap"

_LINE_ENDS = {ord(end): json.dumps(end)[1:-1] for end in "\x85\u2028\u2029"}

Message = dict[str, str]
Say = Callable[[str], None]


def quiet(line: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One search call and what came of it.

    problem: why nothing was searched: the problem of the query, the reason why the call is none,
    or `search_cap`. pmids: the best hits. without_record: those of them that have no record.
    """

    query: str
    count: int | None = None
    pmids: tuple[str, ...] = ()
    without_record: tuple[str, ...] = ()
    read_as: str = ""
    warnings: tuple[str, ...] = ()
    problem: str | None = None
    advice: str = ""

    @property
    def charged(self) -> bool:
        """Whether it counts towards the cap: everything that was not refused by it."""
        return self.problem != REFUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Requests and tokens; tokens are None where the endpoint did not count them."""

    requests: int = 0
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0


class AgentProblem(StrEnum):
    """What went wrong in a check beside the form of its report."""

    IGNORED_INTERVENTION = "ignored_intervention"  # another search after it was told to stop
    BAD_FORMAT = "bad_format"  # a reply and all its retries were in no required form
    CUT_REPLY = "cut_reply"  # a reply ended at the token limit
    CONTEXT_EXCEEDED = "context_exceeded"  # the dialogue no longer fits the model


class Desk:
    """A model, a back-end and the limits of one claim; counts what is spent and what went wrong.

    model: anything with the `chat` of an endpoint. cap: searches allowed. max_tokens: of one
    reply. say: told one line after each search.
    """

    def __init__(
        self,
        model: ChatModel,
        backend: SearchBackend,
        *,
        cap: int = CAP,
        max_tokens: int = MAX_TOKENS,
        say: Say = quiet,
    ) -> None:
        self.model, self.backend = model, backend
        self.cap, self.max_tokens, self.say = cap, max_tokens, say
        self.spent = Spent()
        self.problems: dict[AgentProblem, None] = {}
        self._searches = 0

    def ask(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The model's reply, greedy; empty when the dialogue no longer fits the model.

        Raises:
            ContextExceededError: not even the first request fits, which is nobody's verdict.
            EndpointError: the endpoint failed.
        """
        try:
            done = self.model.chat(messages, temperature=0.0, max_tokens=self.max_tokens)
        except ContextExceededError as error:
            if not self.spent.requests:
                raise
            self.problems[AgentProblem.CONTEXT_EXCEEDED] = None
            self.say(str(error))
            return ""
        if done.finish_reason == "length":
            self.problems[AgentProblem.CUT_REPLY] = None
        self.spent = Spent(
            requests=self.spent.requests + 1,
            prompt_tokens=_sum(self.spent.prompt_tokens, done.prompt_tokens),
            completion_tokens=_sum(self.spent.completion_tokens, done.completion_tokens),
        )
        return encodable(done.text)

    def search(
        self, query: str, *, limit: int = PAPERS, match: Match = "all"
    ) -> tuple[Search, dict[str, Article]]:
        """One search and the articles it shows; a bad query is a result, an outage raises."""
        found = self.backend.search(query, limit=limit, match=match)
        if isinstance(found, QueryError):
            search = Search(query=query, problem=found.problem.value, advice=found.message)
            return self._told(search), {}
        articles = self.backend.fetch(found.pmids)
        search = Search(
            query=query,
            count=found.count,
            pmids=found.pmids,
            without_record=tuple(pmid for pmid in found.pmids if pmid not in articles),
            read_as=found.query_translation,
            warnings=found.warnings,
        )
        return self._told(search), articles

    def call(self, call: str | Invalid, charged: int) -> tuple[Search, dict[str, Article]]:
        """Execute one search call after `charged` others; the cap is enforced here."""
        if charged >= self.cap:
            advice = f"all {self.cap} searches are used; this one was not executed"
            query = call if isinstance(call, str) else ""
            return Search(query=query, problem=REFUSED, advice=advice), {}
        if isinstance(call, Invalid):
            advice = 'a search is one line: {"action": "search_pubmed", "query": "..."}'
            return self._told(Search(query="", problem=call.reason, advice=advice)), {}
        return self.search(call)

    def _told(self, search: Search) -> Search:
        self._searches += 1
        shown = len(search.pmids) - len(search.without_record)
        outcome = search.problem or f"{search.count} found, {shown} read"
        self.say(f"search {self._searches}: {search.query} · {outcome}")
        return search


def result_text(search: Search, articles: Mapping[str, Article]) -> str:
    """What the model is told of a search: one line of JSON, so that no abstract can leave it."""
    if search.problem is not None:
        return json_line({"query": search.query, "error": search.problem, "message": search.advice})
    content: dict[str, Any] = {
        "query": search.query,
        "read_as": search.read_as,
        "count": search.count,
        "articles": [
            {
                "pmid": pmid,
                "title": article.title,
                "year": article.year,
                "abstract": article.text or None,
            }
            for pmid, article in articles.items()
        ],
    }
    if search.warnings:
        content["warnings"] = search.warnings
    if search.without_record:
        content["without_record"] = search.without_record
    return json_line(content)


def json_line(content: Mapping[str, Any]) -> str:
    """JSON on one line, whatever counts as the end of a line."""
    return json.dumps(content, ensure_ascii=False).translate(_LINE_ENDS)


def _sum(total: int | None, more: int | None) -> int | None:
    return None if total is None or more is None else total + more
