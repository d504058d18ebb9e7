"""Validation and test sets of 42 cases a risk group instead of 120, so that a run takes seconds.

As a script it is `clinical-envs` with these sets, for tests that need another process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from clinical_envs.case import Case
from oracles.clinical import ClinicalWorld

PER_GROUP = 42
_whole_set = ClinicalWorld.cases


def few_cases(world: ClinicalWorld, set_name: str) -> Sequence[Case]:
    """The first cases of each risk group; other sets are whole."""
    cases = _whole_set(world, set_name)
    if set_name not in ("validation", "test"):
        return cases
    seen: Counter[int] = Counter()
    kept = []
    for case in cases:
        group = world.task.group_of_state[case.state]
        seen[group] += 1
        if seen[group] <= PER_GROUP:
            kept.append(case)
    return tuple(kept)


def use_few_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the patch is undone."""
    monkeypatch.setattr(ClinicalWorld, "cases", few_cases)


if __name__ == "__main__":
    from training.cli import main

    use_few_cases(pytest.MonkeyPatch())
    main()
