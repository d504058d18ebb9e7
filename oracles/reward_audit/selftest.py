"""Does the audit find what it must, and nothing where there is nothing?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from oracles.reward_audit.audit import audit_reward
from oracles.reward_audit.findings import Status
from oracles.reward_audit.scripted import Failure, scripted_run

HEALTHY_SEEDS = range(20)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelftestResult:
    """One scripted run: the rule that must flag it (`None`: no rule may) and those that did."""

    seed: int
    expected: str | None
    flagged: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """A failing run is flagged by its rule, a healthy one by none."""
        return self.expected in self.flagged if self.expected else not self.flagged


def run_selftest(healthy_seeds: Iterable[int] = HEALTHY_SEEDS) -> tuple[SelftestResult, ...]:
    """One run of each failure (seed 0), then a healthy run for each seed."""
    runs: list[tuple[Failure | None, int]] = [(failure, 0) for failure in Failure]
    runs += [(None, seed) for seed in healthy_seeds]
    return tuple(
        SelftestResult(
            seed=seed,
            expected=None if failure is None else failure.value,
            flagged=tuple(
                finding.rule
                for finding in audit_reward(scripted_run(failure, seed))
                if finding.verdict is Status.FLAG
            ),
        )
        for failure, seed in runs
    )
