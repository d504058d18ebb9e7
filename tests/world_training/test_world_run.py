"""A run on a proxy from its first step to its report: everything lies in its folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from clinical_envs import read_episodes
from clinical_envs.catalog import load_task
from clinical_envs.rubric.lapses import episode_proxy
from clinical_envs.rubric.training_rewards import episode_reference
from oracles.reward_audit.records import read_log
from tests.training_runs import few_cases
from training.cli import app
from training.config import Config, load_config
from training.runs import read_rows, read_run

pytest.importorskip("trl", reason="pip install 'clinical-envs[train]'")
# notices of the training stack about its own next versions
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore:.*pin_memory.*:UserWarning"
    ),
]
CASES = 8


@pytest.fixture(scope="module")
def config() -> Config:
    """Two short updates with the weak verifier."""
    return load_config(
        "rubric-weak-embedded",
        [
            "warmup.steps=60",
            "warmup.warmup_steps=5",
            "limits.turn_tokens=32",
            "limits.context_tokens=224",
            "optim.steps=2",
            "optim.groups=4",
            "optim.rollouts=4",
            "optim.micro_batch=16",
            "optim.checkpoint_every=1",
            "validation.every=1",
            "validation.k=1",
        ],
    )


@pytest.fixture(scope="module")
def finished(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warmup and a run on four cases a risk group."""
    from training.grpo import train
    from training.sft import warm_up

    folder = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(few_cases, "PER_GROUP", CASES // 2)
        few_cases.use_few_cases(patch)
        train(config, warm_up(config, folder / "start"), folder / "run")
    return folder / "run"


def audited(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "reward_audit.json").read_text(encoding="utf-8"))
    return found


def test_the_warmup_speaks_the_world(finished: Path) -> None:
    """After sixty steps most turns are actions of the world, and none is of the clinical tasks."""
    start = read_episodes(finished / "episodes" / "validation-start.jsonl").episodes
    turns = [turn for episode in start for turn in episode.turns]
    assert sum(hasattr(turn, "invalid") for turn in turns) < len(turns) / 2
    texts = [text for episode in start for text in episode.raw or ()]
    assert any(text.startswith('{"action": "answer", "claims": [{"concept": ') for text in texts)


def test_the_rows_are_the_validation_episodes_of_every_update(finished: Path) -> None:
    log = read_log([finished / "reward_rows.jsonl"])
    assert not log.damaged
    assert {row.step for row in log.rewards} == {0, 1, 2}
    assert len(log.rewards) == 3 * CASES
    task = load_task("rubric")
    last = read_episodes(finished / "episodes" / "validation-update-000002.jsonl").episodes
    paid = {row.prompt: row for row in log.rewards if row.step == 2}
    for episode in last:
        row = paid[str(episode.case_id)]
        assert row.reward == pytest.approx(episode_proxy(task, episode, 1.0))
        assert row.reference == pytest.approx(episode_reference(task, episode))


def test_the_audit_is_that_of_the_command_line(finished: Path) -> None:
    rows = str(finished / "reward_rows.jsonl")
    result = CliRunner().invoke(app, ["reward-audit", rows, "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == audited(finished)
    names = {finding["rule"] for finding in audited(finished)["findings"]}
    assert {"exploitation_level", "exploitation_rise", "stopping_regret"} <= names


def test_the_report_and_the_record_say_what_the_audit_found(finished: Path) -> None:
    page = (finished / "report.html").read_text(encoding="utf-8")
    for text in ("Reward audit of the proxy weak", "Proxy and reference", "proxy weak, group"):
        assert text in page
    data = read_run(finished)
    assert data["status"] == "finished"
    assert data["reward_audit"]["exploitation_level / weak"] in ("SKIPPED", "FLAG", "CLEAR")
    assert data["reward"]["value"] is None


def test_no_proxy_reaches_what_validation_reports(finished: Path) -> None:
    """A reported value is of the verifier: utilities of the task minus costs."""
    task = load_task("rubric")
    costs = [task.question_cost * n for n in range(task.turn_cap + 1)]
    levels = {round(float(u) - c, 9) for u in task.utility_matrix.ravel() for c in costs}
    levels |= {round(float(u) - c, 9) for u in task.no_decision_utility for c in costs}
    world_file = finished / "episodes" / "validation-update-000002.jsonl"
    from oracles.clinical import ClinicalWorld

    world = ClinicalWorld(task)
    for episode in read_episodes(world_file).episodes:
        assert round(world.assess(episode).reward, 9) in levels


def test_every_step_logs_what_is_unscored(finished: Path) -> None:
    rows = read_rows(finished / "metrics.jsonl")
    assert [row["rollout/unscored"] for row in rows] == [0.0, 0.0]
    assert all(row["kl"] >= 0.0 for row in rows)


def test_an_arm_of_the_study_begins_anew_and_leaves_rows_audit_and_curves(
    finished: Path, tmp_path: Path
) -> None:
    from training.reward_runs import play_arm
    from training.reward_study import SETTINGS

    small = ("optim.groups=2", "optim.rollouts=4", "optim.micro_batch=8")
    limits = ("limits.turn_tokens=32", "limits.context_tokens=224")
    setting = replace(SETTINGS["rubric"], steps=2, every=1, cases=6, training=(*small, *limits))
    told: list[str] = []
    stopped = tmp_path / "rubric-strong-0"
    stopped.mkdir()
    (stopped / "half").touch()
    (tmp_path / "rubric-start-0").symlink_to(finished.parent / "start")
    play_arm(setting, "strong", 0, tmp_path, told.append)
    assert told[0] == "rubric-strong-0: update 0/2"
    assert not (stopped / "half").exists()
    curves = json.loads((stopped / "curves.json").read_text(encoding="utf-8"))
    assert curves["update"] == [0, 1, 2]
    assert len(curves["proxy"]) == len(curves["reference"]) == 3
    assert len(curves["exploitation"]) == 2
    log = read_log([stopped / "reward_rows.jsonl"])
    assert (len(log.rewards), len(log.damaged)) == (18, 0)
    assert json.loads((stopped / "reward_audit.json").read_text())["rows"]["reward"] == 18


def test_an_unpayable_reward_is_refused_before_anything_is_written(
    config: Config, tmp_path: Path
) -> None:
    from clinical_envs.errors import InvalidArgument
    from training.config import config_from
    from training.grpo import train

    wrong = config_from(
        {"task": "titration", "warmup": {"kind": "full"}}
        | {"reward": {"variant": "proxy", "proxy": "weak"}}
    )
    with pytest.raises(InvalidArgument, match="an evidence world"):
        train(wrong, tmp_path / "start", tmp_path / "run")
    assert not (tmp_path / "run").exists()
