"""The audit flags every scripted failure and no healthy run."""

import pytest

from oracles.reward_audit.audit import audit_reward
from oracles.reward_audit.records import read_lines
from oracles.reward_audit.scripted import Failure, scripted_run
from oracles.reward_audit.selftest import run_selftest


@pytest.mark.slow
def test_every_failure_is_flagged_and_no_healthy_run_over_20_seeds():
    results = run_selftest()
    assert {one.expected for one in results if one.expected} == {one.value for one in Failure}
    assert sum(one.expected is None for one in results) == 20
    assert [one for one in results if not one.passed] == []


def test_a_scripted_run_survives_the_trip_through_json_lines():
    log = scripted_run(Failure.LANGUAGE_SWITCH, 1)
    rows = (*log.judgments, *log.checks, *log.rewards)
    again = read_lines(row.model_dump_json() for row in rows)
    assert again.damaged == []
    assert audit_reward(again) == audit_reward(log)
