"""Text in, action or named failure out; one JSON object a turn.

    {"action": "ask", "finding": "..."}        {"action": "commit", "decision": "..."}

The parser is total, guesses nothing and repairs nothing. The simulator speaks in user turns, so
that roles strictly alternate: prompt (user), action (assistant), reply (user), action, ...
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypedDict

from clinical_envs.belief import InfoState, initial_state
from clinical_envs.errors import InvalidArgument
from clinical_envs.simulator import Action, Ask, Commit, Encounter, Invalid, Transition
from clinical_envs.task import Task

MAX_ACTION_CHARS = 2_000
REASONS = {
    "empty": "the turn is empty",
    "too_long": f"longer than {MAX_ACTION_CHARS} characters, or cut at the token limit",
    "not_json": "not one JSON object and nothing else",
    "not_an_object": "JSON, but not an object",
    "duplicate_key": "a key stands twice",
    "unknown_key": "a key that the action does not have",
    "missing_key": "a key is missing",
    "not_text": "a value is not text",
    "unknown_action": 'action is neither "ask" nor "commit"',
    "unknown_finding": "no such finding",
    "unknown_decision": "no such decision",
}
_ARGUMENT = {"ask": "finding", "commit": "decision"}


class Message(TypedDict):
    """One turn of a dialogue."""

    role: Literal["user", "assistant"]
    content: str


def prompt(task: Task, info: InfoState) -> str:
    """The first user turn; the same text for every case of a family when nothing is revealed.

    >>> from clinical_envs import info_state, load_task
    >>> task = load_task("titration")
    >>> print(prompt(task, info_state(task, "anticoagulation")).splitlines()[1])
    A patient is referred for a decision on anticoagulation.
    """
    decisions = "\n".join(f"- {decision.id}: {decision.text}" for decision in task.decisions)
    lines = [
        task.setting,
        task.families[info.family].text,
        f"Findings: {', '.join(task.finding_ids)}",
        f"Decisions:\n{decisions}",
        f"Each question costs {task.question_cost:g}. You have {task.turn_cap} turns, and the last "
        "must be a commit.",
        "Reply with one JSON object and nothing else:",
        '{"action": "ask", "finding": "..."}',
        "or",
        '{"action": "commit", "decision": "..."}',
    ]
    known = {task.finding_ids[q]: _yes_no(present) for q, present in info.seen()}
    if known:
        lines.append(f"Known at the start: {json.dumps(known)}")
    return "\n".join(lines)


def action_text(task: Task, action: Ask | Commit) -> str:
    """The text of an action; `parse_action` reads it back."""
    if isinstance(action, Ask):
        return json.dumps({"action": "ask", "finding": task.finding_ids[action.finding]})
    return json.dumps({"action": "commit", "decision": task.decision_ids[action.decision]})


def reply(task: Task, action: Ask | Invalid, answer: bool | None, turns_left: int) -> str:
    """The user turn that follows a charged turn."""
    if isinstance(action, Invalid):
        content: dict[str, Any] = {"error": action.reason}
    elif answer is None:
        raise InvalidArgument("an ask has an answer; give it")
    else:
        content = {"finding": task.finding_ids[action.finding], "answer": _yes_no(answer)}
    return json.dumps(content | {"turns_left": turns_left})


def parse_action(task: Task, text: str) -> Action:
    """One turn of text as an action, or the named reason why it is none (see `REASONS`).

    >>> from clinical_envs import load_task
    >>> task = load_task("diagnostics")
    >>> parse_action(task, '{"action": "ask", "finding": "fever"}')
    Ask(finding=14)
    >>> parse_action(task, 'I would ask about fever.')
    Invalid(reason='not_json')
    """
    turn = read_turn(text, _ARGUMENT)
    if isinstance(turn, Invalid):
        return turn
    if not isinstance(turn.value, str):
        return Invalid("not_text")
    if turn.kind == "ask":
        finding = task.finding_index.get(turn.value)
        return Invalid("unknown_finding") if finding is None else Ask(finding)
    decision = task.decision_index.get(turn.value)
    return Invalid("unknown_decision") if decision is None else Commit(decision)


class WrittenTurn(NamedTuple):
    """A turn of text: which action, and the value of its one argument."""

    kind: str
    value: Any


def read_turn(
    text: str, arguments: Mapping[str, str], *, max_chars: int = MAX_ACTION_CHARS
) -> WrittenTurn | Invalid:
    """One JSON object `{"action": KIND, ARGUMENT: value}` and nothing else; total.

    arguments: the argument of each kind of action. A key that stands twice, at any depth, is
    refused.

    >>> read_turn('{"action": "search", "query": "asthma"}', {"search": "query"})
    WrittenTurn(kind='search', value='asthma')
    """
    if len(text) > max_chars:
        return Invalid("too_long")
    if not text.strip():
        return Invalid("empty")
    try:
        fields = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except _RepeatedKeyError:
        return Invalid("duplicate_key")
    except (ValueError, RecursionError):
        return Invalid("not_json")
    if not isinstance(fields, dict):
        return Invalid("not_an_object")
    if "action" not in fields:
        return Invalid("missing_key")
    kind = fields["action"]
    if not isinstance(kind, str):
        return Invalid("not_text")
    if kind not in arguments:
        return Invalid("unknown_action")
    if arguments[kind] not in fields:
        return Invalid("missing_key")
    if len(fields) > 2:
        return Invalid("unknown_key")
    return WrittenTurn(kind, fields[arguments[kind]])


class _RepeatedKeyError(ValueError):
    """A key stands twice in a JSON object."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _RepeatedKeyError
    return fields


class Dialogue:
    """An encounter in text: the messages so far, and the next turn from text.

    A world with its own wording overrides `opening`, `read`, `respond`, `write` and the limits;
    the rules of a turn stay the simulator's.
    """

    __slots__ = ("encounter", "messages")
    max_action_chars = MAX_ACTION_CHARS

    @classmethod
    def longest_messages(cls, task: Task) -> list[str]:
        """User turns of every kind, none shorter than any the dialogue can show."""
        everything = [(finding, True) for finding in range(len(task.findings))]
        return [prompt(task, initial_state(task, f, everything)) for f in range(len(task.families))]

    def __init__(self, encounter: Encounter) -> None:
        self.encounter = encounter
        self.messages: list[Message] = [{"role": "user", "content": self.opening()}]

    def opening(self) -> str:
        """The first user turn."""
        return prompt(self.encounter.task, self.encounter.info)

    def read(self, text: str) -> Action:
        """A turn of text as an action; total."""
        return parse_action(self.encounter.task, text)

    def respond(self, action: Ask | Invalid, answer: bool | None) -> str:
        """The user turn that follows a charged turn."""
        return reply(self.encounter.task, action, answer, self.encounter.info.turns_left)

    def write(self, action: Action) -> str:
        """The text of an action; `read` reads it back."""
        return "" if isinstance(action, Invalid) else action_text(self.encounter.task, action)

    def step(self, text: str, *, complete: bool = True) -> tuple[float, bool, Action]:
        """Play one turn from text.

        Args:
            text: what the policy wrote.
            complete: False for a turn that was cut at its limit; it is invalid whatever it says.

        Returns:
            The reward, whether the episode is over, and the action that the text was read as.
        """
        action = self.read(text) if complete else Invalid("too_long")
        transition = self.play(action, text)
        return transition.reward, transition.terminated, action

    def play(self, action: Action, text: str | None = None) -> Transition:
        """Play one turn by action; without a text it is written as `write` says."""
        transition = self.encounter.step(action)
        content = self.write(action) if text is None else text
        self.messages.append({"role": "assistant", "content": content})
        if not transition.terminated and not isinstance(action, Commit):
            content = self.respond(action, transition.answer)
            self.messages.append({"role": "user", "content": content})
        return transition


def _yes_no(present: bool) -> str:
    return "yes" if present else "no"


def _refuse(constant: str) -> None:
    raise ValueError(constant)
