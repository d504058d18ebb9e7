"""Training rewards: pure functions of an episode and the oracle. Never used in evaluation.

    outcome            R = U - c n_charged
    entropy credit     Phi_t = H(b_{t-1}) - H(b_t), nats, signed, never clipped
    regret credit      -(max_a Q*(F_t, a) - Q*(F_t, a_t))
    decision change    1 where the answer changed argmax_a E[U(a)]
    sufficiency        +1 / -1 at a high-acuity commit with / without its evidence, else 0

Each credit is paid in the turn that earned it and has its own weight. An episode's reward is the
outcome plus all of its credits; per turn, the outcome is paid at the turn that ended the episode
and each charged turn pays its own cost.
"""

from __future__ import annotations

from dataclasses import dataclass

from clinical_envs.belief import InfoState, entropy, posterior
from clinical_envs.episode import Episode
from clinical_envs.errors import InvalidArgument
from clinical_envs.simulator import Ask, Commit
from clinical_envs.task import Task
from clinical_envs.verifier import Outcome, verify
from oracles.explanation import preferred_decision
from oracles.oracle import Oracle


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardWeights:
    """What a turn earns beside the outcome.

    outcome: weight of R itself; 0 for regret credit alone, which already sums to V^pi - V*.
    entropy: lambda, in utility a nat. regret, decision_change, sufficiency: their weights.
    clip_entropy: the named ablation that drops negative Phi.
    """

    outcome: float = 1.0
    entropy: float = 0.0
    regret: float = 0.0
    decision_change: float = 0.0
    sufficiency: float = 0.0
    clip_entropy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCredit:
    """What one turn earned, unweighted. reward: its own part of R."""

    reward: float
    entropy_drop: float
    regret: float
    decision_changed: bool
    sufficiency: int

    def total(self, weights: RewardWeights) -> float:
        """Weighted sum."""
        drop = max(0.0, self.entropy_drop) if weights.clip_entropy else self.entropy_drop
        return (
            weights.outcome * self.reward
            + weights.entropy * drop
            - weights.regret * self.regret
            + weights.decision_change * self.decision_changed
            + weights.sufficiency * self.sufficiency
        )


def turn_credits(oracle: Oracle, episode: Episode) -> tuple[TurnCredit, ...]:
    """Credits of every turn of a finished episode.

    Raises:
        InvalidArgument: the state is not recorded, so that no turn can be paid.
        InvalidEpisode: the record contradicts the task or itself.
    """
    task, outcome = oracle.task, verify(oracle.task, episode)
    if outcome.state is None:
        raise InvalidArgument("training rewards need the state of the episode; it is not recorded")
    info, credits = outcome.start, list[TurnCredit]()
    for number, action in enumerate(outcome.actions, start=1):
        after, moved = info.waste(), False
        if isinstance(action, Ask):
            q = action.finding
            after = info.see(q, outcome.final.answer(q))
            moved = not info.knows(q) and q in task.informative[info.family]
        credits.append(
            TurnCredit(
                reward=_turn_reward(task, outcome, action, last=number == outcome.turns),
                entropy_drop=_drop(task, info, after) if moved else 0.0,
                regret=oracle.values(info).regret(action),
                decision_changed=moved
                and preferred_decision(task, info) != preferred_decision(task, after),
                sufficiency=_sufficiency(task, outcome, action),
            )
        )
        info = after
    return tuple(credits)


def episode_reward(oracle: Oracle, episode: Episode, weights: RewardWeights) -> float:
    """The scalar that group-relative advantages compare."""
    return sum(credit.total(weights) for credit in turn_credits(oracle, episode))


def explore_reward(
    task: Task, start: InfoState, revealed: InfoState, charged: int, kappa: float
) -> float:
    """R_explore = H(b_0) - H(b_T) - kappa c n, of the decoupled variant."""
    return _drop(task, start, revealed) - kappa * task.question_cost * charged


def exploit_reward(task: Task, state: int, action: object) -> float:
    """The pure utility of the commit; anything else scores as no decision."""
    if isinstance(action, Commit):
        return float(task.utility_matrix[state, action.decision])
    return float(task.no_decision_utility[state])


def _turn_reward(task: Task, outcome: Outcome, action: object, *, last: bool) -> float:
    reward = 0.0 if isinstance(action, Commit) else -task.question_cost
    return reward + outcome.utility if last else reward


def _drop(task: Task, before: InfoState, after: InfoState) -> float:
    return entropy(posterior(task, before)) - entropy(posterior(task, after))


def _sufficiency(task: Task, outcome: Outcome, action: object) -> int:
    if not isinstance(action, Commit):
        return 0
    seen = {task.finding_ids[q]: present for q, present in outcome.final.seen()}
    supported = task.supported(outcome.family, action.decision, seen)
    return 0 if supported is None else (1 if supported else -1)
