from __future__ import annotations

import pytest

from oracles import selftest as module
from oracles.flags import FLAG_NAMES


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(module, "ORACLE_SEEDS", 2)


@pytest.mark.usefixtures("quick")
def test_the_detection_matrix_passes_and_stars_what_must_be_flagged(run):
    printed = run("selftest", "titration").stdout
    assert printed.count("FLAG*") == len(FLAG_NAMES)
    assert "PASSED" in printed


@pytest.mark.usefixtures("quick")
def test_a_missed_failure_and_a_false_alarm_end_with_code_1(run, monkeypatch):
    monkeypatch.setattr(module, "FAILURES", module.FAILURES | {"hedging": "oracle"})
    monkeypatch.setattr(module, "_false_alarms", lambda world, tell: [(7, "hedging")])
    printed = run("selftest", "titration", code=1).stdout
    assert "not flagged on the policy scripted for it: hedging" in printed
    assert "raised on the oracle, seed 7: hedging" in printed
    assert "PASSED" not in printed


def test_an_unknown_task_is_refused(error):
    assert "did you mean 'titration'?" in error("selftest", "titratio")
