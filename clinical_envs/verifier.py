"""The terminal verifier: facts about a finished episode, computed from its turns alone.

    R = U[s][a] - c · n_charged

It knows no oracle and judges nothing. Where the hidden state is not recorded, the utility is its
posterior expectation given the findings seen, and is labelled so.
"""

from __future__ import annotations

from dataclasses import dataclass

from clinical_envs.belief import InfoState, initial_state, path_weights
from clinical_envs.episode import AskTurn, CommitTurn, Episode, InvalidTurn
from clinical_envs.errors import InvalidEpisode, did_you_mean
from clinical_envs.simulator import Action, Ask, Commit, Invalid
from clinical_envs.task import FloatArray, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Facts about one finished episode.

    decision: position of what was committed to; None where the turns ran out. state: position,
    None where it is not recorded. utility: of the decision (or of no decision) under the state.
    expected: the utility is a posterior expectation, because the state is not recorded.
    asks: asks with repeats. actions: the turns. final: what was known at the end.
    """

    family: int
    state: int | None
    decision: int | None
    utility: float
    expected: bool
    asks: int
    repeats: int
    invalid_turns: int
    reward: float
    actions: tuple[Action, ...]
    start: InfoState
    final: InfoState

    @property
    def committed(self) -> bool:
        """Whether a decision was made."""
        return self.decision is not None

    @property
    def turns(self) -> int:
        """Turns used, of every kind."""
        return len(self.actions)


def verify(task: Task, episode: Episode) -> Outcome:
    """Check an episode against its task and say what happened.

    Raises:
        InvalidEpisode: another task or version, an unknown name, an answer that contradicts
            another or that the state cannot give, turns after the end, too many or too few turns.
    """
    if episode.task != task.key:
        raise InvalidEpisode(
            f"an episode of {episode.task!r} cannot be verified against {task.key!r}"
        )
    family = _position("family", episode.family, task.family_ids)
    state = None if episode.state is None else _position("state", episode.state, task.state_ids)
    start = initial_state(
        task,
        family,
        [(_position("finding", q, task.finding_ids), a) for q, a in episode.initial.items()],
    )
    actions, info = _replay(task, start, episode)
    decision = actions[-1].decision if isinstance(actions[-1], Commit) else None
    asks = sum(isinstance(action, Ask) for action in actions)
    invalid_turns = sum(isinstance(action, Invalid) for action in actions)
    new = (info.asked & ~start.asked).bit_count()
    row = task.no_decision_utility if decision is None else task.utility_matrix[:, decision]
    utility = _utility(task, info, state, row)
    return Outcome(
        family=family,
        state=state,
        decision=decision,
        utility=utility,
        expected=state is None,
        asks=asks,
        repeats=asks - new,
        invalid_turns=invalid_turns,
        reward=utility - task.question_cost * (asks + invalid_turns),
        actions=actions,
        start=start,
        final=info,
    )


def _utility(task: Task, info: InfoState, state: int | None, row: FloatArray) -> float:
    """Of the recorded state, or its posterior expectation."""
    weights = path_weights(task, info)
    possible = float(weights.sum() if state is None else weights[state])
    if possible <= 0.0:
        who = "no state" if state is None else f"state {task.state_ids[state]!r}"
        raise InvalidEpisode(f"the answers cannot be: {who} of {task.key} never gives them")
    return float(weights / possible @ row if state is None else row[state])


def _replay(task: Task, start: InfoState, episode: Episode) -> tuple[tuple[Action, ...], InfoState]:
    info, actions, ended = start, list[Action](), False
    for number, turn in enumerate(episode.turns, start=1):
        if ended:
            raise InvalidEpisode(f"turn {number} comes after the end of the episode")
        match turn:
            case AskTurn(ask=name, answer=answer):
                finding = _position("finding", name, task.finding_ids)
                if info.knows(finding) and info.answer(finding) != answer:
                    raise InvalidEpisode(f"turn {number}: {name!r} was answered otherwise before")
                info = info.see(finding, answer)
                actions.append(Ask(finding))
            case CommitTurn(commit=name):
                info = info.waste()
                actions.append(Commit(_position("decision", name, task.decision_ids)))
            case InvalidTurn(invalid=reason):
                info = info.waste()
                actions.append(Invalid(reason))
        ended = isinstance(actions[-1], Commit) or info.turns_left == 0
    if not ended:
        raise InvalidEpisode(
            f"{len(actions)} turns without a commit; the cap of {task.key} is {task.turn_cap}, "
            "so the episode is not finished"
        )
    return tuple(actions), info


def _position(kind: str, name: str, known: tuple[str, ...]) -> int:
    if name not in known:
        raise InvalidEpisode(f"unknown {kind} {name!r}; {did_you_mean(name, known)}")
    return known.index(name)
