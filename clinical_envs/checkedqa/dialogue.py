"""Checked question answering in text: search a small library, then answer in free text.

    {"action": "search", "query": "..."}        {"action": "answer", "answer": "..."}

A query finds the passage whose title shares most words with it; an answer is classified by
`Question.classify`. Both readings are total and look at nothing but the text.
"""

from __future__ import annotations

import json

from clinical_envs import protocol
from clinical_envs.belief import InfoState, initial_state
from clinical_envs.checkedqa.world import Question, question, questions
from clinical_envs.episode import CommitTurn, Episode
from clinical_envs.errors import InvalidArgument, InvalidEpisode
from clinical_envs.protocol import Dialogue
from clinical_envs.simulator import Action, Ask, Commit, Encounter, Invalid
from clinical_envs.task import Task

_ARGUMENT = {"search": "query", "answer": "answer"}


class CheckedQADialogue(Dialogue):
    """An encounter of `ClinicalCheckedQA-v0` in text."""

    __slots__ = ("question",)

    def __init__(self, encounter: Encounter) -> None:
        family = encounter.task.family_ids[encounter.info.family]
        self.question = question(family, encounter.identity)
        super().__init__(encounter)

    @classmethod
    def longest_messages(cls, task: Task) -> list[str]:
        """Every passage in every wording, and openings that already know them all."""
        longest = []
        for number, family in enumerate(task.family_ids):
            for asked in questions(family):
                longer = [
                    (q, len(asked.passages[name].present) >= len(asked.passages[name].absent))
                    for q, name in enumerate(task.finding_ids)
                ]
                longest.append(_opening(task, initial_state(task, number, longer), asked))
                longest += [
                    _reply(_passage(task, asked, q, lean), task.turn_cap)
                    for q in range(len(task.findings))
                    for lean in (True, False)
                ]
        return longest

    def opening(self) -> str:
        """The question, the rules, and the passages known at the start."""
        return _opening(self.encounter.task, self.encounter.info, self.question)

    def read(self, text: str) -> Action:
        """A turn of text as an action, or the named reason why it is none; total."""
        turn = read_turn(text)
        if isinstance(turn, Invalid):
            return turn
        kind, value = turn
        task = self.encounter.task
        if kind == "answer":
            return Commit(task.decision_index[self.question.classify(value)])
        finding = self.question.retrieve(value)
        return Invalid("no_hit") if finding is None else Ask(task.finding_index[finding])

    def respond(self, action: Ask | Invalid, answer: bool | None) -> str:
        """The passage found, or the reason why the turn was invalid."""
        left = self.encounter.info.turns_left
        if isinstance(action, Invalid):
            return _reply({"error": action.reason}, left)
        if answer is None:
            raise InvalidArgument("a search has an answer; give it")
        return _reply(_passage(self.encounter.task, self.question, action.finding, answer), left)

    def write(self, action: Action) -> str:
        """The canonical query of a passage, or the canonical answer of a decision."""
        task = self.encounter.task
        match action:
            case Ask(finding):
                query = self.question.passages[task.finding_ids[finding]].title
                return json.dumps({"action": "search", "query": query})
            case Commit(decision):
                answer = self.question.answers[task.decision_ids[decision]]
                return json.dumps({"action": "answer", "answer": answer}, ensure_ascii=False)
            case Invalid():
                return ""


def read_turn(text: str) -> tuple[str, str] | Invalid:
    """A turn as (`search` or `answer`, its text), or the named reason why it is neither; total.

    >>> read_turn('{"action": "search", "query": "trials"}')
    ('search', 'trials')
    >>> read_turn("search for trials")
    Invalid(reason='not_json')
    """
    turn = protocol.read_turn(text, _ARGUMENT)
    if isinstance(turn, Invalid):
        return turn
    return (turn.kind, turn.value) if isinstance(turn.value, str) else Invalid("not_text")


def answer_text(asked: Question, episode: Episode) -> str | None:
    """The answer an episode ended with, in the policy's own words where they are recorded.

    Returns:
        None if it ended without an answer.

    Raises:
        InvalidEpisode: the recorded text is not the recorded decision.
    """
    last = episode.turns[-1] if episode.turns else None
    if not isinstance(last, CommitTurn):
        return None
    if episode.raw is None:
        return asked.answers[last.commit]
    turn = read_turn(episode.raw[-1]) if episode.raw else Invalid("empty")
    if turn[0] == "answer" and asked.classify(turn[-1]) == last.commit:
        return turn[-1]
    raise InvalidEpisode(f"the last text of the episode is not its decision {last.commit!r}")


def _opening(task: Task, info: InfoState, asked: Question) -> str:
    lines = [
        task.setting,
        task.families[info.family].text,
        f"Question: {asked.text}",
        f"The library holds {len(asked.passages)} passages: trials, replications, cohorts, follow "
        "up, guidelines, reviews and news. A search shows the one whose title fits best.",
        f"Each search costs {task.question_cost:g}. You have {task.turn_cap} turns, and the last "
        "must be an answer.",
        "Reply with one JSON object and nothing else:",
        '{"action": "search", "query": "..."}',
        "or",
        '{"action": "answer", "answer": "..."}',
    ]
    known = [_passage(task, asked, q, present) for q, present in info.seen()]
    if known:
        lines.append(f"Known at the start: {json.dumps(known)}")
    return "\n".join(lines)


def _passage(task: Task, asked: Question, finding: int, answer: bool) -> dict[str, str]:
    passage = asked.passages[task.finding_ids[finding]]
    return {"title": passage.title, "passage": passage.text(answer)}


def _reply(content: dict[str, str], turns_left: int) -> str:
    return json.dumps({**content, "turns_left": turns_left})
