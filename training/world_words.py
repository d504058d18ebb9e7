"""The words of an evidence world: what the embedded policy reads and writes as one token each.

    text = (name | number | piece)*

A world words every case anew, so its lines are no fixed set. What is fixed are the names that vary
between cases (drugs, outcomes, concepts, ...) and the pieces of text between names and numbers;
both are collected from played dialogues. Numbers are cut into groups of two digits, so that long
ones are copied in few tokens. A line of the prompt that every tenth case shares is one word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from clinical_envs.adapters.dialogues import dialogue_for
from clinical_envs.case import case_set
from clinical_envs.protocol import REASONS, Dialogue, Message
from clinical_envs.simulator import Ask, Commit, Encounter, Invalid
from clinical_envs.task import Task
from training.embedded import menu_words

_DIALOGUES = 400
_SHARED = 0.1
_NUMBER = r"\d{1,2}(?:\.(?=\d))?"


def speaks_findings(task: Task) -> bool:
    """Whether a task is worded by the JSON protocol of findings, and not by words of its own."""
    return dialogue_for(task) is Dialogue


def policy_words(task: Task, *, menu: bool) -> tuple[str, ...] | None:
    """What an embedded policy of the task says and hears; None for the clinical tokenizer."""
    return menu_words(task) if menu else world_words(task)


def world_words(task: Task) -> tuple[str, ...] | None:
    """Every word of a task with its own dialogue; None for the protocol of findings."""
    if speaks_findings(task):
        return None
    pattern = _separators(_names(task))
    lines, words = Counter[str](), dict[str, None]()
    for messages in _dialogues(task):
        lines.update(dict.fromkeys(messages[0]["content"].splitlines(), 1))
        for message in messages:
            words |= dict.fromkeys(pieces(message["content"], pattern))
    shared = [line for line, times in lines.items() if line and times >= _SHARED * _DIALOGUES]
    return tuple(dict.fromkeys([*shared, *words]))


def pieces(text: str, separators: re.Pattern[str]) -> Iterator[str]:
    """A text line by line as the separators found in it and what lies between them.

    >>> list(pieces("12.5 mg of aspirin", _separators(["aspirin"])))
    ['12.', '5', ' mg of ', 'aspirin']
    """
    for line in text.splitlines(keepends=True):
        end = 0
        for found in separators.finditer(line):
            yield from (part for part in (line[end : found.start()], found[0]) if part)
            end = found.end()
        if end < len(line):
            yield line[end:]


def _separators(names: Iterable[str]) -> re.Pattern[str]:
    """Names, the longest first, and groups of digits."""
    either_case = {form for name in names for form in (name, name[:1].upper() + name[1:])}
    ordered = sorted(either_case, key=lambda name: (-len(name), name))
    return re.compile("|".join([*map(re.escape, ordered), _NUMBER]))


def _names(task: Task) -> tuple[str, ...]:
    """What varies between the texts of a world's cases."""
    match task.id:
        case "ClinicalFactCheck-v0" | "ClinicalFactCheckLabel-v0":
            from clinical_envs.factcheck import designs, topics

            drugs = [name for drug in topics.DRUGS for name in (drug.name, drug.kind)]
            outcomes = [outcome for of_family in topics.OUTCOMES.values() for outcome in of_family]
            phrases = [design.phrase for design in designs.DESIGNS.values()]
            rest = (*topics.POPULATIONS, *designs.MARKERS, *designs.SUBGROUPS)
            return (*drugs, *outcomes, *phrases, *rest)
        case "ClinicalCheckedQA-v0":
            from clinical_envs.checkedqa.world import drugs_and_outcomes

            return drugs_and_outcomes()
        case "ClinicalRubric-v0":
            from clinical_envs.rubric.world import messages

            concepts = [name for f in task.family_ids for name in messages(f)[0].concepts]
            return (*concepts, *task.finding_ids)
        case _:
            return ()


def _dialogues(task: Task) -> Iterator[list[Message]]:
    """Cases of the `sft` set played at random; the first ones begin with an invalid turn each."""
    rng, reasons = np.random.default_rng(0), iter(REASONS)
    for case in case_set(task, "sft").cases[:_DIALOGUES]:
        dialogue = dialogue_for(task)(Encounter(task, case))
        reason = next(reasons, None)
        if reason is not None:
            dialogue.play(Invalid(reason))
        for finding in rng.permutation(len(task.findings))[: rng.integers(task.turn_cap - 1)]:
            dialogue.play(Ask(int(finding)))
        dialogue.play(Commit(int(rng.integers(len(task.decisions)))))
        yield dialogue.messages
