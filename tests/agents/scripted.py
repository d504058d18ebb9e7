"""Models that say what a test tells them to, and the replies that agents are made of."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from clinical_envs.factcheck.report import Evidence, Report, Summary, render_report
from clinical_envs.factcheck.verdict import Verdict
from training.endpoint import Completion, ContextExceededError, EndpointError

SUMMARY = Summary(
    reasons_to_support="a pilot study",
    reasons_to_refute="a randomised trial",
    consensus="the trial is larger",
    justification="the trial outweighs the pilot study",
)


class ScriptedModel:
    """Says its lines in order, whatever it is asked; an exception among them is raised."""

    name = "scripted"

    def __init__(self, *lines: str | Exception, cut: Iterable[int] = ()) -> None:
        self.lines, self.cut = list(lines), set(cut)
        self.heard: list[list[dict[str, str]]] = []

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
        turn = len(self.heard)
        self.heard.append([dict(message) for message in messages])
        line = self.lines[turn]
        if isinstance(line, Exception):
            raise line
        return Completion(
            text=line,
            finish_reason="length" if turn in self.cut else "stop",
            prompt_tokens=100,
            completion_tokens=10,
        )


class AnsweringModel:
    """Answers by a rule on the dialogue."""

    name = "answering"

    def __init__(self, rule: Callable[[list[str]], str]) -> None:
        self.rule = rule

    def chat(self, messages: Sequence[Mapping[str, str]], **_: Any) -> Completion:
        text = self.rule([message["content"] for message in messages])
        return Completion(text=text, finish_reason="stop", prompt_tokens=7, completion_tokens=3)


def call(query: str) -> str:
    return json.dumps({"action": "search_pubmed", "query": query}, ensure_ascii=False)


def report(
    verdict: Verdict | None = Verdict.REFUTED,
    *,
    supporting: Sequence[tuple[str, str]] = (),
    refuting: Sequence[tuple[str, str]] = (),
) -> str:
    sides = [
        tuple(Evidence(pmid=pmid, quote=quote, context="adults") for pmid, quote in side)
        for side in (supporting, refuting)
    ]
    return render_report(
        Report(verdict=verdict, supporting=sides[0], refuting=sides[1], summary=SUMMARY)
    )


def told(model: ScriptedModel, turn: int) -> list[dict[str, Any]]:
    """The lines of JSON that the model was told before it spoke in a turn."""
    lines = model.heard[turn][-1]["content"].splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


DOWN = EndpointError("http://127.0.0.1:1/v1 does not answer; start the server")
FULL = ContextExceededError("the context holds 4096 tokens; serve it with a longer context")
