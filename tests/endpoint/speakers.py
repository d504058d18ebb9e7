"""Policies that read the dialogue and nothing else, so that they speak alike here and over HTTP."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence

from clinical_envs.belief import info_state
from clinical_envs.protocol import action_text
from clinical_envs.simulator import Ask
from clinical_envs.task import Task
from oracles.oracle import Oracle

Messages = Sequence[Mapping[str, str]]


def first_finding(messages: Messages) -> str:
    """Asks for the first finding of the prompt, then commits to its first decision."""
    prompt = messages[0]["content"]
    if len(messages) == 1:
        finding = prompt.partition("Findings: ")[2].partition(",")[0]
        return json.dumps({"action": "ask", "finding": finding})
    return json.dumps({"action": "commit", "decision": re.findall(r"^- (\w+):", prompt, re.M)[0]})


class OracleSpeaker:
    """The exact oracle, which reads the information state out of the dialogue."""

    def __init__(self, task: Task) -> None:
        self.task, self.oracle = task, Oracle(task)

    def __call__(self, messages: Messages) -> str:
        prompt, *replies = (m["content"] for m in messages if m["role"] == "user")
        (family,) = (f.id for f in self.task.families if f.text in prompt)
        info = info_state(self.task, family)
        for reply in map(json.loads, replies):
            info = info.see(self.task.finding(reply["finding"]), reply["answer"] == "yes")
        return action_text(self.task, self.oracle.act(info))


class SeededSpeaker:
    """Draws its turns from the seed of the request; every fourth draw is no action."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def __call__(self, body: Mapping[str, object]) -> str:
        drawn = hashlib.sha256(str(body["seed"]).encode()).digest()
        if drawn[0] % 4 == 0:
            return f"I wonder, {drawn[1]}."
        if drawn[0] % 4 == 1:
            name = self.task.decision_ids[drawn[1] % len(self.task.decisions)]
            return json.dumps({"action": "commit", "decision": name})
        return action_text(self.task, Ask(drawn[1] % len(self.task.findings)))
