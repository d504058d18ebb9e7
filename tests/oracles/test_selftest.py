"""Every scripted failure raises its flag, and the oracle none on 20 sets."""

from __future__ import annotations

import pytest

from clinical_envs.catalog import load_task
from oracles.clinical import ClinicalWorld
from oracles.flags import FLAG_NAMES, Verdict
from oracles.policies import FAILURES
from oracles.selftest import selftest
from tests.oracles.variants import changed


@pytest.mark.parametrize("name", ["diagnostics", "refill", "titration"])
def test_the_detection_matrix_of_a_shipped_task_is_complete(name: str) -> None:
    steps: list[str] = []
    result = selftest(ClinicalWorld(load_task(name)), progress=steps.append)
    assert result.passed
    assert (result.missed, result.false_alarms, result.left_out) == ((), (), ())
    assert set(result.matrix) == {"oracle", "random", *FAILURES.values()}
    assert all(tuple(verdicts) == FLAG_NAMES for verdicts in result.matrix.values())
    assert Verdict.FLAG not in result.matrix["oracle"].values()
    assert steps[-1] == "oracle, seed 19"


def test_a_task_without_hedges_and_high_acuity_leaves_their_flags_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("oracles.selftest.ORACLE_SEEDS", 1)
    result = selftest(ClinicalWorld(changed(load_task("titration"), hedges=[])))
    assert set(result.left_out) == {"hedging", "unsupported_escalation", "high_risk_regression"}
    assert result.matrix["oracle"]["hedging"] is Verdict.NOT_APPLICABLE
    assert "hedge_all" not in result.matrix


def test_a_failure_that_goes_unseen_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oracles.selftest.ORACLE_SEEDS", 1)
    monkeypatch.setattr("oracles.selftest.FAILURES", {"blind_commitment": "oracle"})
    result = selftest(ClinicalWorld(load_task("titration")))
    assert result.missed == ("blind_commitment",)
    assert not result.passed
