"""One episode, verified and judged: the row that metrics, gates, flags and reports read.

A world without an oracle, or an episode without its case, leaves what cannot be known as None.
"""

from __future__ import annotations

from dataclasses import dataclass

from clinical_envs.episode import Episode

EPS = 0.03
"""Oracle-grade: realised reward >= the oracle's realised reward on the same case - EPS."""
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """Facts of the verifier and judgements of the oracle on one episode.

    case: identity shared by the rollouts of one case; empty where the record names none. group:
    risk group; None where the state is not recorded. expected: the reward is a posterior
    expectation. regret: Σ max Q* - Q*(a_t).
    informative_seen: some informative finding was seen before the commit. net_voi: of the best
    ask at the commit. supported: of a high-acuity commit. belief_regret: max_a E[U] - E[U(commit)].
    wasted_asks: repeats, and asks where no ask was worth its cost. oracle_*: of the oracle on the
    same case. guess_share: share of decisions that are oracle-grade when committed at once.
    """

    episode: Episode
    case: str
    family: str
    group: str | None
    reward: float
    expected: bool
    decision: str | None
    turns: int
    asks: int
    repeats: int
    invalid_turns: int
    regret: float | None = None
    informative_seen: bool | None = None
    net_voi: float | None = None
    high_acuity: bool | None = None
    supported: bool | None = None
    belief_regret: float | None = None
    hedge: bool | None = None
    wasted_asks: int | None = None
    oracle_reward: float | None = None
    oracle_asks: int | None = None
    oracle_decision: str | None = None
    oracle_hedge: bool | None = None
    oracle_high_acuity: bool | None = None
    guess_share: float | None = None

    @property
    def greedy(self) -> bool:
        """Whether the policy played greedily."""
        return self.episode.greedy

    @property
    def oracle_gap(self) -> float | None:
        """Oracle's realised reward minus the policy's, on the same case."""
        return None if self.oracle_reward is None else self.oracle_reward - self.reward

    @property
    def oracle_grade(self) -> bool | None:
        """Realised reward >= the oracle's - EPS."""
        gap = self.oracle_gap
        return None if gap is None else gap <= EPS + TOLERANCE
