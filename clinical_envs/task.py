"""A task is data: states, findings, decisions, utilities and wording, validated as a whole.

The decision problem, for hidden state s, family f, finding q and decision a:

    prior P(s), likelihood P(q present | s, f), utility U[s, a], question cost c, turn cap T

Everything here is immutable and public to a policy designer; nothing here knows a case.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator, model_validator

from clinical_envs.errors import InvalidArgument, did_you_mean
from clinical_envs.task_parts import (
    ChecklistCommit,
    ChecklistNode,
    Condition,
    Decision,
    Family,
    Finding,
    Finite,
    Identifier,
    NoDecision,
    Part,
    State,
    Text,
    Version,
)

FloatArray = npt.NDArray[np.float64]

MAX_FAMILIES = MAX_DECISIONS = 64
MAX_STATES = 256
MAX_FINDINGS = 63
PRIOR_TOLERANCE = 1e-6


def _unique(what: str, ids: Sequence[str]) -> None:
    repeated = [name for name, times in Counter(ids).items() if times > 1]
    if repeated:
        raise ValueError(f"{what}: {repeated[0]!r} stands twice; ids must be unique")


def _known(where: str, name: str, known: Iterable[str]) -> None:
    names = list(known)
    if name not in names:
        raise ValueError(f"{where}: unknown {name!r}; {did_you_mean(name, names)}")


class Task(Part):
    """A decision problem as data.

    Arrays (read only), with S states, D decisions, Q findings, N families:
    `prior` (S,), `utility_matrix` (S, D), `no_decision_utility` (S,), `likelihood` (N, Q, S).
    Indices of findings, decisions, states and families follow the file.

    high_acuity: for each decision that needs evidence and each family the conditions that the
    findings seen must satisfy; an empty list asks for nothing in that family.

    Tasks of one content are equal, and hash alike.
    """

    id: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9]{0,63}-v[0-9]+$")]
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
    version: str
    title: Text
    setting: Text
    families: Annotated[tuple[Family, ...], Field(min_length=1, max_length=MAX_FAMILIES)]
    states: Annotated[tuple[State, ...], Field(min_length=1, max_length=MAX_STATES)]
    risk_groups: Annotated[tuple[Identifier, ...], Field(min_length=1)]
    high_risk_group: Identifier
    decisions: Annotated[tuple[Decision, ...], Field(min_length=2, max_length=MAX_DECISIONS)]
    hedges: tuple[Identifier, ...] = ()
    utility: dict[Identifier, tuple[Finite, ...]]
    no_decision: NoDecision = "worst"
    question_cost: Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
    turn_cap: Annotated[int, Field(ge=1, le=1000)]
    findings: Annotated[tuple[Finding, ...], Field(min_length=1, max_length=MAX_FINDINGS)]
    high_acuity: dict[Identifier, dict[Identifier, tuple[Condition, ...]]] = Field(
        default_factory=dict
    )
    checklist: dict[Identifier, ChecklistNode] = Field(default_factory=dict)
    sources: tuple[Text, ...] = ()
    history: Annotated[tuple[Version, ...], Field(min_length=1)]

    @field_validator("checklist", "high_acuity", mode="before")
    @classmethod
    def _none_is_absent(cls, value: Any) -> Any:
        return value if value is not None else {}

    @model_validator(mode="after")
    def _consistent(self) -> Task:
        self._check_names()
        self._check_numbers()
        self._check_evidence()
        self._check_checklist()
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A task of this content with some fields changed, checked as a file is.

        `deep` changes nothing, since a task is immutable.
        """
        return self.model_validate(self.model_dump() | dict(update or {}))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Task):
            return NotImplemented
        return (self.key, self.digest) == (other.key, other.digest)

    def __hash__(self) -> int:
        return hash((self.key, self.digest))

    def _check_names(self) -> None:
        groups = (
            ("families", [family.id for family in self.families]),
            ("states", [state.id for state in self.states]),
            ("decisions", [decision.id for decision in self.decisions]),
            ("findings", [finding.id for finding in self.findings]),
            ("risk_groups", list(self.risk_groups)),
            ("hedges", list(self.hedges)),
        )
        for what, ids in groups:
            _unique(what, ids)
        for state in self.states:
            _known(f"states.{state.id}.risk_group", state.risk_group, self.risk_groups)
        for group in self.risk_groups:
            if all(state.risk_group != group for state in self.states):
                raise ValueError(f"risk_groups: no state is in {group!r}; remove it")
        _known("high_risk_group", self.high_risk_group, self.risk_groups)
        for hedge in self.hedges:
            _known("hedges", hedge, self.decision_ids)
        if self.history[-1].version != self.version:
            raise ValueError(
                f"history: ends at {self.history[-1].version}, not at version {self.version}; "
                "add a line for this version"
            )

    def _check_numbers(self) -> None:
        total = math.fsum(state.prior for state in self.states)
        if abs(total - 1.0) > PRIOR_TOLERANCE:
            raise ValueError(f"states: the priors sum to {total:.6g}, not 1; change prior")
        _same_keys("utility", self.utility, self.state_ids, "state")
        for state, row in self.utility.items():
            if len(row) != len(self.decisions):
                raise ValueError(
                    f"utility.{state}: {len(row)} numbers for {len(self.decisions)} decisions; "
                    "give one a decision"
                )
        if self.no_decision != "worst":
            _same_keys("no_decision", self.no_decision, self.state_ids, "state")
            for state, value in self.no_decision.items():
                worst = min(self.utility[state])
                if value > worst:
                    raise ValueError(
                        f"no_decision.{state}: {value} is above the worst decision there, {worst}; "
                        "lower it, or never deciding would pay"
                    )
        for finding in self.findings:
            where = f"findings.{finding.id}.p"
            _same_keys(where, finding.p, self.family_ids, "family")
            for family, row in finding.p.items():
                if len(row) != len(self.states):
                    raise ValueError(
                        f"{where}.{family}: {len(row)} numbers for {len(self.states)} states; "
                        "give one a state"
                    )

    def _check_evidence(self) -> None:
        for decision, families in self.high_acuity.items():
            _known("high_acuity", decision, self.decision_ids)
            _same_keys(f"high_acuity.{decision}", families, self.family_ids, "family")
            for family, conditions in families.items():
                where = f"high_acuity.{decision}.{family}"
                informative = {
                    self.finding_ids[q] for q in self.informative[self.family_ids.index(family)]
                }
                for condition in conditions:
                    for finding in condition.findings():
                        _known(where, finding, self.finding_ids)
                        if finding not in informative:
                            raise ValueError(
                                f"{where}: {finding!r} carries no information in this family; "
                                "it can support nothing, remove it"
                            )

    def _check_checklist(self) -> None:
        if not self.checklist:
            return
        _same_keys("checklist", self.checklist, self.family_ids, "family")
        for family, root in self.checklist.items():
            where = f"checklist.{family}"
            stack: list[tuple[ChecklistNode, dict[str, str]]] = [(root, {})]
            while stack:
                node, answers = stack.pop()
                if len(answers) >= self.turn_cap:
                    path = ", ".join(f"{finding} {answer}" for finding, answer in answers.items())
                    raise ValueError(
                        f"{where}: the path {path} needs more than {self.turn_cap} turns; commit "
                        "earlier or raise turn_cap"
                    )
                if isinstance(node, ChecklistCommit):
                    _known(where, node.commit, self.decision_ids)
                    continue
                _known(where, node.ask, self.finding_ids)
                if node.ask in answers:
                    raise ValueError(f"{where}: {node.ask!r} is asked twice on one path")
                stack += [
                    (node.yes, answers | {node.ask: "yes"}),
                    (node.no, answers | {node.ask: "no"}),
                ]

    @property
    def key(self) -> str:
        """Identity of the decision problem: `id@version`."""
        return f"{self.id}@{self.version}"

    @cached_property
    def digest(self) -> str:
        """First 16 hex digits of the SHA-256 of the validated content."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]

    @cached_property
    def family_ids(self) -> tuple[str, ...]:
        """Family names, in file order."""
        return tuple(family.id for family in self.families)

    @cached_property
    def state_ids(self) -> tuple[str, ...]:
        """State names, in file order."""
        return tuple(state.id for state in self.states)

    @cached_property
    def finding_ids(self) -> tuple[str, ...]:
        """Finding names, in file order."""
        return tuple(finding.id for finding in self.findings)

    @cached_property
    def decision_ids(self) -> tuple[str, ...]:
        """Decision names, in file order."""
        return tuple(decision.id for decision in self.decisions)

    @cached_property
    def finding_index(self) -> dict[str, int]:
        """Position of each finding."""
        return {name: q for q, name in enumerate(self.finding_ids)}

    @cached_property
    def decision_index(self) -> dict[str, int]:
        """Position of each decision."""
        return {name: a for a, name in enumerate(self.decision_ids)}

    @cached_property
    def prior(self) -> FloatArray:
        """P(s), shape (S,), summing to 1 exactly up to rounding."""
        prior = np.array([state.prior for state in self.states])
        return _frozen(prior / prior.sum())

    @cached_property
    def utility_matrix(self) -> FloatArray:
        """U[s, a], shape (S, D)."""
        return _frozen(np.array([self.utility[state] for state in self.state_ids]))

    @cached_property
    def no_decision_utility(self) -> FloatArray:
        """Utility of running out of turns, shape (S,)."""
        if self.no_decision == "worst":
            return _frozen(self.utility_matrix.min(axis=1))
        return _frozen(np.array([self.no_decision[state] for state in self.state_ids]))

    @cached_property
    def likelihood(self) -> FloatArray:
        """P(q present | s, f), shape (N, Q, S)."""
        rows = [[finding.p[family] for finding in self.findings] for family in self.family_ids]
        return _frozen(np.array(rows))

    @cached_property
    def informative(self) -> tuple[tuple[int, ...], ...]:
        """For each family the findings whose probability depends on the state."""
        return tuple(
            tuple(int(q) for q in np.flatnonzero(np.ptp(rows, axis=1) > 0.0))
            for rows in self.likelihood
        )

    @cached_property
    def high_acuity_decisions(self) -> frozenset[int]:
        """Positions of the decisions that need evidence."""
        return frozenset(self.decision_index[name] for name in self.high_acuity)

    @cached_property
    def hedge_decisions(self) -> frozenset[int]:
        """Positions of the hedge decisions."""
        return frozenset(self.decision_index[name] for name in self.hedges)

    @cached_property
    def group_of_state(self) -> tuple[int, ...]:
        """Position of the risk group of each state."""
        return tuple(self.risk_groups.index(state.risk_group) for state in self.states)

    @cached_property
    def group_prevalence(self) -> FloatArray:
        """P(risk group), shape (number of risk groups,)."""
        prevalence = np.zeros(len(self.risk_groups))
        np.add.at(prevalence, np.array(self.group_of_state), self.prior)
        return _frozen(prevalence)

    def supported(self, family: int, decision: int, seen: Mapping[str, bool]) -> bool | None:
        """Whether the findings seen satisfy the evidence requirement of a decision.

        Returns:
            None where the decision needs no evidence.
        """
        families = self.high_acuity.get(self.decision_ids[decision])
        if families is None:
            return None
        return all(condition.holds(seen) for condition in families[self.family_ids[family]])

    def finding(self, name: str) -> int:
        """Position of a finding.

        Raises:
            InvalidArgument: no such finding; the message has the nearest name.
        """
        if name not in self.finding_index:
            raise InvalidArgument(f"no finding {name!r}; {did_you_mean(name, self.finding_ids)}")
        return self.finding_index[name]

    def decision(self, name: str) -> int:
        """Position of a decision.

        Raises:
            InvalidArgument: no such decision; the message has the nearest name.
        """
        if name not in self.decision_index:
            raise InvalidArgument(f"no decision {name!r}; {did_you_mean(name, self.decision_ids)}")
        return self.decision_index[name]


def text_id(task_id: str) -> str:
    """Gym id of the text version of a task.

    >>> text_id("ClinicalDx-v0")
    'ClinicalDxText-v0'
    """
    return re.sub(r"-v([0-9]+)$", r"Text-v\1", task_id)


def _same_keys(where: str, given: Iterable[str], known: Sequence[str], kind: str) -> None:
    names = list(given)
    for name in names:
        _known(where, name, known)
    missing = [name for name in known if name not in names]
    if missing:
        raise ValueError(f"{where}: nothing for {kind} {missing[0]!r}; add it")


def _frozen(array: FloatArray) -> FloatArray:
    array.setflags(write=False)
    return array
