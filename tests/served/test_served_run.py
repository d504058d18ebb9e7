"""Whole runs with a server: gates, updates, validation, test set; and what dies on the way."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clinical_envs import read_episodes
from tests.served import tiny_sets
from tests.served.conftest import ROOT, Fake, free_port, is_alive
from tests.training.toy import NEEDS, fresh_model, tokenizer
from tests.training_runs.conftest import config, task_file
from training.config import Config, Reward, Vllm
from training.patience import ServedError
from training.runs import as_toml, last_checkpoint, read_rows, read_run

pytest.importorskip("trl", reason=NEEDS)
pytest.importorskip("httpx", reason=NEEDS)
__all__ = ["config", "task_file"]  # fixtures

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore:.*pin_memory.*:UserWarning"
)
STEPS, GROUPS, SIZE = 4, 4, 8


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_sets.use_tiny_sets(monkeypatch)


def served(config: Config, fake: Fake, *, patience_s: float = 60.0) -> Config:
    vllm = Vllm(url=fake.url, patience_s=patience_s, timeout_s=60.0)
    return replace(config, engine="vllm", vllm=vllm)


def run(config: Config, start: Path, folder: Path) -> dict[str, Any]:
    from training.grpo import train

    return train(config, start, folder)


def assert_whole(folder: Path) -> None:
    """A finished run, every update and episode once, every rollout by the newest policy."""
    assert json.loads((folder / "run.json").read_text())["status"] == "finished"
    metrics, validation, rollouts = (
        read_rows(folder / f"{name}.jsonl") for name in ("metrics", "validation", "rollouts")
    )
    assert [row["step"] for row in metrics] == [1, 2, 3, 4]
    assert [row["update"] for row in validation] == [0, 2, 4]
    assert [(row["step"], row["group"], row["rollout"]) for row in rollouts] == [
        (s, g, r) for s in range(1, STEPS + 1) for g in range(GROUPS) for r in range(SIZE)
    ]
    assert all(row["version"] == row["step"] - 1 == row["update"] - 1 for row in rollouts)
    assert all(row["rollout/staleness"] == 0.0 for row in metrics)
    assert all(row["rollout/logprob_max_diff"] <= 1e-4 for row in metrics)
    for file in (folder / "episodes").glob("*.jsonl"):
        played = [(e.case.hash, e.rollout, e.greedy) for e in read_episodes(file).episodes]
        assert len(played) == len(set(played)) > 0, file.name
    assert (folder / "report.html").is_file()


@pytest.mark.slow
def test_a_whole_run_is_sampled_by_the_server_and_leaves_nothing_there(
    config: Config, toy_start: Path, fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    data = run(served(config, fake), toy_start, folder)
    assert_whole(folder)
    owner = data["adapters"]
    assert owner.startswith(config.hash)
    played = list(dict.fromkeys(fake.seen["models"]))
    versions = [f"{owner}-1-v{n}" for n in range(STEPS + 1)]
    final = {f"{owner}-1-{data[role]['policy']}" for role in ("best", "last")}
    assert [name for name in played if name in versions] == versions
    assert set(played) == {"base", *versions, *final}
    assert fake.adapters == []
    assert list((folder / "adapters").iterdir()) == []
    assert "trying again" not in capsys.readouterr().err


@pytest.mark.slow
def test_the_trainer_is_killed_and_the_same_command_goes_on(
    config: Config, toy_start: Path, fake: Fake, tmp_path: Path
) -> None:
    folder, file = tmp_path / "killed", tmp_path / "config.toml"
    chosen = served(config, fake)
    file.write_text(as_toml(chosen))
    command = [sys.executable, tiny_sets.__file__, "train", "grpo", "--config", str(file)]
    process = subprocess.Popen(
        [*command, "--start", str(toy_start), "--out", str(folder)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 300
    while len(read_rows(folder / "metrics.jsonl")) < 3:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert fake.adapters != []
    run(chosen, toy_start, folder)
    assert_whole(folder)
    sessions = {row["policy"].rsplit("-", 2)[1] for row in read_rows(folder / "rollouts.jsonl")}
    assert sessions == {"1", "2"}
    assert fake.adapters == []


@pytest.mark.slow
def test_two_processes_share_one_server_and_one_policy(
    config: Config, toy_start: Path, fake: Fake, tmp_path: Path
) -> None:
    folder, file = tmp_path / "run", tmp_path / "config.toml"
    optim = replace(config.optim, steps=2, micro_batch=16)
    file.write_text(as_toml(served(replace(config, optim=optim), fake)))
    launcher = ["-m", "torch.distributed.run", "--nproc_per_node", "2"]
    command = [tiny_sets.__file__, "train", "grpo", "--config", str(file)]
    command += ["--start", str(toy_start), "--out", str(folder)]
    subprocess.run(
        [sys.executable, *launcher, "--master_port", str(free_port()), "--", *command],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
        timeout=300,
    )
    assert json.loads((folder / "run.json").read_text())["status"] == "finished"
    rollouts = read_rows(folder / "rollouts.jsonl")
    assert [(row["step"], row["group"], row["rollout"]) for row in rollouts] == [
        (s, g, r) for s in (1, 2) for g in range(GROUPS) for r in range(SIZE)
    ]
    faced = {(row["step"], row["group"], row["case"]) for row in rollouts}
    assert len(faced) == 2 * GROUPS  # the rollouts of a group face one case
    assert {(row["version"], row["staleness"]) for row in rollouts} == {(0, 0), (1, 0)}
    for row in read_rows(folder / "metrics.jsonl"):
        assert row["rollout/logprob_max_diff"] <= 1e-4
    assert fake.adapters == []


DEATHS = {
    "while rollouts are played": ({"dies_playing": "-v1"}, 1),
    "while the next policy is published": ({"dies_loading": "-v2"}, 2),
    "while the policy is evaluated": ({"dies_playing": "-v2"}, 2),
    "while the last policy is evaluated": ({"dies_playing": "-v4"}, 4),
    "while the test set is played": ({"dies_playing": "-update-000004"}, 4),
}


@pytest.mark.slow
def test_whenever_a_server_stays_away_the_state_is_kept_and_the_same_command_goes_on(
    config: Config, toy_start: Path, fake: Fake, tmp_path: Path
) -> None:
    """One run whose server dies in five sessions and stays in the sixth."""
    folder, chosen = tmp_path / "run", served(config, fake, patience_s=1.0)
    for moment, (fault, step) in DEATHS.items():
        fake.control(**fault)
        with pytest.raises(ServedError) as caught:
            run(chosen, toy_start, folder)
        message = str(caught.value)
        assert "given up after 1 s" in message, moment
        assert ("Stopped, the state after step" in message) is ("test set" not in moment)
        assert f"step {step} is kept: the same command" in message or "test set" in moment
        assert (folder / "checkpoints" / f"checkpoint-{step}" / "play.json").is_file(), moment
        assert len(read_rows(folder / "metrics.jsonl")) == step, moment
        if step == 1:
            shutil.rmtree(folder / "checkpoints")  # lost as well: it begins again
        fake.start()
        fake.wait()
    run(chosen, toy_start, folder)
    assert_whole(folder)
    assert len({row["policy"] for row in read_rows(folder / "rollouts.jsonl")}) == STEPS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "tried"),
    [({"dies_loading": "-v2"}, 2), ({"dies_playing": "-v2"}, 2), ({"dies_playing": "-v1"}, 1)],
)
def test_where_the_disk_has_no_room_for_the_last_state_the_run_says_what_it_kept(
    config: Config,
    toy_start: Path,
    start_fake: Callable[..., Fake],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: dict[str, str],
    tried: int,
) -> None:
    """At the end of a step, in its evaluation, and while rollouts are played."""
    from training.served_trainer import ServedTrainer

    saved: list[int] = []

    def full(trainer: Any, *_: Any, **__: Any) -> None:
        saved.append(trainer.state.global_step)
        raise OSError(errno.ENOSPC, "No space left on device")

    fake, folder = start_fake(), tmp_path / "run"
    fake.control(**fault)
    with monkeypatch.context() as changed:
        changed.setattr(ServedTrainer, "_save_checkpoint", full)
        with pytest.raises(ServedError) as caught:
            run(served(config, fake, patience_s=1.0), toy_start, folder)
    message = str(caught.value)
    assert "given up after 1 s" in message
    assert "Stopped, the last step could not be saved ([Errno 28] No space left" in message
    assert message.endswith(f"no step is kept: the same command goes on in {folder}")
    assert saved == [tried]
    fake.start()
    fake.wait()
    run(served(config, fake), toy_start, folder)
    assert_whole(folder)


@pytest.mark.slow
def test_a_decoupled_run_that_was_stopped_between_its_phases_goes_on(
    config: Config, toy_start: Path, fake: Fake, tmp_path: Path
) -> None:
    decoupled = replace(config, reward=Reward(variant="decoupled"))
    folder, chosen = tmp_path / "run", served(decoupled, fake, patience_s=1.0)
    fake.control(dies_playing="-v3")  # step 4 is the exploiting phase of the second update
    with pytest.raises(ServedError, match="the state after step 3 is kept"):
        run(chosen, toy_start, folder)
    fake.start()
    fake.wait()
    assert run(chosen, toy_start, folder)["status"] == "finished"
    rows = read_rows(folder / "metrics.jsonl")
    assert [(row["update"], row["step"]) for row in rows] == [
        (-(-step // 2), step) for step in range(1, 2 * STEPS + 1)
    ]


@pytest.mark.slow
def test_a_server_that_comes_back_as_another_model_plays_no_part_of_the_test_set(
    config: Config, toy_start: Path, fake: Fake, tmp_path: Path
) -> None:
    other, folder = tmp_path / "other", tmp_path / "run"
    fresh_model(seed=9).save_pretrained(other)
    tokenizer().save_pretrained(other)
    chosen, own = served(config, fake, patience_s=1.0), fake.settings["model"]
    fake.control(dies_playing="-update-000004")
    with pytest.raises(ServedError, match="given up after 1 s"):
        run(chosen, toy_start, folder)
    fake.start(model=str(other))
    fake.wait()
    with pytest.raises(ServedError, match="serves another model than the run starts from"):
        run(chosen, toy_start, folder)
    assert read_run(folder)["status"] == "evaluating"
    fake.kill()
    fake.start(model=own)
    fake.wait()
    run(chosen, toy_start, folder)
    assert_whole(folder)


def test_a_server_that_is_not_up_yet_is_waited_for_before_a_model_is_loaded(
    config: Config,
    toy_start: Path,
    start_fake: Callable[..., Fake],
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    fake = start_fake()
    fake.kill()
    monkeypatch.setattr("training.models.load_policy", None)
    with pytest.raises(ServedError, match=r"cannot be reached .* given up after 0.5 s"):
        run(served(config, fake, patience_s=0.5), toy_start, tmp_path / "run")
    threading.Timer(1.0, fake.start).start()
    with pytest.raises(TypeError):  # it came up, and now the model is loaded
        run(served(config, fake), toy_start, tmp_path / "run")
    assert is_alive(fake.pid)


def test_a_server_with_too_short_a_context_is_refused(
    config: Config, toy_start: Path, start_fake: Callable[..., Fake], tmp_path: Path
) -> None:
    fake = start_fake(context=256)
    with pytest.raises(ServedError, match="start it with --max-model-len 512"):
        run(served(config, fake), toy_start, tmp_path / "run")


def test_a_checkpoint_that_a_kill_left_unfinished_is_not_gone_on_from(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path / "none") is None
    for step, state in ((2, "{}"), (10, "{}"), (12, '{"global_st'), (14, None)):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        if state is not None:
            (folder / "trainer_state.json").write_text(state)
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")
