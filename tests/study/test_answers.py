"""The answers of the study, on folders whose policies are known exactly."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from clinical_envs.catalog import load_task
from oracles.clinical import ClinicalWorld
from oracles.evaluation import evaluate
from training.study.__main__ import write
from training.study.answers import answers, gain_by_regret
from training.study.plan import LAMBDAS, UPDATES
from training.study.plot import draw_study
from training.study.reading import Study, judged
from training.study.rows import (
    MET,
    NOT_MET,
    SKIPPED,
    UNCLEAR,
    Cell,
    Row,
    above_zero,
    below_zero,
    not_above_zero,
    over_seeds,
    within,
)

SEEDS = (0, 1)
LAST = "update-000060"
CELL = Cell(question="q", task="t", arm="a")


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=6))
def test_the_interval_over_seeds_is_students(values: list[float]) -> None:
    found = over_seeds(values)
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    if found.high - found.low < 1e-9:
        return
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=5))
def test_a_difference_cannot_be_above_and_below_zero(values: list[float]) -> None:
    found = over_seeds(values)
    assert {above_zero(found), below_zero(found)} in ({UNCLEAR}, {MET, NOT_MET})
    assert (not_above_zero(found) == NOT_MET) == (above_zero(found) == MET)


def test_one_seed_decides_no_difference() -> None:
    assert above_zero(over_seeds([3.0])) == UNCLEAR
    assert not_above_zero(over_seeds([3.0])) == UNCLEAR


def test_a_bar_on_a_level_holds_for_every_seed() -> None:
    assert CELL.row("m", {0: 0.1, 1: 0.3}, 2, within(0.0, 0.3)).verdict == MET
    assert CELL.row("m", {0: 0.1, 1: 0.31}, 2, within(0.0, 0.3)).verdict == NOT_MET
    assert CELL.row("m", {0: math.nan}, 1, within(0.0, 0.3)).verdict == NOT_MET


def test_nothing_played_is_skipped() -> None:
    row = CELL.row("m", {}, 0, within(0.0, 0.3))
    assert (row.value, row.verdict, row.seeds) == (None, SKIPPED, 0)


@pytest.fixture(scope="module")
def worlds() -> dict[str, ClinicalWorld]:
    return {task: ClinicalWorld(load_task(task)) for task in ("diagnostics", "titration")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, worlds: dict[str, ClinicalWorld]) -> Path:
    """A study whose outcome arm falls from the oracle to the best constant; credit stays there.

    The dial asks nothing up to .1, then plays the oracle; decoupled explores in odd steps only.
    """
    root = tmp_path_factory.mktemp("study")
    for seed in SEEDS:
        for variant, policy in (("outcome", "best_constant"), ("credit", "oracle")):
            _run(root, worlds["diagnostics"], f"diagnostics-{variant}-{seed}", policy)
        _run(root, worlds["diagnostics"], f"diagnostics-decoupled-{seed}", "oracle")
        for weight in LAMBDAS:
            policy = "oracle" if float(weight) > 0.1 else "best_constant"
            _run(root, worlds["titration"], f"titration-lambda-{weight}-{seed}", policy)
        for kind, policy in (("severe", "best_constant"), ("mild", "oracle")):
            _play(
                root / f"diagnostics-full-{kind}-validation-{seed}.jsonl",
                worlds["diagnostics"],
                policy,
                "validation",
            )
    return root


def _play(file: Path, world: ClinicalWorld, policy: str, set_name: str) -> None:
    evaluate(world, world.policy(policy), world.cases(set_name), k=1, out=file)


def _run(root: Path, world: ClinicalWorld, name: str, policy: str) -> None:
    folder = root / name
    (folder / "episodes").mkdir(parents=True)
    _play(folder / "episodes" / "test-start.jsonl", world, "oracle", "test")
    _play(folder / "episodes" / f"test-{LAST}.jsonl", world, policy, "test")
    facts = {
        "best": None,
        "last": {"policy": LAST},
        "gates": [{"name": "gate 2: latent support", "passed": True}],
    }
    (folder / "run.json").write_text(json.dumps(facts))
    steps = [
        {
            "update": -(-step // 2) if "decoupled" in name else step,
            "step": step,
            "grad_norm": float(step % 2),
            "rollout/parse_failure_rate": 0.0 if step % 2 else 0.5,
            "rollout/kl_per_turn": 0.01 * step,
        }
        for step in range(1, UPDATES * (1 + ("decoupled" in name)) + 1)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in steps))


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[Row]:
    return list(answers(read(folder)))


def read(folder: Path) -> Study:
    return Study(folder, SEEDS, {entry.name.removesuffix(".jsonl") for entry in folder.iterdir()})


def find(rows: list[Row], question: str, arm: str, metric: str) -> Row:
    (row,) = (r for r in rows if (r.question, r.arm, r.metric) == (question, arm, metric))
    return row


def test_a_policy_that_stops_asking_loses_value_and_asks(rows: list[Row]) -> None:
    value = find(rows, "outcome from light", "outcome - start", "value_difference")
    asks = find(rows, "outcome from light", "outcome - start", "mean_asks_difference")
    assert (value.verdict, asks.verdict) == (NOT_MET, MET)
    assert value.seeds == 2
    assert value.n == 2 * 360


def test_the_paired_difference_is_the_oracles_number_of_asks(
    rows: list[Row], folder: Path, worlds: dict[str, ClinicalWorld]
) -> None:
    row = find(rows, "credit from light", "credit - outcome", "mean_asks_difference")
    start = judged(worlds["diagnostics"], folder / "diagnostics-credit-0/episodes/test-start.jsonl")
    assert row.value == pytest.approx(start.mean(lambda r: r.asks).value)
    assert row.verdict == MET


def test_the_phases_of_decoupled_are_told_apart(rows: list[Row]) -> None:
    found = {
        name: find(rows, "decoupled from light", "decoupled", name)
        for name in (
            "explore_share_of_steps_that_update",
            "exploit_share_of_steps_that_update",
            "explore_parse_failure_rate",
            "exploit_parse_failure_rate",
        )
    }
    assert [row.value for row in found.values()] == [1.0, 0.0, 0.0, 0.5]
    assert [row.verdict for row in found.values()] == [MET, NOT_MET, MET, NOT_MET]


def test_the_dial_is_read_step_by_step(rows: list[Row]) -> None:
    first = find(rows, "lambda dial", "lambda 0.15 - 0.1", "mean_asks_difference")
    flat = find(rows, "lambda dial", "lambda 0.2 - 0.15", "mean_asks_difference")
    low = find(rows, "lambda dial", "lambda 0.03 - 0.1", "mean_asks_difference")
    assert (first.verdict, flat.verdict, low.verdict) == (MET, UNCLEAR, MET)
    turn = find(rows, "lambda dial", "oracle", "expected_turning_point")
    assert turn.value == pytest.approx(0.1749, abs=1e-4)


def test_a_policy_without_support_fails_the_gate_and_an_oracle_fails_coverage_of_decisions(
    rows: list[Row],
) -> None:
    severe = find(rows, "coverage bias", "full-severe", "gate_2_passes")
    assert (severe.value, severe.verdict) == (0.0, MET)


def test_arms_that_were_not_played_are_skipped_and_say_so(rows: list[Row]) -> None:
    row = next(r for r in rows if r.question == "recommended" and r.task == "refill")
    assert (row.value, row.verdict, row.seeds, row.n) == (None, SKIPPED, 0, 0)


def test_the_gain_of_the_oracle_is_one_and_of_the_best_constant_nothing(
    worlds: dict[str, ClinicalWorld], tmp_path: Path
) -> None:
    world = worlds["titration"]
    for policy, expected in (("oracle", 1.0), ("best_constant", 0.0)):
        file = tmp_path / f"{policy}.jsonl"
        _play(file, world, policy, "test")
        assert gain_by_regret(judged(world, file), world) == pytest.approx(expected, abs=1e-9)


def test_the_file_lists_every_row_and_the_picture_is_the_same_twice(
    rows: list[Row], tmp_path: Path
) -> None:
    write(rows, tmp_path)
    assert json.loads((tmp_path / "study.json").read_text()) == [asdict(row) for row in rows]
    assert (tmp_path / "study.svg").read_text() == draw_study(rows)
    assert "break-even" in draw_study(rows)
