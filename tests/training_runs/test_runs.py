from __future__ import annotations

import errno
import json
import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.errors import InvalidArgument
from training.config import config_from, config_names, load_config
from training.runs import as_toml, best_row, open_run, process, read_run

CONFIG = config_from({"task": "titration", "warmup": {"kind": "full"}})


def opened(folder):
    return open_run(folder, CONFIG, kind="grpo", task="ClinicalTitration-v0@1.0.0", start="here")


def row(update, value=0.0, verdict="CLEAR"):
    return {
        "update": update,
        "value": {"value": value},
        "flags": {"high_risk_regression": verdict},
    }


@pytest.mark.parametrize("name", config_names())
def test_a_configuration_is_read_back_from_the_run(tmp_path, name):
    config = load_config(name)
    file = tmp_path / "config.toml"
    file.write_text(as_toml(config), encoding="utf-8")
    assert load_config(file) == config
    assert load_config(file).hash == config.hash


def test_a_new_run_says_what_it_is(tmp_path):
    run = opened(tmp_path / "a" / "run")
    assert run.data["status"] == "training"
    assert run.data["eligible"] is None
    assert (run.folder / "config.toml").read_text().startswith(f"# configuration {CONFIG.hash}\n")


def test_a_run_that_made_nothing_yet_begins_again_from_what_is_wanted_now(tmp_path):
    """It had a start that was not there, for example."""
    opened(tmp_path)
    named = {"kind": "grpo", "task": "ClinicalTitration-v0@1.0.0"}
    run = open_run(tmp_path, CONFIG, start="there", **named)
    assert run.data["start"] == "there"
    assert len(run.data["sessions_s"]) == 1
    run.append("metrics", {"update": 1})
    with pytest.raises(InvalidArgument, match="holds a run with start there, not here"):
        open_run(tmp_path, CONFIG, start="here", **named)


def test_another_kind_of_run_is_not_taken_up(tmp_path):
    opened(tmp_path).append("metrics", {"update": 1})
    with pytest.raises(InvalidArgument, match="holds a run with kind grpo, not sft"):
        open_run(tmp_path, CONFIG, kind="sft", task="ClinicalTitration-v0@1.0.0", start="here")


def test_a_folder_is_one_process_at_a_time_until_that_is_killed(tmp_path):
    code = (
        "from pathlib import Path; from tests.training_runs.test_runs import opened\n"
        f"run = opened(Path({str(tmp_path)!r})); print('open', flush=True); input()"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe) as other:
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(InvalidArgument, match="is being written by another process"):
            opened(tmp_path)
        other.kill()
    assert opened(tmp_path).data["status"] == "training"


def test_a_folder_without_a_run_is_refused_in_one_line(tmp_path):
    with pytest.raises(InvalidArgument, match="is no run folder") as caught:
        read_run(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(InvalidArgument, match="cannot make"):
        opened(tmp_path / "run")


def test_facts_are_added_whole_and_what_is_not_a_number_is_null(tmp_path):
    run = opened(tmp_path)
    run.note(best={"value": math.nan}, eligible=True)
    run.append("metrics", {"update": 1, "loss": math.inf, "deep": [math.nan, 1.0]})
    assert run.data["best"] == {"value": None}
    assert run.rows("metrics") == [{"update": 1, "loss": None, "deep": [None, 1.0]}]
    assert [path.name for path in tmp_path.glob("*.tmp")] == []


def test_wall_time_is_that_of_all_sessions(tmp_path):
    first = opened(tmp_path)
    first.note(sessions_s=[60.0])
    second = opened(tmp_path)
    second.clock()
    sessions = second.data["sessions_s"]
    assert sessions[0] == 60.0
    assert second.data["wall_s"] == pytest.approx(sum(sessions))
    assert len(sessions) == 2


@given(update=st.integers(0, 5))
def test_rewinding_keeps_what_lies_up_to_the_checkpoint_and_nothing_else(tmp_path_factory, update):
    run = opened(tmp_path_factory.mktemp("run"))
    (run.folder / "episodes").mkdir()
    run.episodes("validation-start").write_text("")
    for at in range(6):
        run.append("metrics", {"update": at})
        run.append("validation", row(at))
        run.policy(at).mkdir(parents=True)
        (run.policy(at) / "adapter").write_text("")
        run.episodes(f"validation-{run.policy(at).name}").write_text("")
    with (run.folder / "metrics.jsonl").open("a") as lines:
        lines.write('{"update": 6, "lo')
    run.rewind(update, update)
    kept = list(range(update + 1))
    assert [r["update"] for r in run.rows("metrics")] == kept
    assert [r["update"] for r in run.rows("validation")] == kept
    names = {f"update-{at:06d}" for at in kept}
    assert {path.name for path in (run.folder / "policies").iterdir()} == names
    files = {path.stem for path in (run.folder / "episodes").iterdir()}
    assert files == {"validation-start"} | {f"validation-{name}" for name in names}


def test_a_log_stays_as_it_was_where_rewinding_finds_no_room(tmp_path, monkeypatch):
    run = opened(tmp_path)
    for at in range(4):
        run.append("validation", row(at))

    def half(path, text, **_):
        path.write_bytes(text[:3].encode())
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as changed:
        changed.setattr("pathlib.Path.write_text", half)
        with pytest.raises(OSError, match="No space"):
            run.rewind(2, 2)
    assert [r["update"] for r in run.rows("validation")] == [0, 1, 2, 3]


def test_rewinding_between_two_phases_keeps_the_step_that_was_taken(tmp_path):
    run = opened(tmp_path)
    for step in range(1, 7):
        run.append("metrics", {"update": -(-step // 2), "step": step})
        run.append("validation", row(step))
    run.rewind(1, 3)
    assert [r["step"] for r in run.rows("metrics")] == [1, 2, 3]
    assert [r["update"] for r in run.rows("validation")] == [1]


def test_a_run_does_not_go_on_from_other_weights_under_the_same_path(tmp_path):
    start = tmp_path / "start"
    start.mkdir()
    (start / "model.safetensors").write_bytes(b"old")
    known = {"kind": "grpo", "task": "t", "start": str(start)}
    open_run(tmp_path / "run", CONFIG, **known).append("metrics", {"update": 1})
    open_run(tmp_path / "run", CONFIG, **known)
    (start / "model.safetensors").write_bytes(b"new")
    with pytest.raises(InvalidArgument, match="began from other weights than"):
        open_run(tmp_path / "run", CONFIG, **known)


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_told_and_used(tmp_path, monkeypatch, code):
    def refuse(*_):
        raise OSError(code, "no locks")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.warns(UserWarning, match="one run at a time"):
        assert opened(tmp_path).data["status"] == "training"


def test_the_best_update_is_no_high_risk_regression_and_not_the_start():
    rows = [row(0, 0.9), row(10, 0.3), row(20, 0.5, "FLAG"), row(30, 0.4, "UNCLEAR"), row(40, 0.4)]
    assert best_row(rows)["update"] == 30
    assert best_row([row(0, 0.9), row(10, 0.5, "FLAG")]) is None
    assert best_row([row(0, 0.9), row(10, 0.1, "SKIPPED")])["update"] == 10


def test_only_the_first_process_writes_and_speaks(tmp_path, monkeypatch, capsys):
    run = opened(tmp_path)
    before = json.dumps(run.data)
    monkeypatch.setenv("RANK", "1")
    assert process() == (1, 1)
    run.note(status="finished")
    run.append("metrics", {"update": 1})
    run.rewind(0, 0)
    run.say("hello")
    assert json.dumps(run.data) == before
    assert not (tmp_path / "metrics.jsonl").exists()
    assert capsys.readouterr() == ("", "")
