"""Audits that the report tests share."""

from __future__ import annotations

import pytest

from oracles import Audit, ExactValue, audit, exact_value, make_policy, solve
from tests.report.pages import POLICIES, play


@pytest.fixture(scope="session")
def tour() -> Audit:
    """Four reference policies on the test and heldout sets of titration."""
    return audit(play("titration", POLICIES, ("test", "heldout")))


@pytest.fixture(scope="session")
def exact() -> dict[str, dict[str, ExactValue]]:
    """Exact values of the deterministic ones among them."""
    oracle = solve("titration")
    names = [name for name in POLICIES if name != "random"]
    values = {name: exact_value(oracle.task, make_policy(name, oracle)) for name in names}
    return {oracle.task.key: values}
