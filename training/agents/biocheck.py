"""The BioCheck agent as nodes and edges, and the loop that runs them; PMSearch ends in a label.

    ask -> (search calls? search : end)     search -> (cap reached? intervene : ask)
    intervene -> ask

Source: BioCheck / EG-GRPO, arXiv 2608.23811. Decided where the paper is silent: calls of one
reply count one each; the call that reaches the cap is executed and brings the intervention; a
model that calls again after it has ended without a decision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, assert_never

from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.report import Report
from clinical_envs.factcheck.report_parser import parse_report, read_answer
from training.agents.checked import Checked
from training.agents.desk import PAPERS, AgentProblem, Desk, Message, Search, result_text
from training.agents.prompts import agent_messages, intervention
from training.agents.reply import Reply, read_reply, said

Node = Literal["ask", "search", "intervene", "end"]


_NOTHING_SAID = Reply(calls=(), ending="")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Where a check stands: a node gets it and returns what it changes.

    reply: the last one, as read. messages: the dialogue so far, roles alternating.
    """

    claim: str
    messages: tuple[Message, ...]
    reply: Reply = _NOTHING_SAID
    searches: tuple[Search, ...] = ()
    articles: Mapping[str, Article] = field(default_factory=dict)
    intervened: bool = False

    @property
    def charged(self) -> int:
        """Searches that count towards the cap."""
        return sum(search.charged for search in self.searches)


class Agent:
    """The nodes and edges of the agent at a desk; `report` is False for PMSearch."""

    def __init__(self, desk: Desk, *, report: bool = True) -> None:
        self.desk, self.report = desk, report

    def start(self, claim: str) -> State:
        """The state before the first reply."""
        opening = agent_messages(claim, cap=self.desk.cap, papers=PAPERS, report=self.report)
        return State(claim=claim, messages=tuple(opening))

    def ask(self, state: State) -> dict[str, Any]:
        """Node: the model speaks."""
        text = self.desk.ask(state.messages)
        message = {"role": "assistant", "content": said(text)}
        return {"messages": (*state.messages, message), "reply": read_reply(text)}

    def search(self, state: State) -> dict[str, Any]:
        """Node: every call of the reply, in order; those beyond the cap are refused."""
        searches, articles, lines = list(state.searches), dict(state.articles), []
        charged = state.charged
        for call in state.reply.calls:
            search, found = self.desk.call(call, charged)
            charged += search.charged
            searches.append(search)
            articles |= found
            lines.append(result_text(search, found))
        lines.append(f'{{"searches_left": {self.desk.cap - charged}}}')
        message = {"role": "user", "content": "\n".join(lines)}
        return {
            "messages": (*state.messages, message),
            "searches": tuple(searches),
            "articles": articles,
        }

    def intervene(self, state: State) -> dict[str, Any]:
        """Node: tell the model to stop searching, in the turn that brought the last results."""
        *before, results = state.messages
        told = f"{results['content']}\n\n{intervention(cap=self.desk.cap, report=self.report)}"
        return {"messages": (*before, results | {"content": told}), "intervened": True}

    def after_ask(self, state: State) -> Literal["search", "end"]:
        """Edge: calls are executed, but none after the intervention."""
        return "search" if state.reply.calls and not state.intervened else "end"

    def after_search(self, state: State) -> Literal["ask", "intervene"]:
        """Edge: the intervention comes when the cap is reached."""
        return "intervene" if state.charged >= self.desk.cap else "ask"

    def finish(self, state: State) -> Checked:
        """What the last reply ends with, as a report."""
        if state.reply.calls:
            report, problems = Report(verdict=None), [AgentProblem.IGNORED_INTERVENTION.value]
        elif self.report:
            parsed = parse_report(state.reply.ending)
            report, problems = parsed.report, [error.problem.value for error in parsed.errors]
        else:
            verdict, errors = read_answer(state.reply.ending)
            report, problems = Report(verdict=verdict), [error.problem.value for error in errors]
        return Checked(
            claim=state.claim,
            report=report,
            searches=state.searches,
            articles=state.articles,
            problems=tuple(dict.fromkeys([*problems, *self.desk.problems])),
            messages=state.messages,
            spent=self.desk.spent,
        )


Run = Callable[[Agent, State], State]


def run_plain(agent: Agent, state: State) -> State:
    """Follow the edges to the end; at most cap + 1 replies."""
    node: Node = "ask"
    while True:
        match node:
            case "ask":
                state = replace(state, **agent.ask(state))
                node = agent.after_ask(state)
            case "search":
                state = replace(state, **agent.search(state))
                node = agent.after_search(state)
            case "intervene":
                state = replace(state, **agent.intervene(state))
                node = "ask"
            case "end":
                return state
            case _:
                assert_never(node)


def check_with_agent(claim: str, desk: Desk, *, report: bool, run: Run = run_plain) -> Checked:
    """Check a claim with BioCheck, or with PMSearch when no report is asked for."""
    agent = Agent(desk, report=report)
    return agent.finish(run(agent, agent.start(claim)))
