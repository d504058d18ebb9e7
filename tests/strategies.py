"""Small random tasks, cases of them, and ways to play them.

A task is small enough for brute force: 2-4 states, 1-2 families, 1-5 findings, 2-4 decisions, at
most 5 turns. Probabilities lie on a grid of hundredths, so that ties and flat findings occur.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from clinical_envs.case import SPLITS, Case, CaseStream
from clinical_envs.episode import Episode
from clinical_envs.protocol import REASONS
from clinical_envs.simulator import Action, Ask, Commit, Encounter, Invalid
from clinical_envs.task import Task

MAX_TURNS = 5
RHOS = (0.0, 0.3, 1.0)


class Play(NamedTuple):
    """A case and the turns that play it to its end."""

    task: Task
    case: Case
    actions: tuple[Action, ...]

    def finished(self) -> Encounter:
        """The encounter after its last turn."""
        encounter = Encounter(self.task, self.case)
        for action in self.actions:
            encounter.step(action)
        return encounter

    def episode(self) -> Episode:
        """The record of the encounter."""
        return self.finished().episode(policy="scripted")


@st.composite
def task_data(
    draw: st.DrawFn,
    *,
    max_findings: int = 5,
    max_turns: int = MAX_TURNS,
    certain: bool = False,
) -> dict[str, Any]:
    """The content of a valid task file.

    certain: probabilities of 0 and 1 occur, so that some answers are impossible.
    """
    families = [f"family_{i}" for i in range(draw(st.integers(1, 2)))]
    states = [f"state_{i}" for i in range(draw(st.integers(2, 4)))]
    decisions = [f"decision_{i}" for i in range(draw(st.integers(2, 4)))]
    findings = [f"finding_{i}" for i in range(draw(st.integers(1, max_findings)))]
    turn_cap = draw(st.integers(1, max_turns))
    groups = ["other", "high_risk"]
    in_group = ["other", "high_risk", *(draw(st.sampled_from(groups)) for _ in states[2:])]
    p = {q: {f: draw(_row(len(states), certain)) for f in families} for q in findings}
    utility = {s: [draw(st.integers(-20, 20)) / 20 for _ in decisions] for s in states}
    weights = [draw(st.integers(1, 20)) for _ in states]
    data: dict[str, Any] = {
        "id": "SmallTask-v0",
        "name": "small_task",
        "version": "1.0.0",
        "title": "A small random task",
        "setting": "Ask, then commit.",
        "families": [{"id": f, "text": f"Presentation {f}."} for f in families],
        "states": [
            {"id": s, "risk_group": group, "prior": weight / sum(weights), "text": f"cause {s}"}
            for s, group, weight in zip(states, in_group, weights, strict=True)
        ],
        "risk_groups": groups,
        "high_risk_group": "high_risk",
        "decisions": [{"id": a, "text": f"do {a}"} for a in decisions],
        "hedges": draw(st.lists(st.sampled_from(decisions), unique=True, max_size=1)),
        "utility": utility,
        "no_decision": draw(_no_decision(utility)),
        "question_cost": draw(st.sampled_from([0.0, 0.01, 0.03, 0.1, 0.5])),
        "turn_cap": turn_cap,
        "findings": [
            {"id": q, "text": f"sign {q}", "domain": draw(_DOMAINS), "p": p[q]} for q in findings
        ],
        "history": [{"version": "1.0.0", "date": "2026-01-01", "change": "First."}],
    }
    if draw(st.booleans()):
        informative = {f: [q for q in findings if len(set(p[q][f])) > 1] for f in families}
        evidence = {f: draw(_conditions(informative[f])) for f in families}
        data["high_acuity"] = {decisions[-1]: evidence}
    if draw(st.booleans()):
        data["checklist"] = {f: draw(_checklist(findings, decisions, turn_cap)) for f in families}
    return data


def tasks(
    *, max_findings: int = 5, max_turns: int = MAX_TURNS, certain: bool = False
) -> st.SearchStrategy[Task]:
    """Valid small tasks; see `task_data`."""
    data = task_data(max_findings=max_findings, max_turns=max_turns, certain=certain)
    return data.map(Task.model_validate)


def cases(task: Task, rhos: Sequence[float] = RHOS) -> st.SearchStrategy[Case]:
    """Cases of any stream of a task."""
    return st.builds(
        lambda split, seed, index, rho: CaseStream(task, split, seed, rho)[index],
        st.sampled_from(SPLITS),
        st.integers(0, 2**70),
        st.integers(0, 2**40),
        st.sampled_from(list(rhos)),
    )


def asks(task: Task) -> st.SearchStrategy[Ask]:
    """Any question of a task."""
    return st.integers(0, len(task.findings) - 1).map(Ask)


def commits(task: Task) -> st.SearchStrategy[Commit]:
    """Any decision of a task."""
    return st.integers(0, len(task.decisions) - 1).map(Commit)


def charged_actions(task: Task) -> st.SearchStrategy[Ask | Invalid]:
    """Any turn that does not commit."""
    return st.one_of(asks(task), st.sampled_from(sorted(REASONS)).map(Invalid))


@st.composite
def play_of(draw: st.DrawFn, task: Task, rhos: Sequence[float] = RHOS) -> Play:
    """Random play of one case of a task, repeats and invalid turns included, to its end."""
    turns = charged_actions(task)
    actions: list[Action] = draw(st.lists(turns, max_size=task.turn_cap))
    if len(actions) < task.turn_cap:
        actions.append(draw(commits(task)))
    return Play(task, draw(cases(task, rhos)), tuple(actions))


def plays(
    *,
    max_findings: int = 5,
    max_turns: int = MAX_TURNS,
    certain: bool = False,
    rhos: Sequence[float] = RHOS,
) -> st.SearchStrategy[Play]:
    """Random play of random tasks."""
    some = tasks(max_findings=max_findings, max_turns=max_turns, certain=certain)
    return some.flatmap(lambda task: play_of(task, rhos))


def episodes(task: Task) -> st.SearchStrategy[Episode]:
    """Finished episodes of one task."""
    return play_of(task).map(Play.episode)


_DOMAINS = st.sampled_from(["history", "tests"])


@st.composite
def _row(draw: st.DrawFn, n_states: int, certain: bool) -> list[float]:
    """P(present | state) for every state; sometimes flat, so that the finding says nothing."""
    chance = st.integers(0, 100) if certain else st.integers(1, 99)
    if draw(st.integers(0, 4)) == 0:
        return [draw(chance) / 100] * n_states
    return [draw(chance) / 100 for _ in range(n_states)]


@st.composite
def _no_decision(draw: st.DrawFn, utility: dict[str, list[float]]) -> str | dict[str, float]:
    if draw(st.booleans()):
        return "worst"
    return {state: min(row) - draw(st.integers(0, 20)) / 20 for state, row in utility.items()}


@st.composite
def _conditions(draw: st.DrawFn, informative: list[str]) -> list[dict[str, Any]]:
    if not informative:
        return []
    some = st.lists(st.sampled_from(informative), min_size=1, unique=True)
    present = draw(some)
    conditions: list[dict[str, Any]] = [
        {"at_least": draw(st.integers(1, len(present))), "present": present}
    ]
    if draw(st.booleans()):
        conditions.append({"at_least": 1, "asked": draw(some)})
    if len(informative) > 1 and draw(st.booleans()):
        first, *others = draw(st.permutations(informative))
        cut = draw(st.integers(0, len(others) - 1))
        conditions.append({"more_present": [first, *others[:cut]], "than": others[cut:]})
    return conditions


@st.composite
def _checklist(
    draw: st.DrawFn, findings: list[str], decisions: list[str], turns: int
) -> dict[str, Any]:
    if turns == 1 or not findings or draw(st.booleans()):
        return {"commit": draw(st.sampled_from(decisions))}
    ask = draw(st.sampled_from(findings))
    rest = [finding for finding in findings if finding != ask]
    below = _checklist(rest, decisions, turns - 1)
    return {"ask": ask, "yes": draw(below), "no": draw(below)}
