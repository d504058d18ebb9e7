"""What an engine plays: something that opens a dialogue in text and answers each turn.

An engine knows tokens and no medicine; a `Speaker` knows the encounter and no tokens. The episode
of an encounter is one speaker; the two phases of the decoupled variant are others.
"""

from __future__ import annotations

import json
from typing import Protocol

from clinical_envs.adapters.dialogues import dialogue_for
from clinical_envs.belief import InfoState
from clinical_envs.case import Case
from clinical_envs.episode import Episode
from clinical_envs.protocol import parse_action, prompt, reply
from clinical_envs.simulator import Action, Ask, Commit, Encounter, Invalid
from clinical_envs.task import Task
from training.embedded import MODES

EXPLORE, EXPLOIT = MODES
STOP = json.dumps({"action": "stop"})


class Speaker(Protocol):
    """The environment's side of a dialogue."""

    @property
    def opening(self) -> str:
        """The first user turn."""
        ...

    def answer(self, text: str, *, complete: bool = True) -> str | None:
        """The next user turn, or None when the dialogue is over.

        complete: False for a turn that hit its token limit, which is an invalid turn.
        """
        ...


class EpisodeSpeaker:
    """One whole encounter, asks and the commit, in the words of the task's own dialogue."""

    def __init__(self, task: Task, case: Case) -> None:
        self.task, self.case = task, case
        self._dialogue = dialogue_for(task)(Encounter(task, case))

    @property
    def opening(self) -> str:
        """The prompt."""
        return self._dialogue.messages[0]["content"]

    def answer(self, text: str, *, complete: bool = True) -> str | None:
        """The reply to one turn."""
        _, over, _ = self._dialogue.step(text, complete=complete)
        return None if over else self._dialogue.messages[-1]["content"]

    @property
    def actions(self) -> tuple[Action, ...]:
        """The turns so far."""
        return self._dialogue.encounter.actions

    @property
    def asks(self) -> int:
        """Asks so far, repeats included."""
        return sum(isinstance(action, Ask) for action in self.actions)

    @property
    def decision(self) -> int | None:
        """What was committed to."""
        last = self.actions[-1] if self.actions else None
        return last.decision if isinstance(last, Commit) else None

    def finish(self, *, policy: str, rollout: int, greedy: bool = False) -> Episode:
        """The finished record, with the raw texts.

        An encounter that the engine had to cut at its context limit ends as no decision: its
        turns that are left are wasted.
        """
        while not self._dialogue.encounter.over:
            self._dialogue.step("", complete=False)
        raw = tuple(m["content"] for m in self._dialogue.messages if m["role"] == "assistant")
        return self._dialogue.encounter.episode(
            policy=policy, rollout=rollout, greedy=greedy, raw=raw
        )


class MenuSpeaker(EpisodeSpeaker):
    """An encounter of a world with words of its own, spoken in the protocol of findings.

    The policy picks findings and decisions from the menu. The world writes their texts, which are
    what is recorded, so that an episode is read and paid like one in the policy's own words.
    """

    @property
    def opening(self) -> str:
        """The prompt of the protocol."""
        return prompt(self.task, self.case.start(self.task))

    def answer(self, text: str, *, complete: bool = True) -> str | None:
        """The reply of the protocol to one turn."""
        action = parse_action(self.task, text) if complete else Invalid("too_long")
        transition = self._dialogue.play(action)
        if transition.terminated or isinstance(action, Commit):
            return None
        left = self._dialogue.encounter.info.turns_left
        return reply(self.task, action, transition.answer, left)


class ExploreSpeaker:
    """The exploring phase: asks, then `{"action": "stop"}`, at most cap - 1 turns.

    A commit here is invalid. `info` is what exploring revealed; charged counts its turns.
    """

    def __init__(self, task: Task, case: Case) -> None:
        self.task, self.case = task, case
        self.start = self.info = case.start(task)
        self.actions: list[Action] = []
        self.stopped = False

    @property
    def opening(self) -> str:
        """The prompt with its mode line."""
        return f"{prompt(self.task, self.start)}\n{EXPLORE}"

    def answer(self, text: str, *, complete: bool = True) -> str | None:
        """The reply to one turn."""
        if complete and text == STOP:
            self.stopped = True
            return None
        action = parse_action(self.task, text) if complete else Invalid("too_long")
        if isinstance(action, Commit):
            action = Invalid("unknown_action")
        present = None
        if isinstance(action, Ask):
            present = self.case.answers[action.finding]
            self.info = self.info.see(action.finding, present)
        else:
            self.info = self.info.waste()
        self.actions.append(action)
        if self.info.turns_left <= 1:
            return None
        return reply(self.task, action, present, self.info.turns_left)


class ExploitSpeaker:
    """The exploiting phase: one commit on what exploring revealed, and on nothing else.

    It is built from the information state alone; it never sees the case.
    """

    def __init__(self, task: Task, info: InfoState) -> None:
        self.task, self.info = task, info
        self.action: Action | None = None

    @property
    def opening(self) -> str:
        """The prompt that holds only what was revealed."""
        return exploit_prompt(self.task, self.info)

    def answer(self, text: str, *, complete: bool = True) -> str | None:
        """Reads the commit; the phase ends with it."""
        self.action = parse_action(self.task, text) if complete else Invalid("too_long")
        if isinstance(self.action, Ask):
            self.action = Invalid("unknown_action")
        return None


def exploit_prompt(task: Task, info: InfoState) -> str:
    """The prompt of the exploiting phase: task, family, findings in file order, mode line.

    One turn is left, the commit, however many were spent on exploring.
    """
    start = InfoState(info.family, 0, 0, task.turn_cap)
    seen = "\n".join(reply(task, Ask(finding), present, 1) for finding, present in info.seen())
    return "\n".join(part for part in (prompt(task, start), seen, EXPLOIT) if part)
