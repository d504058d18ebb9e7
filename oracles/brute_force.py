"""The optimum of a small task by plain recursion in exact arithmetic: a second opinion.

    V(F, 0) = Σ_s b_F(s) U_no_decision[s]
    V(F, h) = max( max_a Σ_s b_F(s) U[s, a],
                   max_q { -c + Σ_o P(o | F, q) V(F + (q, o), h - 1) } )

Every number of the task file is taken as the decimal fraction it is written as, Bayes' rule is
applied anew in every state, and findings without information are asked like any other. Nothing is
shared with the oracle but the task, so that the two can check each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from clinical_envs.errors import InvalidArgument, TooLarge
from clinical_envs.task import Task

MAX_STATES = 20_000
_Seen = frozenset[tuple[str, bool]]


class Optimum(NamedTuple):
    """V* of an information state, and the asks still to come when play is optimal."""

    value: Fraction
    asks: Fraction


class BruteForce:
    """The optimum of one family, from any information state.

    Ties: commit before ask, then file order. Repeats and invalid turns are left out, since they
    pay a question for V(F, h - 1), which is never above V(F, h).

    Raises:
        TooLarge: more than 20,000 information states can be reached.

    >>> from clinical_envs import load_task
    >>> titration = BruteForce(load_task("titration"), "anticoagulation")
    >>> float(round(titration.optimum({}, turns_left=2).value, 7))
    0.0303745
    """

    def __init__(self, task: Task, family: str) -> None:
        if family not in task.family_ids:
            raise InvalidArgument(f"no family {family!r} in {task.name}; give one of its families")
        n, cap = len(task.findings), task.turn_cap
        states = sum(math.comb(n, m) * 2**m for m in range(min(n, cap) + 1))
        if states > MAX_STATES:
            raise TooLarge(
                f"brute force of {n} findings and {cap} turns visits {states:,} information "
                f"states, and {MAX_STATES:,} are allowed; use oracles.solve"
            )
        self._cost, self._cap = _exact(task.question_cost), cap
        self._prior = {state.id: _exact(state.prior) for state in task.states}
        self._chance = {
            finding.id: dict(zip(self._prior, map(_exact, finding.p[family]), strict=True))
            for finding in task.findings
        }
        rows = {state: list(map(_exact, task.utility[state])) for state in self._prior}
        self._utility = rows
        given = task.no_decision
        self._no_decision = {
            state: min(row) if given == "worst" else _exact(given[state])
            for state, row in rows.items()
        }
        self._found: dict[tuple[_Seen, int], Optimum] = {}

    def optimum(
        self, seen: Mapping[str, bool] | None = None, turns_left: int | None = None
    ) -> Optimum:
        """V* and expected asks after the findings seen; before the first turn by default.

        Raises:
            InvalidArgument: no state of the task can give these answers.
        """
        left = self._cap if turns_left is None else turns_left
        return self._solve(frozenset((seen or {}).items()), left)

    def _solve(self, seen: _Seen, turns_left: int) -> Optimum:
        key = seen, turns_left
        if key not in self._found:
            self._found[key] = self._best(seen, turns_left)
        return self._found[key]

    def _best(self, seen: _Seen, turns_left: int) -> Optimum:
        belief = self._belief(seen)
        if turns_left == 0:
            lost = sum(b * self._no_decision[state] for state, b in belief.items())
            return Optimum(Fraction(lost), Fraction(0))
        decisions = range(len(next(iter(self._utility.values()))))
        commits = [sum(b * self._utility[s][a] for s, b in belief.items()) for a in decisions]
        best = Optimum(Fraction(max(commits)), Fraction(0))
        known = {finding for finding, _ in seen}
        for finding in self._chance:
            if finding not in known:
                ask = self._ask(seen, belief, finding, turns_left)
                best = ask if ask.value > best.value else best
        return best

    def _ask(
        self, seen: _Seen, belief: Mapping[str, Fraction], finding: str, turns_left: int
    ) -> Optimum:
        present = Fraction(sum(b * self._chance[finding][s] for s, b in belief.items()))
        value, asks = -self._cost, Fraction(1)
        for answer, chance in ((True, present), (False, 1 - present)):
            if chance:
                after = self._solve(seen | {(finding, answer)}, turns_left - 1)
                value += chance * after.value
                asks += chance * after.asks
        return Optimum(value, asks)

    def _belief(self, seen: _Seen) -> dict[str, Fraction]:
        weights = dict(self._prior)
        for finding, answer in seen:
            for state, chance in self._chance[finding].items():
                weights[state] *= chance if answer else 1 - chance
        total = sum(weights.values())
        if not total:
            raise InvalidArgument(f"no state can give the answers {dict(seen)}")
        return {state: weight / total for state, weight in weights.items()}


def brute_force(task: Task) -> Optimum:
    """V* and expected asks of a task before the first turn, families equally likely.

    Raises:
        TooLarge: more than 20,000 information states can be reached in a family.

    >>> from clinical_envs import load_task
    >>> value, asks = brute_force(load_task("titration"))
    >>> round(float(value), 4), round(float(asks), 3)
    (0.0434, 2.763)
    """
    found = [BruteForce(task, family).optimum() for family in task.family_ids]
    n = len(found)
    return Optimum(
        sum(o.value for o in found) / Fraction(n), sum(o.asks for o in found) / Fraction(n)
    )


def _exact(number: float) -> Fraction:
    """The decimal fraction that the number is written as."""
    return Fraction(repr(number))
