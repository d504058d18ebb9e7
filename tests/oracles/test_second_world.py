"""The one harness plays, measures, gates and audits a world that has nothing clinical."""

from __future__ import annotations

from pathlib import Path

import pytest

from clinical_envs.episode import read_episodes
from oracles.audits import PolicyAudit
from oracles.evaluation import evaluate
from oracles.flags import Verdict, raise_flags
from oracles.gates import gate_1, gate_2
from oracles.metrics import breakdown, measure
from oracles.sample import Sample, paired_difference
from oracles.world import World
from tests.oracles.second_world import COST, CoinWorld

WORLD = CoinWorld()


def played(policy: str, k: int = 2, *, greedy: bool = False) -> Sample:
    episodes = evaluate(WORLD, WORLD.policy(policy), WORLD.cases("coins"), k=k, greedy=greedy)
    return Sample(tuple(map(WORLD.assess, episodes)), WORLD.prevalence)


def test_it_is_a_world_to_the_type_checker_and_at_run_time() -> None:
    world: World = WORLD
    assert world.headroom is None


def test_looking_is_worth_more_than_guessing_and_the_interval_says_so() -> None:
    looking, guessing = played("look", k=1), played("guess", k=12)
    value = measure(looking, WORLD).value
    assert value.value == pytest.approx(0.97 - 3 * COST, abs=0.06)  # P(2 of 3 at .9) = .972
    difference = paired_difference(looking, guessing, lambda row: row.reward)
    assert difference.n_cases == 60
    assert difference.low is not None
    assert difference.low > 0.0


def test_metrics_that_need_an_oracle_are_none() -> None:
    data = breakdown(played("guess", k=3, greedy=True), WORLD)
    assert data["k"] == 3
    assert data["n_episodes"] == 180
    assert data["support_at_k"] is data["regret"] is data["oracle_gap"] is None
    assert data["greedy_value"] == pytest.approx(0.97 - 3 * COST, abs=0.06)
    assert data["groups"] == {}
    assert data["families"]["coin"]["value"] == data["value"]


def test_flags_judge_what_they_can() -> None:
    verdicts = {flag.name: flag.verdict for flag in raise_flags(played("guess"), WORLD)}
    assert verdicts.pop("blind_commitment") is Verdict.FLAG
    assert Verdict.FLAG not in verdicts.values()
    assert verdicts["over_gathering"] is Verdict.SKIPPED
    looking = {flag.name: flag.verdict for flag in raise_flags(played("look"), WORLD)}
    assert Verdict.FLAG not in looking.values()


def test_gates_stay_open_without_an_oracle() -> None:
    assert gate_1(WORLD).passed is None
    gate = gate_2(played("look"), WORLD)
    assert gate.passed is None
    assert [check.name for check in gate.checks] == ["support, overall"]


def test_a_policy_that_never_speaks_the_protocol_is_a_parse_failure() -> None:
    mute = played("mute")
    flags = raise_flags(mute, WORLD)
    audit = PolicyAudit(WORLD, "mute", "coins", mute, flags)
    assert audit.status == "PARSE-FAIL"
    assert audit.metrics.parse_failure_rate.value == 1.0


def test_its_episodes_go_through_a_file_and_resume(tmp_path: Path) -> None:
    out, cases = tmp_path / "coins.jsonl", WORLD.cases("coins")
    guess = WORLD.policy("guess")
    whole = evaluate(WORLD, guess, cases, k=2, greedy=True, out=out)
    lines = out.read_text(encoding="utf-8").splitlines(keepends=True)
    out.write_text("".join(lines[:31]) + lines[31][:20], encoding="utf-8")
    assert evaluate(WORLD, guess, cases, k=2, greedy=True, out=out) == whole
    assert out.read_text(encoding="utf-8").splitlines(keepends=True) == lines
    assert read_episodes(out).episodes == whole


def test_what_a_world_records_beside_the_turns_is_kept() -> None:
    for policy in ("look", "guess"):
        episodes = evaluate(WORLD, WORLD.policy(policy), WORLD.cases("coins"), k=2, greedy=True)
        assert all("tosses_seen" in episode.meta for episode in episodes)
        assert [e.greedy for e in episodes[:3]] == [False, False, True]
