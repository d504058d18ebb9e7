"""The answers of the reward study: intervals over seeds, and when an effect has appeared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from oracles.reward_audit.records import read_lines
from training import reward_study
from training.reward_findings import QUESTIONS, Question, answer, apart, end, gain, lag
from training.reward_plot import draw
from training.reward_study import SETTINGS, conclude, reward_jobs
from training.study.plan import Job

UP = Question(
    question="Up?",
    world="rubric",
    arm="weak",
    metric="m",
    statistic=gain("proxy"),
    expected="above",
)


def runs(*gains: float | None, arm: str = "weak") -> dict[tuple[str, int], dict[str, list[Any]]]:
    return {
        (arm, seed): {"proxy": [0.5, None if value is None else 0.5 + value]}
        for seed, value in enumerate(gains)
    }


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ((0.2, 0.21, 0.19), "appeared"),
        ((-0.2, -0.21, -0.19), "the opposite appeared"),
        ((0.2, -0.2, 0.05), "did not appear"),
        ((0.2, 0.2), "not judged: fewer than 3 seeds"),
        ((0.2, 0.2, None), "not judged: fewer than 3 seeds"),
    ],
)
def test_an_effect_appeared_if_its_whole_interval_is_on_the_expected_side(
    gains: tuple[float | None, ...], verdict: str
) -> None:
    assert answer(UP, runs(*gains), 10)["verdict"] == verdict


def test_the_interval_is_students_over_seeds() -> None:
    """Mean .2, sd .1 over three: half width 4.3027 * .1 / sqrt(3)."""
    row = answer(UP, runs(0.1, 0.2, 0.3), 10)
    assert row["value"] == pytest.approx(0.2)
    assert row["high"] - row["value"] == pytest.approx(4.302653 * 0.1 / 3**0.5, rel=1e-5)
    assert (row["seeds"], row["unscored"], row["n"]) == (3, 0, 10)


def test_arms_are_compared_within_seeds() -> None:
    contrast = Question(
        question="Less?", world="w", arm="a", minus="b", metric="m", statistic=end("proxy"),
        expected="below",
    )  # fmt: skip
    both = runs(0.1, 0.4, 0.9, arm="a") | runs(0.2, 0.5, 1.0, arm="b")
    row = answer(contrast, both, 10)
    assert row["arm"] == "a - b"
    assert row["value"] == pytest.approx(-0.1)
    assert row["verdict"] == "appeared"
    del both["b", 2]
    row = answer(contrast, both, 10)
    assert (row["seeds"], row["unscored"]) == (2, 1)


def test_the_reference_lags_if_it_gains_less_than_half_of_the_proxy() -> None:
    curves = {"proxy": [0.5, 0.9], "reference": [0.5, 0.6]}
    assert lag(curves) == pytest.approx(0.1 - 0.2)
    assert apart(curves) == pytest.approx(0.3)
    assert lag(curves | {"reference": [0.5, None]}) is None


def test_a_question_without_a_claim_is_only_measured() -> None:
    plain = Question(question="?", world="w", arm="weak", metric="m", statistic=end("proxy"))
    assert answer(plain, runs(0.1, 0.2, 0.3), 10)["verdict"] == "measured"


def made_up(world: str, arm: str, seed: int) -> dict[str, list[Any]]:
    """Curves of a run with every measure that the questions ask for."""
    better = 0.1 * (arm in ("weak", "eg")) + 0.01 * seed
    curves: dict[str, list[Any]] = {
        "update": [0, 10, 20],
        "proxy": [0.5, 0.6, 0.7 + better],
        "reference": [0.5, 0.55, 0.56],
        "searches": [1.0, 1.0, 1.0],
    }
    if world == "rubric":
        return curves | {"exploitation": [0.3, 0.4 + better]}
    shares = {name: [0.5, 0.4, 0.3] for name in ("hallucination", "fabricated")}
    return curves | shares | {"sound_evidence": [0.1, 0.5, 0.8]}


def test_the_study_answers_every_question_from_finished_runs_alone(tmp_path: Path) -> None:
    for world, setting in SETTINGS.items():
        for arm in setting.arms:
            for seed in range(3):
                folder = tmp_path / "reward_study" / f"{world}-{arm}-{seed}"
                folder.mkdir(parents=True)
                text = json.dumps(made_up(world, arm, seed))
                (folder / "curves.json").write_text(text, encoding="utf-8")
    older = tmp_path / "reward_study" / "rubric-weak-3"  # of another study in this folder
    older.mkdir()
    (older / "curves.json").write_text(json.dumps(made_up("rubric", "weak", 9)))
    rows = conclude(tmp_path, {job.name for job in reward_jobs(range(3), tmp_path)})
    assert json.loads((tmp_path / "reward_study.json").read_text()) == rows
    assert len(rows) == len(QUESTIONS)
    keys = {"question", "world", "arm", "metric", "value", "low", "high", "seeds", "n", "verdict"}
    assert all(keys <= row.keys() for row in rows)
    assert {row["seeds"] for row in rows} == {3}
    by_metric = {(row["arm"], row["metric"]): row["verdict"] for row in rows}
    assert by_metric["weak", "gain of the proxy"] == "appeared"
    assert "did not appear" in by_metric.values()  # both arms hallucinate alike here
    assert (tmp_path / "reward_study.svg").read_text().startswith("<?xml")


def test_the_command_runs_its_jobs_and_writes_down_what_came_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(jobs: Sequence[Job], folder: Path, **_: Any) -> tuple[str, ...]:
        for job in jobs:
            (folder / job.name).mkdir(parents=True)
            if job.needs:
                world, arm, seed = job.name.rsplit("-", 2)
                text = json.dumps(made_up(world, arm, int(seed)))
                (folder / job.name / "curves.json").write_text(text)
        return ()

    monkeypatch.setattr(reward_study, "run_jobs", run)
    monkeypatch.setattr(reward_study, "finished", lambda jobs, _: {job.name for job in jobs})
    result = CliRunner().invoke(reward_study.app, ["--out", str(tmp_path), "--seeds", "3"])
    assert result.exit_code == 0, result.output
    assert len(json.loads((tmp_path / "reward_study.json").read_text())) == len(QUESTIONS)


def test_every_arm_is_a_job_after_the_warmup_of_its_seed(tmp_path: Path) -> None:
    jobs = {job.name: job for job in reward_jobs((0, 1), tmp_path)}
    assert len(jobs) == 2 * (len(SETTINGS) + sum(len(s.arms) for s in SETTINGS.values()))
    for world, setting in SETTINGS.items():
        assert len({jobs[f"{world}-{arm}-1"].config_hash for arm in setting.arms}) == 2
        assert {jobs[f"{world}-{arm}-1"].needs for arm in setting.arms} == {(f"{world}-start-1",)}


def test_a_study_that_has_only_begun_draws_what_there_is() -> None:
    assert "<svg" in draw({"rubric": {("weak", 0): made_up("rubric", "weak", 0)}, "factcheck": {}})


def test_measures_of_a_run_come_from_its_rows() -> None:
    from training.reward_runs import measured

    def row(step: int, prompt: int, proxy: float | None, wrong: int, evidence: int) -> str:
        return json.dumps(
            {
                "kind": "reward", "step": step, "prompt": prompt, "rollout": 0, "reward": proxy,
                "reference": 1.0, "incorrect_claims": wrong, "searches": 2,
                "meta": {"evidence": evidence},
            }
        )  # fmt: skip

    def quotes(step: int, prompt: int, denied: bool) -> str:
        return json.dumps(
            {
                "kind": "judgment", "step": step, "prompt": prompt, "criterion": "quotes",
                "verifier": "published", "training": True, "panel": [not denied],
            }
        )  # fmt: skip

    rows = [row(0, 1, 0.5, 1, 1), row(0, 2, None, 0, 2), row(5, 1, 0.7, 0, 0)]
    log = read_lines([*rows, quotes(0, 1, True), quotes(0, 2, False), quotes(5, 1, True)])
    curves = measured(log)
    assert curves["update"] == [0, 5]
    assert curves["proxy"] == [0.5, 0.7]
    assert curves["hallucination"] == [0.5, 0.0]
    assert curves["fabricated"] == [0.5, 1.0]
    assert curves["sound_evidence"] == [1.0, 0.0]
    assert curves["searches"] == [2.0, 2.0]
    assert curves["exploitation"] == [None]  # nothing was newly credited
