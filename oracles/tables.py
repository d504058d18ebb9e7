"""Exact backward induction over every information state of one family.

    V(F, 0) = Σ_s w_F(s) U_no_decision[s]
    V(F, h) = max( max_a Σ_s w_F(s) U[s, a],
                   max_q V(F+(q,0), h-1) + V(F+(q,1), h-1) - c Σ_s w_F(s) )

w_F(s) = P(s) · Π P(answer | s) is unnormalised, so nothing is divided and impossible answers need
no special case. A state is a set of findings seen (a mask over the K informative findings) and
their answers; with m seen it lies in level m, an array over (mask, answers, turns left) of shape
(C(K, m), 2^m, budgets). Answers are a bit string over the findings seen, lowest finding first: a
node is its ternary code, sorted so that a whole level is one vectorised step. With r findings
unknown more than r + 1 turns change nothing, so budgets stop there.

With credit lambda the terminal value of F gains -lambda · H(b_F), since the credits of an episode
telescope to H(b_0) - H(b_T).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import xlogy

from clinical_envs.errors import TooLarge
from clinical_envs.task import FloatArray

_CHUNK = 1 << 21
_GIB = 2.0**30
Masks = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One family's decision problem: prior (S,), chance (K, S) = P(present | s) of the
    informative findings, utility (S, D), no_decision (S,), and the scalars.
    """  # noqa: D205

    prior: FloatArray
    chance: FloatArray
    utility: FloatArray
    no_decision: FloatArray
    cost: float
    cap: int
    credit: float = 0.0


class Tables:
    """Values of all information states of a problem.

    every_budget: hold V(F, h) for every h. Without it a level holds only the turns left of a
    policy that wasted none, which is enough for the policy at the full cap and a tenth as large.

    Raises:
        TooLarge: the tables would need more than `memory_gib`; the message has the numbers.
    """

    def __init__(self, problem: Problem, *, every_budget: bool, memory_gib: float) -> None:
        self.problem = problem
        self.every_budget = every_budget
        self.n_findings = len(problem.chance)
        self._top = self.n_findings if every_budget else min(self.n_findings, problem.cap)
        self._refuse_if_too_large(memory_gib)
        self.levels: list[FloatArray] = [np.empty(0)] * (self._top + 1)
        for m in range(self._top, -1, -1):
            self.levels[m] = self._solve_level(m)

    @cached_property
    def _masks(self) -> list[Masks]:
        masks = np.arange(1 << self.n_findings, dtype=np.int64)
        counts = np.bitwise_count(masks)
        return [masks[counts == m] for m in range(self.n_findings + 1)]

    @cached_property
    def _row(self) -> list[int]:
        """Position of each mask in its level."""
        row = np.empty(1 << self.n_findings, dtype=np.int32)
        for masks in self._masks:
            row[masks] = np.arange(len(masks), dtype=np.int32)
        return row.tolist()

    def useful_turns(self, m: int, turns_left: int) -> int:
        """Turns left, less those that can change nothing with m findings seen."""
        return min(turns_left, self.n_findings - m + 1)

    def holds(self, m: int, turns_left: int) -> bool:
        """Whether V(F, turns_left) is in the tables for m findings seen."""
        useful = self.useful_turns(m, turns_left)
        return self.every_budget or useful == self._first_budget(m)

    def value(self, mask: int, answers: int, turns_left: int) -> float:
        """Unnormalised V of one state that the tables hold."""
        m = mask.bit_count()
        budget = self.useful_turns(m, turns_left) - self._first_budget(m)
        return float(self.levels[m][self._row[mask], answers, budget])

    def ask_value(self, mask: int, answers: int, finding: int, turns_left: int) -> float:
        """Unnormalised V(F+(q,0), h-1) + V(F+(q,1), h-1), without the cost."""
        child = mask | 1 << finding
        place = (mask & ((1 << finding) - 1)).bit_count()
        low = answers & ((1 << place) - 1)
        absent = (answers >> place << place + 1) | low
        m = child.bit_count()
        budget = self.useful_turns(m, turns_left - 1) - self._first_budget(m)
        row = self.levels[m][self._row[child]]
        return float(row[absent, budget] + row[absent | 1 << place, budget])

    def revealed_value(self, rho: float) -> float:
        """Σ_F rho^|F| (1-rho)^(K-|F|) V(F, cap): each finding is shown at the start with rho."""
        K, total = self.n_findings, 0.0
        for m in range(K + 1):
            weight = rho**m * (1.0 - rho) ** (K - m)
            if weight > 0.0:
                budget = self.useful_turns(m, self.problem.cap)
                total += weight * float(self.levels[m][:, :, budget].sum())
        return total

    def _first_budget(self, m: int) -> int:
        return 0 if self.every_budget else self.useful_turns(m, self.problem.cap - m)

    def _budgets(self, m: int) -> int:
        return self.useful_turns(m, self.problem.cap) + 1 if self.every_budget else 1

    def _refuse_if_too_large(self, memory_gib: float) -> None:
        nodes = sum(
            self._budgets(m) * math.comb(self.n_findings, m) << m for m in range(self._top + 1)
        )
        needed = (nodes * 8 + (1 << self.n_findings) * 44) / _GIB
        if needed > memory_gib:
            raise TooLarge(
                f"the exact oracle of {self.n_findings} informative findings and "
                f"{self.problem.cap} turns needs {nodes:,} values, {needed:.1f} GiB, and "
                f"{memory_gib:g} GiB are allowed; make findings uninformative in a family, lower "
                "the turn cap, or raise memory_gib"
            )

    def _solve_level(self, m: int) -> FloatArray:
        masks, first = self._masks[m], self._first_budget(m)
        with_turns = self._budgets(m) - (first == 0)
        best = np.full((len(masks), 1 << m, with_turns), -np.inf)
        if m < self._top and with_turns:
            self._best_ask(m, best)
        values = best
        if first == 0:
            values = np.empty((len(masks), 1 << m, with_turns + 1))
        step = max(1, _CHUNK >> m)
        for start in range(0, len(masks), step):
            chunk = slice(start, start + step)
            commit, no_decision, total = self._terminal(masks[chunk], m)
            best[chunk] -= self.problem.cost * total[..., None]
            np.maximum(best[chunk], commit[..., None], out=best[chunk])
            if first == 0:
                values[chunk, :, 0] = no_decision
                values[chunk, :, 1:] = best[chunk]
        return values

    def _best_ask(self, m: int, best: FloatArray) -> None:
        """Best over q of the two children's values, into `best` (masks, answers, budgets)."""
        everything, budgets = (1 << self.n_findings) - 1, best.shape[2]
        children = self.levels[m + 1]
        rows = self._row
        for node, mask in zip(best, self._masks[m].tolist(), strict=True):
            unknown = everything & ~mask
            while unknown:
                bit = unknown & -unknown
                unknown ^= bit
                # the answer to q is one axis of the child's answers, at q's place among them
                inner = budgets << (mask & bit - 1).bit_count()
                child = children[rows[mask | bit], :, :budgets].reshape(-1, 2, inner)
                parent = node.reshape(-1, inner)
                np.maximum(parent, child[:, 0] + child[:, 1], out=parent)

    def _terminal(self, masks: Masks, m: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Best commit, no decision and total weight of the nodes of some masks, each (n, 2^m)."""
        problem = self.problem
        weights = self._weights(masks, m)
        commit = weights @ problem.utility[:, 0]
        for row in problem.utility.T[1:]:
            np.maximum(commit, weights @ row, out=commit)
        no_decision = weights @ problem.no_decision
        total = weights.sum(axis=-1)
        if problem.credit:
            entropy = xlogy(total, total) - xlogy(weights, weights).sum(axis=-1)
            commit -= problem.credit * entropy
            no_decision -= problem.credit * entropy
        return commit, no_decision, total

    def _weights(self, masks: Masks, m: int) -> FloatArray:
        """w_F(s), shape (masks, 2^m, S)."""
        weights = np.broadcast_to(self.problem.prior, (len(masks), 1, len(self.problem.prior)))
        left = masks.copy()
        for _ in range(m):
            lowest = np.bitwise_count((left & -left) - 1)
            left &= left - 1
            present = self.problem.chance[lowest][:, None, :]
            weights = np.concatenate([weights * (1.0 - present), weights * present], axis=1)
        return np.asarray(weights)
