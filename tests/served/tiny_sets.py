"""`clinical-envs` with validation and test sets of 4 cases a risk group, for runs in seconds."""

from __future__ import annotations

import pytest

from tests.training_runs import few_cases


def use_tiny_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the patch is undone."""
    monkeypatch.setattr(few_cases, "PER_GROUP", 4)
    few_cases.use_few_cases(monkeypatch)


if __name__ == "__main__":
    from training.cli import main

    use_tiny_sets(pytest.MonkeyPatch())
    main()
