"""One episode turn by turn, beside what the oracle would have done. Privileged: reads Q*."""

from __future__ import annotations

from dataclasses import dataclass

from clinical_envs.belief import InfoState, entropy, posterior, predictive
from clinical_envs.episode import Episode
from clinical_envs.simulator import Action, Ask, Commit, Invalid
from clinical_envs.task import FloatArray, Task
from clinical_envs.verifier import verify
from oracles.oracle import Oracle


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one turn did.

    answer: of an ask. belief: before the turn, (S,). value: V* before it. action_value, regret:
    Q* of the action, and what it gave away. net_voi: of the best ask. best: the oracle's action.
    preferred: the decision of highest posterior utility before the turn. changed: the answer
    changed that decision. entropy_drop: in nats, signed.
    """

    action: Action
    answer: bool | None
    belief: FloatArray
    value: float
    action_value: float
    regret: float
    net_voi: float
    best: Ask | Commit
    preferred: int
    changed: bool
    entropy_drop: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A finding not seen at the end, and what it could have changed.

    chance: P(present | findings seen). if_present, if_absent: the preferred decision then.
    """

    finding: int
    chance: float
    if_present: int
    if_absent: int
    changes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The turns, and what was unknown when the episode ended."""

    turns: tuple[Turn, ...]
    unknown: tuple[Unknown, ...]


def explain(oracle: Oracle, episode: Episode) -> Explanation:
    """Explain a finished episode.

    Raises:
        InvalidEpisode: the record contradicts the task or itself.
    """
    task, outcome = oracle.task, verify(oracle.task, episode)
    info, turns = outcome.start, list[Turn]()
    for action in outcome.actions:
        after = info.waste()
        if isinstance(action, Ask):
            after = info.see(action.finding, outcome.final.answer(action.finding))
        turns.append(_turn(oracle, info, action, after))
        info = after
    return Explanation(turns=tuple(turns), unknown=_unknown(task, outcome.final))


def preferred_decision(task: Task, info: InfoState) -> int:
    """argmax_a E[U(a) | findings seen], ties in file order."""
    return int((posterior(task, info) @ task.utility_matrix).round(12).argmax())


def _turn(oracle: Oracle, info: InfoState, action: Action, after: InfoState) -> Turn:
    task, values = oracle.task, oracle.values(info)
    before, preferred = posterior(task, info), preferred_decision(task, info)
    return Turn(
        action=action,
        answer=after.answer(action.finding) if isinstance(action, Ask) else None,
        belief=before,
        value=values.value,
        action_value=values.of(action),
        regret=values.regret(action),
        net_voi=values.best_net_voi,
        best=values.action,
        preferred=preferred,
        changed=preferred_decision(task, after) != preferred,
        entropy_drop=entropy(before) - entropy(posterior(task, after)),
    )


def _unknown(task: Task, info: InfoState) -> tuple[Unknown, ...]:
    now, chance = preferred_decision(task, info), predictive(task, info)
    unknown = []
    for q in task.informative[info.family]:
        if info.knows(q):
            continue
        present, absent = (
            preferred_decision(task, info.see(q, answer, turns=0)) if weight > 0.0 else now
            for answer, weight in ((True, chance[q]), (False, 1.0 - chance[q]))
        )
        unknown.append(
            Unknown(
                finding=q,
                chance=float(chance[q]),
                if_present=present,
                if_absent=absent,
                changes=(present, absent) != (now, now),
            )
        )
    return tuple(unknown)


def describe(task: Task, action: Action) -> str:
    """An action in words: `ask fever`, `commit urgent_admit`, `invalid (not_json)`."""
    match action:
        case Ask(finding):
            return f"ask {task.finding_ids[finding]}"
        case Commit(decision):
            return f"commit {task.decision_ids[decision]}"
        case Invalid(reason):
            return f"invalid ({reason})"
