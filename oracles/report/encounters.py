"""The encounters that a report carries for its viewer: bounded, as data, nothing trusted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from clinical_envs.case import CaseStream
from clinical_envs.episode import AskTurn, CommitTurn, Episode, InvalidTurn
from clinical_envs.simulator import Ask, Encounter
from clinical_envs.task import Task
from oracles.assessment import Assessment
from oracles.audits import Audit, PolicyAudit
from oracles.clinical import ClinicalWorld
from oracles.explanation import Turn, describe, explain
from oracles.flags import Verdict
from oracles.oracle import Oracle
from oracles.report.marks import shown
from oracles.tree_drawing import acuity_colours, ink_on

MAX_CHARACTERS = 1_500_000
LONGEST_RAW = 500
_Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Encounters:
    """records: what the viewer shows. number_of: position of an assessed episode, by identity."""

    records: tuple[_Json, ...]
    tasks: dict[str, _Json]
    number_of: dict[int, int]
    left_out: int

    def embed(self) -> Markup:
        """Everything as JSON that no text can break out of when it stands in a script element."""
        return Markup(_inert({"tasks": self.tasks, "records": self.records}))


def choose_encounters(audit: Audit, limit: int = MAX_CHARACTERS) -> Encounters:
    """The flags' examples, then a few telling episodes a policy, until the page is full enough."""
    chosen: dict[int, tuple[int, _Json]] = {}
    size = left_out = 0
    for position, policy, row in _candidates(audit):
        if id(row) in chosen:
            continue
        record = _record(policy, row)
        size += len(_inert(record))
        if size > limit:
            left_out += 1
            continue
        chosen[id(row)] = (position, record)
    ordered = sorted(chosen.items(), key=lambda item: (item[1][0], item[1][1]["case"]))
    return Encounters(
        records=tuple(record for _, (_, record) in ordered),
        tasks={policy.world.key: _task(policy) for policy in audit.policies},
        number_of={row: number for number, (row, _) in enumerate(ordered)},
        left_out=left_out,
    )


def _inert(data: object) -> str:
    """JSON without a character that HTML or JavaScript could read as its own."""
    text = json.dumps(data, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def case_label(row: Assessment) -> str:
    """A short name of an episode that is the same on every run."""
    name = row.episode.case_id or "case not recorded"
    rollout = "" if row.episode.rollout is None else f", rollout {row.episode.rollout}"
    return shown(f"{name}{rollout}{', greedy' if row.greedy else ''}", 80)


def _candidates(audit: Audit) -> Iterator[tuple[int, PolicyAudit, Assessment]]:
    for verdict in (Verdict.FLAG, Verdict.UNCLEAR):
        for position, policy in enumerate(audit.policies):
            for flag in policy.flags:
                if flag.verdict is verdict:
                    yield from ((position, policy, row) for row in flag.examples)
    for position, policy in enumerate(audit.policies):
        yield from ((position, policy, row) for row in _telling(policy))


def _telling(policy: PolicyAudit) -> Iterator[Assessment]:
    """The first episode, the one of most regret, and the first high-risk one."""
    rows = policy.sample.rows
    yield rows[0]
    judged = [row for row in rows if row.regret is not None]
    if judged:
        yield max(judged, key=lambda row: row.regret or 0.0)
    yield from [row for row in rows if row.group == policy.world.high_risk_group][:1]


def _record(policy: PolicyAudit, row: Assessment) -> _Json:
    caught = [
        flag.name for flag in policy.flags if any(row is example for example in flag.examples)
    ]
    record: _Json = {
        "task": policy.world.key,
        "policy": shown(policy.policy),
        "split": policy.split,
        "case": case_label(row),
        "family": row.family,
        "state": row.episode.state,
        "group": row.group,
        "reward": _rounded(row.reward),
        "expected": row.expected,
        "regret": _rounded(row.regret),
        "flags": caught,
        "turns": [_turn(row.episode, number) for number in range(len(row.episode.turns))],
        "initial": row.episode.initial,
    }
    if isinstance(policy.world, ClinicalWorld):
        record |= _beside_oracle(policy.world.oracle, row, record["turns"])
    return record


def _turn(episode: Episode, number: int) -> _Json:
    plain: _Json
    match episode.turns[number]:
        case AskTurn(ask=finding, answer=answer):
            plain = {"ask": finding, "answer": answer}
        case CommitTurn(commit=decision):
            plain = {"commit": decision}
        case InvalidTurn(invalid=reason):
            plain = {"invalid": shown(reason, 120)}
    if episode.raw is not None and number < len(episode.raw):
        plain["raw"] = episode.raw[number][:LONGEST_RAW]
    return plain


def _beside_oracle(oracle: Oracle, row: Assessment, turns: list[_Json]) -> _Json:
    """Adds the oracle's view to each turn; returns its play, and what was unknown."""
    task, explanation = oracle.task, explain(oracle, row.episode)
    for plain, turn in zip(turns, explanation.turns, strict=True):
        plain |= _view(task, turn)
    unknown = [
        {
            "finding": task.finding_ids[gap.finding],
            "chance": _rounded(gap.chance),
            "present": task.decision_ids[gap.if_present],
            "absent": task.decision_ids[gap.if_absent],
            "changes": gap.changes,
        }
        for gap in explanation.unknown
    ]
    unknown.sort(key=lambda gap: not gap["changes"])
    return {"unknown": unknown, "oracle": _oracle_play(oracle, row)}


def _view(task: Task, turn: Turn) -> _Json:
    return {
        "best": describe(task, turn.best),
        "same": turn.best == turn.action,
        "belief": [_rounded(p) for p in turn.belief.tolist()],
        "value": _rounded(turn.value),
        "q": _rounded(turn.action_value),
        "regret": _rounded(turn.regret),
        "voi": _rounded(turn.net_voi),
        "preferred": task.decision_ids[turn.preferred],
        "changed": turn.changed,
        "nats": _rounded(turn.entropy_drop),
    }


def _oracle_play(oracle: Oracle, row: Assessment) -> _Json | None:
    """The oracle on the same case, which the audit has held against the record."""
    ref, task = row.episode.case, oracle.task
    if ref is None or row.oracle_reward is None:
        return None
    revealed = tuple(sorted(task.finding_index[name] for name in row.episode.initial))
    case = replace(CaseStream(task, ref.split, ref.seed)[ref.index], revealed=revealed)
    encounter, path = Encounter(task, case), []
    while not encounter.over:
        action = oracle.act(encounter.info)
        answer = encounter.step(action).answer
        said = "" if not isinstance(action, Ask) else " → yes" if answer else " → no"
        path.append(describe(task, action) + said)
    return {"reward": _rounded(row.oracle_reward), "path": path}


def _task(policy: PolicyAudit) -> _Json:
    """What the viewer needs to put names into words."""
    world = policy.world
    colours = acuity_colours(len(world.decisions))
    plain: _Json = {
        "name": world.name,
        "decisions": {
            name: {"colour": colour, "ink": ink_on(colour)}
            for name, colour in zip(world.decisions, colours, strict=True)
        },
    }
    if isinstance(world, ClinicalWorld):
        task = world.task
        plain |= {
            "states": [
                {"id": s.id, "text": s.text, "high": s.risk_group == task.high_risk_group}
                for s in task.states
            ],
            "findings": {finding.id: finding.text for finding in task.findings},
            "families": {family.id: family.text for family in task.families},
        }
        for decision in task.decisions:
            plain["decisions"][decision.id]["text"] = decision.text
    return plain


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4) + 0.0
