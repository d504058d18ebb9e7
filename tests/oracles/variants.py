"""Changed copies of a task, information states of it, and policies that play it anyhow."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from clinical_envs.belief import InfoState, path_weights
from clinical_envs.case import Case
from clinical_envs.simulator import Action, Ask, Commit, Encounter, Invalid
from clinical_envs.task import Task
from oracles.policy import Deterministic, Rule
from tests.core.bayes import patients


def changed(task: Task, **fields: Any) -> Task:
    """The task with other fields; what hangs on names that may have gone is left out."""
    return Task.model_validate(_plain(task) | fields)


def only(task: Task, findings: Sequence[str]) -> Task:
    """The task with these findings alone."""
    kept = [row for row in _plain(task)["findings"] if row["id"] in findings]
    return changed(task, findings=kept)


def with_finding(task: Task, name: str, p: dict[str, list[float]]) -> Task:
    """The task with one more finding, the last."""
    more = {"id": name, "text": name, "p": p}
    return changed(task, findings=[*_plain(task)["findings"], more])


def relabelled(task: Task, rng: np.random.Generator) -> Task:
    """The task with states, findings, decisions and families in another order."""
    data = _plain(task)
    states = rng.permutation(len(task.states)).tolist()
    decisions = rng.permutation(len(task.decisions)).tolist()
    findings = [
        {**data["findings"][q], "p": {f: [row[s] for s in states] for f, row in p.items()}}
        for q in rng.permutation(len(task.findings)).tolist()
        for p in [data["findings"][q]["p"]]
    ]
    return Task.model_validate(
        data
        | {
            "states": [data["states"][s] for s in states],
            "decisions": [data["decisions"][a] for a in decisions],
            "utility": {s: [row[a] for a in decisions] for s, row in data["utility"].items()},
            "families": [data["families"][f] for f in rng.permutation(len(task.families)).tolist()],
            "findings": findings,
        }
    )


def _plain(task: Task) -> dict[str, Any]:
    return task.model_dump(mode="json") | {"checklist": {}, "high_acuity": {}}


def info_states(task: Task, family: int, *, all_turns: bool = True) -> Iterator[InfoState]:
    """Every information state that some patient can reach, with every number of turns left."""
    n = len(task.findings)
    for answers in itertools.product((None, False, True), repeat=n):
        asked = sum(1 << q for q in range(n) if answers[q] is not None)
        present = sum(1 << q for q in range(n) if answers[q])
        info = InfoState(family, asked, present, task.turn_cap)
        if path_weights(task, info).sum() > 0.0:
            turns = range(task.turn_cap + 1) if all_turns else [task.turn_cap]
            yield from (info._replace(turns_left=left) for left in turns)


def named(task: Task, info: InfoState) -> dict[str, bool]:
    """The findings seen, by name."""
    return {task.finding_ids[q]: present for q, present in info.seen()}


def table_policy(task: Task, seed: int) -> Deterministic:
    """Any action at all in each information state: repeats, invalid turns, late commits."""
    actions: list[Action] = [
        *map(Ask, range(len(task.findings))),
        *map(Commit, range(len(task.decisions))),
        Invalid("not_json"),
    ]

    def rule(info: InfoState) -> Action:
        draw = np.random.default_rng([seed, *info]).integers(len(actions))
        return actions[int(draw)]

    return Deterministic(f"table_{seed}", rule)


def every_case(task: Task) -> Iterator[tuple[float, Case]]:
    """Every patient there is with its probability, families equally likely."""
    for f, family in enumerate(task.family_ids):
        for index, patient in enumerate(patients(task, family)):
            if patient.probability > 0.0:
                yield (
                    patient.probability / len(task.families),
                    Case(
                        task=task.key,
                        split="train",
                        seed=0,
                        index=index,
                        family=f,
                        state=task.state_ids.index(patient.state),
                        answers=tuple(patient.answers.values()),
                    ),
                )


def played(task: Task, case: Case, rule: Rule) -> tuple[float, Encounter]:
    """One case played to its end: what was paid, turn by turn, and the encounter."""
    encounter, paid = Encounter(task, case), 0.0
    while not encounter.over:
        paid += encounter.step(rule(encounter.info)).reward
    return paid, encounter
