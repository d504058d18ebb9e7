"""The demo with training, made small: stopped while both arms train, then told to its end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from clinical_envs import read_episodes
from clinical_envs.episode import Episode
from oracles.clinical import ClinicalWorld, make_world
from tests.report.pages import Page
from tests.training_runs import small_demo
from training import grpo, sft
from training.cli import app
from training.config import load_config
from training.runs import read_rows, read_run
from training.story import ARMS, JobFailed, Part, Story
from training.study.plan import Job

pytest.importorskip("trl", reason="pip install 'clinical-envs[train]'")
pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore:.*pin_memory.*:UserWarning"
)
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Stopped:
    """What a demo said and left that was told to stop."""

    code: int
    said: str
    children: list[psutil.Process]


@dataclass(frozen=True)
class Telling:
    """A demo that was stopped, and then told again to its end."""

    folder: Path
    stopped: Stopped
    said: str
    printed: str

    @property
    def summary(self) -> dict[str, Any]:
        return json.loads((self.folder / "summary.json").read_text())

    def run(self, name: str) -> Path:
        return self.folder / "training" / name


@pytest.fixture(scope="module")
def world() -> ClinicalWorld:
    return make_world(small_demo.TASK)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_demo.make_small(monkeypatch)


@pytest.fixture(scope="module")
def telling(tmp_path_factory: pytest.TempPathFactory) -> Telling:
    folder = tmp_path_factory.mktemp("demo") / "demo"
    arguments = ["demo", "--train", "--out", str(folder)]
    stopped = stop_while_both_arms_train(arguments, folder)
    with pytest.MonkeyPatch.context() as patch:
        small_demo.make_small(patch)
        result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return Telling(folder, stopped, result.stderr, result.stdout)


def stop_while_both_arms_train(arguments: list[str], folder: Path) -> Stopped:
    said = folder.with_name("said")
    with said.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", small_demo.__name__, *arguments],
            env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
    metrics = [folder / "training" / arm / "metrics.jsonl" for arm in ARMS]
    deadline = time.monotonic() + 900
    while not all(read_rows(file) for file in metrics):
        assert process.poll() is None, said.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGTERM)
    return Stopped(process.wait(timeout=60), said.read_text(), children)


def test_a_demo_that_is_stopped_leaves_no_process_behind_and_says_how_to_go_on(telling: Telling):
    stopped = telling.stopped
    assert stopped.code == 130
    assert stopped.said.endswith("stopped: run the same command to go on\n")
    assert len(stopped.children) == 2
    assert not any(child.is_running() for child in stopped.children)


def test_what_was_done_is_not_done_again_and_what_was_begun_goes_on(telling: Telling):
    assert "3 of 3 jobs are done" in telling.said
    assert "0 of 2 jobs are done" in telling.said
    assert len(read_run(telling.run("warmup"))["sessions_s"]) == 1
    for arm in ARMS:
        assert len(read_run(telling.run(arm))["sessions_s"]) == 2
        steps = [row["step"] for row in read_rows(telling.run(arm) / "metrics.jsonl")]
        assert steps == list(range(1, small_demo.SETTINGS["optim.steps"] + 1))


def test_without_a_terminal_plain_lines_show_the_progress(telling: Telling):
    last = small_demo.SETTINGS["optim.steps"]
    assert "warmup: 80/80 steps loss" in telling.stopped.said
    assert "warmup-test: 1092/1092 episodes" in telling.stopped.said  # 84 cases x (12 + greedy)
    for arm in ARMS:
        assert f"{arm}: {last}/{last} updates" in telling.said
    assert "\x1b" not in telling.said


def test_the_start_is_played_once_and_both_arms_have_it_as_their_own(telling: Telling):
    for set_name in ("validation", "test"):
        played = read_episodes(telling.run("warmup") / "episodes" / f"{set_name}.jsonl").episodes
        for arm in ARMS:
            file = telling.run(arm) / "episodes" / f"{set_name}-start.jsonl"
            assert read_episodes(file).episodes == [named(episode, "start") for episode in played]
    assert read_run(telling.run("outcome"))["gates"] == telling.summary["training"]["gates"]


def named(episode: Episode, policy: str) -> Episode:
    return episode.model_copy(update={"policy": policy})


def test_one_page_holds_the_policies_side_by_side_the_curves_and_what_they_are_not_fit_for(
    telling: Telling,
):
    page = Page((telling.folder / "report.html").read_text())
    for policy in ("warmup", *ARMS, "oracle", "random", "1_ask", "checklist"):
        assert policy in page.words
    links = [a["href"] for a in page.all("a")]
    assert {"#figure-1", "#figure-2", "#viewer"} <= set(links)
    for text in (
        *("Training curves", "one-ask rate, %", "entropy", "high_clot", "parse failures"),
        *("One seed makes no claim", "Not fit for: any patient", "the audit is against the warmup"),
        *("The reward of outcome: outcome", "The reward of credit: credit", "break-even lambda"),
        *("Both gates passed before the first step",),
    ):
        assert text in page.words


def test_trained_policies_are_judged_on_test_alone_and_against_the_warmup(telling: Telling):
    episodes = read_episodes(telling.folder / "episodes.jsonl").episodes
    updates = telling.summary["training"]["updates"]
    assert {updates[arm] for arm in ARMS} == {small_demo.SETTINGS["optim.steps"]}
    trained = [episode for episode in episodes if episode.policy in ("warmup", *updates)]
    assert {episode.case.split for episode in trained} == {"test"}
    assert len(trained) == (1 + len(updates)) * 84 * 13
    (task,) = telling.summary["tasks"]
    found = {p["policy"]: p for p in task["policies"] if p["split"] == "test"}
    assert found["warmup"]["gain"]["value"] == 0.0
    gain = found["oracle"]["metrics"]["value"] - found["warmup"]["metrics"]["value"]
    assert found["oracle"]["gain"]["value"] == pytest.approx(gain)
    for name, update in updates.items():
        run = read_run(telling.run(name.removesuffix("_best")))
        reported = run["test"][f"update-{update:06d}"]
        assert found[name]["metrics"]["intervals"]["value"] == pytest.approx(reported["value"])
        if name.endswith("_best"):
            assert run["best"]["update"] == update


def test_a_demo_that_was_continued_has_no_duration_of_its_own(telling: Telling):
    assert telling.summary["demo_minutes"] is None
    assert telling.summary["demo_peak_gb"] is None
    assert "Continued. Open the report:" in telling.printed


@pytest.mark.usefixtures("small")
def test_the_story_of_an_ineligible_start_says_so_first(
    telling: Telling, world: ClinicalWorld, tmp_path: Path
):
    folder = tmp_path / "refused"
    shutil.copytree(telling.folder / "training", folder)
    for arm in ARMS:
        data = read_run(folder / arm)
        data["gates"][1]["passed"] = False
        (folder / arm / "run.json").write_text(json.dumps(data | {"eligible": False}))
    told = Story(folder, world).told()
    assert told.title.startswith("NOT ELIGIBLE: ")
    assert told.notes[0].startswith("NOT ELIGIBLE: gate 2: latent support did not pass")
    assert told.facts["eligible"] is False


def test_the_arms_differ_in_their_reward_alone():
    story = Story(Path("demo"), make_world("diagnostics"))
    outcome, credit = (asdict(story.configs[arm]) for arm in ARMS)
    assert outcome.pop("reward") != credit.pop("reward")
    assert outcome == credit
    assert story.configs["warmup"].warmup == story.configs["outcome"].warmup
    assert story.configs["outcome"].optim.steps == 60


def test_every_job_is_a_command_that_trains_what_the_story_tells(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    story = Story(tmp_path, make_world("diagnostics"))
    calls = []
    monkeypatch.setattr(sft, "warm_up", lambda config, out: calls.append((config, out)))
    monkeypatch.setattr(grpo, "train", lambda *given: calls.append(given) or {})
    (warmup, *played), arms = story.warmup_parts(), story.arm_parts()
    start = tmp_path / "warmup"
    start.mkdir()
    for part, more in ((warmup, ()), *((arm, ("--json",)) for arm in arms)):
        assert CliRunner().invoke(app, [*part.job.arguments, *more]).exit_code == 0
    assert calls[0] == (story.configs["warmup"], start)
    assert calls[1:] == [(story.configs[arm], start, tmp_path / arm) for arm in ARMS]
    assert story.configs["credit"] == load_config(
        "diagnostics-credit-embedded", ["optim.steps=60", "validation.every=10"]
    )
    for part in played:
        assert part.job.needs == ("warmup",)
        assert f"hf:{start}" in part.job.arguments


def test_a_job_that_fails_is_told_with_its_last_words(tmp_path: Path, world: ClinicalWorld):
    job = Job(name="bad", module="timeit", arguments=("-n1", "-r1", "1 / 0"))
    part = Part(job=job, total=1, unit="tries", look=lambda: (0, ""))
    with pytest.raises(JobFailed, match="bad ended with: ZeroDivisionError") as caught:
        Story(tmp_path, world).run([part], lambda line: None)
    assert str(tmp_path / "logs" / "bad.log") in str(caught.value)
