"""The detection matrix: scripted policies, the oracle and random against every flag.

Each failure mode has a policy that must raise its flag, and the oracle must raise none on any of
20 sets of cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clinical_envs.case import Case, CaseStream
from clinical_envs.errors import InvalidArgument
from oracles.clinical import ClinicalWorld
from oracles.evaluation import evaluate
from oracles.flags import FLAG_NAMES, Verdict, raise_flags
from oracles.policies import FAILURES
from oracles.sample import Sample

ORACLE_SEEDS = 20
CASES_PER_SEED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    """Result on one task.

    matrix: policy -> flag -> verdict, on the test set with the oracle as baseline. missed: flags
    whose policy did not raise them. false_alarms: (seed, flag) raised by the oracle. left_out:
    flags that the task cannot have.
    """

    task: str
    matrix: dict[str, dict[str, Verdict]]
    missed: tuple[str, ...]
    false_alarms: tuple[tuple[int, str], ...]
    left_out: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Every failure flagged, and no flag on the oracle."""
        return not self.missed and not self.false_alarms


def selftest(world: ClinicalWorld, progress: Callable[[str], None] | None = None) -> SelfTest:
    """Run the detection matrix of one task."""
    tell = progress or (lambda step: None)
    cases = world.cases("test")
    baseline = _sample(world, "oracle", cases)
    matrix: dict[str, dict[str, Verdict]] = {}
    missed, left_out = [], []
    for policy in dict.fromkeys(["oracle", "random", *FAILURES.values()]):
        tell(policy)
        try:
            sample = _sample(world, policy, cases)
        except InvalidArgument:
            continue
        flags = raise_flags(sample, world, baseline)
        matrix[policy] = {flag.name: flag.verdict for flag in flags}
    for flag, policy in FAILURES.items():
        if policy not in matrix:
            left_out.append(flag)
        elif matrix[policy][flag] is not Verdict.FLAG:
            missed.append(flag)
    return SelfTest(
        task=world.key,
        matrix=matrix,
        missed=tuple(missed),
        false_alarms=tuple(_false_alarms(world, tell)),
        left_out=tuple(left_out),
    )


def _false_alarms(world: ClinicalWorld, tell: Callable[[str], None]) -> list[tuple[int, str]]:
    alarms = []
    for seed in range(ORACLE_SEEDS):
        tell(f"oracle, seed {seed}")
        cases = CaseStream(world.task, "test", seed).block(0, CASES_PER_SEED)
        sample = _sample(world, "oracle", cases)
        verdicts = {flag.name: flag.verdict for flag in raise_flags(sample, world, sample)}
        alarms += [(seed, name) for name in FLAG_NAMES if verdicts[name] is Verdict.FLAG]
    return alarms


def _sample(world: ClinicalWorld, policy: str, cases: Sequence[Case]) -> Sample:
    episodes = evaluate(world, world.policy(policy), cases, k=1)
    return Sample(tuple(world.assess(episode) for episode in episodes), world.prevalence)
