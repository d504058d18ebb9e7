"""A schema of turns holds all that the dialogue writes, and nothing else is spoken under it."""

from __future__ import annotations

import json

import jsonschema
import pytest

from clinical_envs import case_set, load_task
from clinical_envs.adapters.dialogues import dialogue_for
from clinical_envs.protocol import REASONS
from clinical_envs.simulator import Ask, Commit, Encounter, Invalid
from training.turn_schema import turn_schema

TASKS = [
    "diagnostics",
    "titration",
    "refill",
    "ClinicalFactCheck-v0",
    "ClinicalFactCheckLabel-v0",
    "ClinicalCheckedQA-v0",
    "ClinicalRubric-v0",
]


def opened(name):
    task = load_task(name)
    return dialogue_for(task)(Encounter(task, case_set(task, "validation").cases[0]))


@pytest.mark.parametrize("name", TASKS)
def test_every_turn_that_the_dialogue_writes_keeps_to_the_schema(name):
    dialogue = opened(name)
    task, check = dialogue.encounter.task, jsonschema.Draft202012Validator(turn_schema(dialogue))
    actions = [Ask(q) for q in range(len(task.findings))]
    actions += [Commit(a) for a in range(len(task.decisions))]
    for action in actions:
        said = json.loads(dialogue.write(action))
        if "claims" in said:  # the dialogue leaves defaults out, the schema has them written
            defaults = {"explicit": True, "reasoned": False}
            said["claims"] = [defaults | claim for claim in said["claims"]]
        check.validate(said)


@pytest.mark.parametrize("name", TASKS)
def test_turns_of_the_schema_are_well_formed_in_the_dialogue(name):
    dialogue = opened(name)
    for kind in turn_schema(dialogue)["anyOf"]:
        options = [{}]
        for key, value in kind["properties"].items():
            options = [o | {key: v} for o in options for v in instances(value)]
        for said in options:
            action = dialogue.read(json.dumps(said))
            assert not isinstance(action, Invalid) or action.reason not in REASONS, said


def instances(schema):
    """Some values of a schema: every one of a closed set."""
    if "enum" in schema:
        return schema["enum"]
    if schema["type"] == "array":
        item = schema["items"]["properties"]
        return [[]] + [
            [{"concept": name, "explicit": True, "reasoned": False}]
            for name in item["concept"]["enum"]
        ]
    return ["some words"]


@pytest.mark.parametrize(
    "said",
    [
        "fever",
        {"action": "ask"},
        {"action": "ask", "finding": "no such finding"},
        {"action": "ask", "decision": "discharge"},
        {"action": "commit", "decision": "discharge", "why": "well"},
        {"action": "think", "finding": "fever"},
    ],
)
def test_what_is_no_turn_is_outside_the_schema(said):
    check = jsonschema.Draft202012Validator(turn_schema(opened("diagnostics")))
    assert check.is_valid({"action": "ask", "finding": "fever"})
    assert not check.is_valid(said)


def test_every_kind_of_turn_is_closed_and_complete():
    for name in TASKS:
        for kind in turn_schema(opened(name))["anyOf"]:
            assert kind["additionalProperties"] is False
            assert kind["required"] == list(kind["properties"])
