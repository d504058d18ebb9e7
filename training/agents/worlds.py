"""A method as a policy of the fact-checking worlds: `METHOD:openai:URL#MODEL`.

The encounter is the search back-end: a search is a turn, charged like any other, and retrieves
what the dialogue of the world retrieves. The verdict, with its report where the world takes one,
is the last turn; a method that reaches none wastes the turns that are left. A search call that
cannot be read counts towards the cap of the method and is no turn.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from clinical_envs.adapters.dialogues import dialogue_for
from clinical_envs.episode import Episode
from clinical_envs.errors import InvalidArgument
from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.dialogue import FactCheckDialogue, LabelDialogue
from clinical_envs.factcheck.library import Miss, retrieved
from clinical_envs.factcheck.query import Match, parse_query
from clinical_envs.factcheck.query_ast import to_pubmed
from clinical_envs.factcheck.query_error import QueryError, QueryProblem
from clinical_envs.factcheck.report import Report, render_report
from clinical_envs.factcheck.search import SearchResult
from clinical_envs.factcheck.topics import topic
from clinical_envs.factcheck.turns import ANSWER, REPORT, SEARCH
from clinical_envs.factcheck.verdict import Verdict
from clinical_envs.simulator import Ask, Encounter, Invalid
from clinical_envs.task import Task
from oracles.policy import Rollout
from training.agents.desk import CAP, MAX_TOKENS, Desk
from training.agents.methods import find_run
from training.endpoint import ChatModel


class EncounterSearch:
    """The literature of an encounter; every search is one of its turns."""

    def __init__(self, dialogue: LabelDialogue) -> None:
        self.dialogue = dialogue
        self._articles: dict[str, Article] = {}

    def search(
        self, query: str, *, limit: int = 5, match: Match = "all"
    ) -> SearchResult | QueryError:
        """The studies of the body of evidence that the query retrieves."""
        if match == "any" and not isinstance(parsed := parse_query(query, "any"), QueryError):
            query = to_pubmed(parsed.root)  # the world itself knows "all" only
        turn = json.dumps({"action": SEARCH, "query": query}, ensure_ascii=False)
        _, _, action = self.dialogue.step(turn)
        if isinstance(action, Ask):
            found = self._studies(action)
            self._articles |= found
            return SearchResult(
                count=len(found), pmids=(*found,)[:limit], query_translation=query, warnings=()
            )
        told = json.loads(self.dialogue.messages[-1]["content"])
        if told["error"] in (Miss.NO_HITS, Miss.OFF_TOPIC):
            warnings = told.get("warnings") or [f"best hit on another topic: {told.get('best')}"]
            return SearchResult(
                count=0, pmids=(), query_translation=query, warnings=tuple(warnings)
            )
        if told["error"] == Miss.BAD_QUERY:
            problem, position = QueryProblem(told["problem"]), told["position"]
            return QueryError(problem=problem, position=position, message=told["message"])
        message = f"the turn is {told['error']}; write a shorter query"
        return QueryError(problem=QueryProblem.TOO_LONG, position=0, message=message)

    def fetch(self, pmids: Sequence[str]) -> dict[str, Article]:
        """Studies that were retrieved before."""
        return {pmid: self._articles[pmid] for pmid in pmids if pmid in self._articles}

    def _studies(self, ask: Ask) -> dict[str, Article]:
        encounter = self.dialogue.encounter
        body, seen = encounter.task.finding_ids[ask.finding], dict(encounter.info.seen())
        studies = retrieved(encounter.identity, self.dialogue.family, {body: seen[ask.finding]})
        return {pmid: article for pmid, (_, article) in studies.items()}


class MethodPolicy:
    """A method over a chat model as a batch policy; greedy, so rollouts of a case are the same.

    Raises:
        InvalidArgument: the task is no fact-checking world, or there is no such method.
    """

    def __init__(
        self, task: Task, method: str, model: ChatModel, name: str, *, max_tokens: int = MAX_TOKENS
    ) -> None:
        if not issubclass(dialogue_for(task), LabelDialogue):
            raise InvalidArgument(
                f"{task.name} is no fact-checking world, and {method} plays those only; give "
                "--policy openai:URL#MODEL"
            )
        self.task, self.model, self.name = task, model, name
        self.run, self.max_tokens = find_run(method), max_tokens

    @property
    def batch_size(self) -> int:
        """One case at a time."""
        return 1

    def play(self, rollouts: Sequence[Rollout]) -> list[Episode]:
        """The finished records, in order.

        Raises:
            EndpointError: the endpoint failed.
        """
        played: dict[str, LabelDialogue] = {}
        episodes = []
        for rollout in rollouts:
            key = rollout.case.hash
            if key not in played:
                played[key] = self._played(rollout)
            turns = played[key].messages
            episodes.append(
                played[key].encounter.episode(
                    policy=self.name,
                    rollout=rollout.number,
                    greedy=rollout.greedy,
                    raw=tuple(turn["content"] for turn in turns if turn["role"] == "assistant"),
                )
            )
        return episodes

    def _played(self, rollout: Rollout) -> LabelDialogue:
        encounter = Encounter(self.task, rollout.case)
        dialogue = dialogue_for(self.task)(encounter)
        if not isinstance(dialogue, LabelDialogue):
            raise InvalidArgument(f"{self.task.name} is no fact-checking world")
        desk = Desk(
            self.model,
            EncounterSearch(dialogue),
            cap=min(CAP, encounter.info.turns_left - 1),
            max_tokens=self.max_tokens,
        )
        report = self.run(topic(encounter.identity, dialogue.family).claim, desk).report
        if report.verdict is not None:
            dialogue.step(_ending(report, report.verdict, dialogue))
        while not encounter.over:
            dialogue.play(Invalid("bad_report"))
        return dialogue


def _ending(report: Report, verdict: Verdict, dialogue: LabelDialogue) -> str:
    if isinstance(dialogue, FactCheckDialogue):
        turn = {"action": REPORT, "report": render_report(report)}
    else:
        turn = {"action": ANSWER, "label": verdict.value}
    return json.dumps(turn, ensure_ascii=False)
