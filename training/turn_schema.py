"""The turns of a dialogue as a JSON schema, for servers that can be held to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clinical_envs.checkedqa.dialogue import CheckedQADialogue
from clinical_envs.factcheck.dialogue import FactCheckDialogue, LabelDialogue
from clinical_envs.factcheck.turns import REPORT, SEARCH
from clinical_envs.factcheck.verdict import Verdict
from clinical_envs.protocol import Dialogue
from clinical_envs.rubric.dialogue import RubricDialogue

_TEXT = {"type": "string"}
_YES_NO = {"type": "boolean"}


def turn_schema(dialogue: Dialogue) -> dict[str, Any]:
    """One object a kind of action; every text of it is an action of that kind, or searches for one.

    >>> from clinical_envs import case_set, load_task
    >>> from clinical_envs.simulator import Encounter
    >>> task = load_task("refill")
    >>> schema = turn_schema(Dialogue(Encounter(task, case_set(task, "test").cases[0])))
    >>> [list(kind["properties"]) for kind in schema["anyOf"]]
    [['action', 'finding'], ['action', 'decision']]
    """
    task = dialogue.encounter.task
    match dialogue:
        case RubricDialogue():
            concepts = _one_of(tuple(dialogue.message.sayings))
            claim = _object({"concept": concepts, "explicit": _YES_NO, "reasoned": _YES_NO})
            claims = {"type": "array", "items": claim}
            kinds = [
                _kind("ask", "item", _one_of(task.finding_ids)),
                _kind("answer", "claims", claims),
            ]
        case CheckedQADialogue():
            kinds = [_kind("search", "query", _TEXT), _kind("answer", "answer", _TEXT)]
        case FactCheckDialogue():
            kinds = [_kind(SEARCH, "query", _TEXT), _kind(REPORT, "report", _TEXT)]
        case LabelDialogue():
            labels = _one_of([verdict.value for verdict in Verdict])
            kinds = [_kind(SEARCH, "query", _TEXT), _kind("answer", "label", labels)]
        case _:
            kinds = [
                _kind("ask", "finding", _one_of(task.finding_ids)),
                _kind("commit", "decision", _one_of(task.decision_ids)),
            ]
    return {"anyOf": kinds}


def _kind(action: str, argument: str, value: dict[str, Any]) -> dict[str, Any]:
    return _object({"action": _one_of([action]), argument: value})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    """An object with all of these keys and no other."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _one_of(names: Sequence[str]) -> dict[str, Any]:
    return {"type": "string", "enum": list(names)}
