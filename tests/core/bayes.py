"""Bayes' rule by brute force: every patient a family can have, with its probability.

Written from the task file's own fields, in plain Python, so that it shares no code with the
package's belief.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from clinical_envs.task import Task


class Patient(NamedTuple):
    """One hidden state with one answer for every finding."""

    state: str
    answers: Mapping[str, bool]
    probability: float


def patients(task: Task, family: str) -> Iterator[Patient]:
    """The joint distribution of state and answers in a family."""
    names = [finding.id for finding in task.findings]
    for s, state in enumerate(task.states):
        for answers in itertools.product([False, True], repeat=len(names)):
            factors = [state.prior]
            for finding, present in zip(task.findings, answers, strict=True):
                p = finding.p[family][s]
                factors.append(p if present else 1.0 - p)
            yield Patient(state.id, dict(zip(names, answers, strict=True)), math.prod(factors))


def consistent(task: Task, family: str, seen: Mapping[str, bool]) -> list[Patient]:
    """The patients that give the answers seen."""
    return [
        patient
        for patient in patients(task, family)
        if all(patient.answers[name] == present for name, present in seen.items())
    ]


def evidence_probability(task: Task, family: str, seen: Mapping[str, bool]) -> float:
    """P(answers seen | family)."""
    return math.fsum(patient.probability for patient in consistent(task, family, seen))


def brute_posterior(task: Task, family: str, seen: Mapping[str, bool]) -> list[float]:
    """P(state | answers seen, family), in the order of the states."""
    total = evidence_probability(task, family, seen)
    found = consistent(task, family, seen)
    return [
        math.fsum(patient.probability for patient in found if patient.state == state.id) / total
        for state in task.states
    ]


def brute_predictive(task: Task, family: str, seen: Mapping[str, bool]) -> list[float]:
    """P(finding present | answers seen, family), in the order of the findings."""
    total = evidence_probability(task, family, seen)
    found = consistent(task, family, seen)
    return [
        math.fsum(patient.probability for patient in found if patient.answers[finding.id]) / total
        for finding in task.findings
    ]
