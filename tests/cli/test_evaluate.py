from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from clinical_envs import read_episodes
from oracles import make_world

KEYS = {
    "value",
    "regret",
    "oracle_gap",
    "support_at_k",
    "chance_floor",
    "pass_pow_k",
    "greedy_value",
    "mean_asks",
    "one_ask_rate",
    "parse_failure_rate",
    "n_cases",
    "k",
}


@pytest.fixture
def at_home(tmp_path, monkeypatch):
    """A current directory with the user's module in it."""
    shutil.copy(Path(__file__).with_name("my_policies.py"), tmp_path / "my_policies.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # restores sys.path, which the command extends
    return tmp_path


def test_metrics_as_json_have_the_published_keys_overall_and_in_every_part(run_json):
    found = run_json("evaluate", "titration", "--policy", "oracle", "-k", 2, "--greedy")
    assert set(found) >= KEYS | {"groups", "families"}
    assert set(found["groups"]) == {"high_clot", "other"}
    assert set(found["families"]) == {"anticoagulation"}
    parts = [*found["groups"].values(), *found["families"].values()]
    assert all(set(part) >= KEYS for part in parts)
    assert (found["n_cases"], found["k"]) == (60, 2)
    assert found["regret"] == pytest.approx(0.0, abs=1e-9)
    assert found["support_at_k"] == found["pass_pow_k"] == 1.0
    assert found["greedy_value"] == pytest.approx(found["value"])


def test_what_was_not_played_is_null_and_not_zero(run_json):
    found = run_json("evaluate", "titration", "--policy", "best_constant", "-k", 1)
    assert found["greedy_value"] is None
    assert found["mean_asks"] == 0.0


def test_metrics_as_a_table_name_groups_families_and_decisions(run):
    printed = run("evaluate", "refill", "--policy", "1_ask", "-k", 1).stdout
    for name in ("60 cases", "benign", "nsaid", "support@k", "approve_short_with_labs"):
        assert name in printed


@pytest.mark.parametrize("set_name", ["heldout", "validation"])
def test_the_named_set_is_played_k_times_a_case(run, tmp_path, set_name):
    file = tmp_path / "new" / "episodes.jsonl"
    run("evaluate", "titration", "--policy", "1_ask", "--set", set_name, "-k", 2, "--out", file)
    played = read_episodes(file)
    cases = make_world("titration").cases(set_name)
    assert played.damaged == []
    assert [(e.case.index, e.rollout) for e in played.episodes] == [
        (case.index, rollout) for case in cases for rollout in range(2)
    ]


def test_a_function_of_the_current_directory_is_a_policy(run_json, at_home):
    found = run_json("evaluate", "titration", "--policy", "my_policies:text", "-k", 1)
    assert found["parse_failure_rate"] == 0.5
    assert found["policy"] == "my_policies:text"


def test_a_policy_that_returns_no_action_is_refused(error, at_home):
    says = error("evaluate", "titration", "--policy", "my_policies:number", "-k", 1)
    assert "returned 3" in says


def test_a_bug_in_a_users_policy_keeps_its_traceback(run, at_home):
    with pytest.raises(KeyError, match="not asked"):
        run("evaluate", "titration", "--policy", "my_policies:broken", "-k", 1)


def test_an_unexpected_error_is_no_answer(command, environment, at_home):
    played = ["gates", "titration", "--policy", "my_policies:broken", "-k", "1"]
    done = subprocess.run(
        [*command, *played], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 3
    assert "KeyError" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which Linux has")
def test_a_full_disk_is_told_in_one_line(error):
    says = error("evaluate", "titration", "--policy", "1_ask", "-k", 1, "--out", "/dev/full")
    assert "No space left on device; make room" in says


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--policy", "orcle"), "did you mean 'oracle'?"),
        (("--policy", "my_policies:nothing"), "give module:function"),
        (("--policy", "no_module:act"), "No module named 'no_module'"),
        (("--policy", "my_policies:of_a_view"), "as (view, rng): too many positional arguments"),
        (("--policy", "oracle", "--set", "tests"), "did you mean 'test'?"),
        (("--policy", "oracle", "-k", 0), "at least one rollout"),
    ],
)
def test_nonsense_is_refused_and_leaves_no_file(error, at_home, arguments, says):
    assert says in error("evaluate", "titration", *arguments, "--out", "episodes.jsonl")
    assert not Path("episodes.jsonl").exists()


def test_a_file_of_another_policy_is_not_continued(run, error, tmp_path):
    file = tmp_path / "episodes.jsonl"
    run("evaluate", "titration", "--policy", "1_ask", "-k", 1, "--out", file)
    before = file.read_bytes()
    says = error("evaluate", "titration", "--policy", "2_ask", "-k", 1, "--out", file)
    assert "choose another file" in says
    says = error("evaluate", "titration", "--policy", "1_ask", "--set", "test", "--out", file)
    assert "1_ask on ClinicalTitration-v0@1.0.0 (heldout)" in says
    assert "not of 1_ask on ClinicalTitration-v0@1.0.0 (test)" in says
    assert file.read_bytes() == before


def test_a_run_killed_twice_resumes_with_nothing_lost_or_doubled(
    run, at_home, command, environment
):
    evaluate = ["evaluate", "titration", "--policy", "my_policies:slow", "-k", "4", "--out"]
    file = at_home / "killed.jsonl"
    for wanted in (40, 110):
        process = subprocess.Popen(
            [*command, *evaluate, str(file)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 60
        while not file.exists() or file.read_bytes().count(b"\n") < wanted:
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
        assert process.wait() == -signal.SIGKILL
        assert wanted <= file.read_bytes().count(b"\n") < 240
        with file.open("ab") as lines:
            lines.write('{"schema": 1, "task": "ClinicalTitra\N{HEAVY CHECK MARK}'.encode()[:-1])
    run(*evaluate, file)
    whole = at_home / "whole.jsonl"
    run(*evaluate, whole)
    assert file.read_text() == whole.read_text()
    assert len(whole.read_text().splitlines()) == 240
    before = file.read_bytes()
    run(*evaluate, file)
    assert file.read_bytes() == before


def test_an_interrupt_says_how_to_go_on(at_home, command, environment):
    file = at_home / "stopped.jsonl"
    process = subprocess.Popen(
        [*command, "evaluate", "titration", "--policy", "my_policies:slow", "--out", str(file)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not file.exists() or file.read_bytes().count(b"\n") < 5:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert "run the same command to go on" in err
    assert "Traceback" not in err
