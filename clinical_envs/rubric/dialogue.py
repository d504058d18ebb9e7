"""A rubric-graded answer in text: ask for context, then answer with a set of claims.

    {"action": "ask", "item": "..."}
    {"action": "answer", "claims": [{"concept": "...", "explicit": true, "reasoned": false}, ...]}

`explicit` may be left out (true), `reasoned` too (false). A set of claims is read as the decision
that `grading.classify` says. Reading is total and looks at nothing but the text.
"""

from __future__ import annotations

import json
from typing import Any

from clinical_envs import protocol
from clinical_envs.belief import InfoState, initial_state
from clinical_envs.episode import CommitTurn, Episode
from clinical_envs.errors import InvalidArgument, InvalidEpisode
from clinical_envs.protocol import Dialogue
from clinical_envs.rubric.criteria import Answer, Claim
from clinical_envs.rubric.grading import classify
from clinical_envs.rubric.world import Message, context, message, messages
from clinical_envs.simulator import Action, Ask, Commit, Encounter, Invalid
from clinical_envs.task import Task

_ARGUMENT = {"ask": "item", "answer": "claims"}
_CLAIM_KEYS = {"concept", "explicit", "reasoned"}


class RubricDialogue(Dialogue):
    """An encounter of `ClinicalRubric-v0` in text."""

    __slots__ = ("message",)

    def __init__(self, encounter: Encounter) -> None:
        family = encounter.task.family_ids[encounter.info.family]
        self.message = message(family, encounter.identity)
        super().__init__(encounter)

    @classmethod
    def longest_messages(cls, task: Task) -> list[str]:
        """Every context answer, and openings that already know them all."""
        longer = [
            (q, len(context()[name].present) >= len(context()[name].absent))
            for q, name in enumerate(task.finding_ids)
        ]
        longest = [
            _opening(task, initial_state(task, number, longer), asked)
            for number, family in enumerate(task.family_ids)
            for asked in messages(family)
        ]
        return longest + [
            _reply(_context(task, q, answer), task.turn_cap)
            for q in range(len(task.findings))
            for answer in (True, False)
        ]

    def opening(self) -> str:
        """The message, what can be asked and said, and the context known at the start."""
        return _opening(self.encounter.task, self.encounter.info, self.message)

    def read(self, text: str) -> Action:
        """A turn of text as an action, or the named reason why it is none; total."""
        turn = read_turn(self.message, text)
        task = self.encounter.task
        match turn:
            case Invalid():
                return turn
            case str():
                finding = task.finding_index.get(turn)
                return Invalid("unknown_item") if finding is None else Ask(finding)
            case _:
                return Commit(task.decision_index[classify(self.message, turn)])

    def respond(self, action: Ask | Invalid, answer: bool | None) -> str:
        """What the record or the patient says, or the reason why the turn was invalid."""
        left = self.encounter.info.turns_left
        if isinstance(action, Invalid):
            return _reply({"error": action.reason}, left)
        if answer is None:
            raise InvalidArgument("an ask has an answer; give it")
        return _reply(_context(self.encounter.task, action.finding, answer), left)

    def write(self, action: Action) -> str:
        """The text of an ask, or the canonical claims of a decision."""
        task = self.encounter.task
        match action:
            case Ask(finding):
                return json.dumps({"action": "ask", "item": task.finding_ids[finding]})
            case Commit(decision):
                claims = self.message.answers[task.decision_ids[decision]]
                return json.dumps({"action": "answer", "claims": [_written(c) for c in claims]})
            case Invalid():
                return ""


def read_turn(asked: Message, text: str) -> str | tuple[Claim, ...] | Invalid:
    """A turn as the item asked for, the claims of an answer, or the named reason why neither."""
    turn = protocol.read_turn(text, _ARGUMENT)
    if isinstance(turn, Invalid):
        return turn
    if turn.kind == "answer":
        return _claims(asked, turn.value)
    return turn.value if isinstance(turn.value, str) else Invalid("not_text")


def _claims(asked: Message, value: object) -> tuple[Claim, ...] | Invalid:
    if not isinstance(value, list):
        return Invalid("not_a_list")
    claims = []
    for one in value:
        claim = _claim(asked, one)
        if isinstance(claim, Invalid):
            return claim
        claims.append(claim)
    return tuple(claims)


def _claim(asked: Message, value: object) -> Claim | Invalid:
    if not isinstance(value, dict) or "concept" not in value:
        return Invalid("not_a_claim")
    if value.keys() - _CLAIM_KEYS:
        return Invalid("unknown_key")
    name = value["concept"]
    concept = asked.concepts.get(name) if isinstance(name, str) else None
    if concept is None:
        return Invalid("unknown_concept")
    explicit, reasoned = value.get("explicit", True), value.get("reasoned", False)
    if not isinstance(explicit, bool) or not isinstance(reasoned, bool):
        return Invalid("not_a_claim")
    return Claim(concept=concept, explicit=explicit, reasoned=reasoned)


def answer_claims(asked: Message, episode: Episode) -> Answer | None:
    """The claims an episode ended with, the policy's own where they are recorded.

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
    turn = read_turn(asked, episode.raw[-1]) if episode.raw else Invalid("empty")
    if isinstance(turn, Invalid | str) or classify(asked, turn) != last.commit:
        raise InvalidEpisode(f"the last text of the episode is not its decision {last.commit!r}")
    return turn


def _written(claim: Claim) -> dict[str, Any]:
    """A claim as the protocol has it, defaults left out."""
    written: dict[str, Any] = {"concept": claim.concept.id}
    if not claim.explicit:
        written["explicit"] = False
    if claim.reasoned:
        written["reasoned"] = True
    return written


def _opening(task: Task, info: InfoState, asked: Message) -> str:
    concepts = "\n".join(f"- {name}: {say}" for name, (say, _) in asked.sayings.items())
    items = "\n".join(f"- {finding.id}: {finding.text}" for finding in task.findings)
    lines = [
        task.setting,
        task.families[info.family].text,
        f"The message: {asked.text}",
        f"Context items:\n{items}",
        f"What an answer can say:\n{concepts}",
        f"Each question costs {task.question_cost:g}. You have {task.turn_cap} turns, and the last "
        "must be an answer.",
        "Reply with one JSON object and nothing else:",
        '{"action": "ask", "item": "..."}',
        "or",
        '{"action": "answer", "claims": [{"concept": "...", "explicit": true, "reasoned": true}]}',
    ]
    known = [_context(task, q, present) for q, present in info.seen()]
    if known:
        lines.append(f"Known at the start: {json.dumps(known)}")
    return "\n".join(lines)


def _context(task: Task, finding: int, answer: bool) -> dict[str, str]:
    name = task.finding_ids[finding]
    return {"item": name, "answer": context()[name].text(answer)}


def _reply(content: dict[str, str], turns_left: int) -> str:
    return json.dumps({**content, "turns_left": turns_left})
