"""`--policy openai:URL#MODEL` in the commands, against a real server on the loopback."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("httpx", reason="pip install 'clinical-envs[agents]'")

from clinical_envs import load_task, read_episodes
from oracles.clinical import ClinicalWorld
from tests.endpoint.fake_server import FakeEndpoint, hang, status
from tests.endpoint.speakers import OracleSpeaker, SeededSpeaker, first_finding

SECRET = "sk-very-secret-0123456789"
TASK = load_task("titration")


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def server():
    with FakeEndpoint(lambda body: first_finding(body["messages"])) as fake:
        yield fake


def test_evaluate_measures_an_endpoint_as_the_policy_that_it_speaks(run_json):
    oracle = OracleSpeaker(TASK)
    with FakeEndpoint(lambda body: oracle(body["messages"])) as server:
        found = run_json("evaluate", "titration", "--policy", server.spec, "-k", 1)
    expected = run_json("evaluate", "titration", "--policy", "oracle", "-k", 1)
    used = found.pop("endpoint")
    assert found.pop("policy") == server.spec
    assert expected.pop("policy") == "oracle"
    assert found == expected
    assert used == {
        "requests": len(server.seen),
        "prompt_tokens": 7 * len(server.seen),
        "completion_tokens": 3 * len(server.seen),
        "retries": 0,
        "max_tokens": 1024,
        "json_schema": False,
        "left_out": [],
    }


def test_evaluate_prints_requests_and_tokens_at_the_end(run, server):
    server.faults.append(status(422, {"detail": "no seed, please"}))
    result = run("evaluate", "titration", "--policy", server.spec, "-k", 1, "--max-tokens", 50)
    line = " ".join(result.stdout.split()).partition("endpoint: ")[2]
    assert line == (
        "120 requests in this run, 0 attempts repeated; 840 prompt and 360 completion tokens, at "
        "most 50 a turn; no JSON schema; takes no seed"
    )
    assert result.stderr == f"{server.url}/v1: takes no seed; its own defaults decide there\n"


def test_a_json_schema_is_said_wherever_the_policy_is_named(run_json, run, server, tmp_path):
    file = tmp_path / "episodes.jsonl"
    command = ("evaluate", "titration", "--policy", server.spec, "-k", 1, "--json-schema")
    found = run_json(*command, "--out", file)
    named = f"{server.spec} with a JSON schema"
    assert found["policy"] == named
    assert found["endpoint"]["json_schema"] is True
    assert all("response_format" in body for body in server.seen)
    played = read_episodes(file).episodes
    assert {(e.policy, e.meta["json_schema"]) for e in played} == {(named, True)}
    audited = run_json("audit", file)
    assert [policy["policy"] for policy in audited["policies"]] == [named]
    assert "turns held to a JSON schema" in run(*command).stdout


def test_gates_take_an_endpoint(run_json, server):
    command = ("gates", "titration", "--policy", server.spec, "-k", 1, "--json-schema")
    found = run_json(*command, "--max-tokens", 60, code=1)
    world = ClinicalWorld(TASK)
    assert found["policy"] == f"{server.spec} with a JSON schema"
    assert [gate["passed"] for gate in found["gates"]] == [True, False]
    assert {body["max_tokens"] for body in server.seen} == {60}
    assert len(server.seen) == 2 * len(world.cases("validation"))


@pytest.mark.parametrize("command", ["evaluate", "gates"])
def test_a_model_that_is_not_there_is_refused_with_what_is(error, server, tmp_path, command):
    file = ("--out", tmp_path / "e.jsonl") if command == "evaluate" else ()
    says = error(command, "titration", "--policy", f"openai:{server.url}#n", *file)
    assert says == f"{server.url}/v1 has no model 'n'; it has 'm'"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["evaluate", "gates"])
@pytest.mark.parametrize("option", [("--json-schema",), ("--max-tokens", 9)])
def test_options_of_endpoints_are_refused_for_other_policies(error, command, option):
    says = error(command, "titration", "--policy", "oracle", *option)
    assert "give --policy openai:URL#MODEL" in says


@pytest.mark.parametrize("command", ["evaluate", "gates"])
def test_without_the_client_one_line_says_what_to_install(error, monkeypatch, command):
    monkeypatch.setitem(sys.modules, "httpx", None)
    says = error(command, "titration", "--policy", "openai:http://127.0.0.1:9#m")
    assert says == "httpx is not installed; run: pip install 'clinical-envs[agents]'"


@pytest.mark.parametrize("command", ["evaluate", "gates"])
def test_the_help_names_endpoints(run, command):
    assert "openai:URL#MODEL" in " ".join(run(command, "--help").stdout.split())


def test_the_key_is_in_no_output_and_no_file(run, server, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    file = tmp_path / "episodes.jsonl"
    command = ("evaluate", "titration", "--policy", server.spec, "-k", 1, "--out", file)
    results = [run(*command, "--json"), run(*command)]
    server.model_faults.append(status(401, {"error": {"message": f"bad key {SECRET}"}}))
    results.append(run(*command, code=2))
    assert set(server.keys) == {f"Bearer {SECRET}"}
    assert "bad key ***" in results[-1].stderr
    texts = [file.read_text(), *(r.stdout + r.stderr for r in results)]
    assert not [text for text in texts if SECRET in text]


def test_a_failure_says_what_is_kept_and_the_same_command_goes_on(run, tmp_path):
    file, whole = tmp_path / "episodes.jsonl", tmp_path / "whole.jsonl"
    with FakeEndpoint(SeededSpeaker(TASK)) as server:
        command = ("evaluate", "titration", "--policy", server.spec, "-k", 4, "--out")
        run(*command, whole)
        server.faults.extend([*[None] * 300, *[status(400)] * 99])
        failed = run(*command, file, code=2)
        assert failed.stdout == ""
        first, last = failed.stderr.splitlines()
        assert first == (f"stopped: {file} keeps what was played; run the same command to go on")
        assert last.startswith(f"error: {server.url}/v1 refused the request with status 400")
        assert 0 < len(file.read_text().splitlines()) < 240
        server.faults.clear()
        run(*command, file)
    assert sorted(file.read_text().splitlines()) == sorted(whole.read_text().splitlines())


def start(command, environment, server, file):
    arguments = ["evaluate", "titration", "--policy", server.spec, "-k", "4", "--out", str(file)]
    return subprocess.Popen(
        [*command, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def await_lines(process, file, wanted):
    deadline = time.monotonic() + 60
    while not file.exists() or file.read_bytes().count(b"\n") < wanted:
        assert process.poll() is None, "it ended before it could be stopped"
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_killed_run_goes_on_with_nothing_lost_or_doubled(run, tmp_path, command, environment):
    speaker = SeededSpeaker(TASK)

    def slowly(body):
        time.sleep(0.01)
        return speaker(body)

    file, whole = tmp_path / "killed.jsonl", tmp_path / "whole.jsonl"
    with FakeEndpoint(slowly) as server:
        process = start(command, environment, server, file)
        await_lines(process, file, 40)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        kept = file.read_text().splitlines()[:40]
        server.speak = speaker
        same = ("evaluate", "titration", "--policy", server.spec, "-k", 4, "--out")
        run(*same, file)
        run(*same, whole)
    assert sorted(file.read_text().splitlines()) == sorted(whole.read_text().splitlines())
    assert file.read_text().splitlines()[:40] == kept
    assert len(whole.read_text().splitlines()) == 240


def test_an_interrupt_ends_a_run_whose_server_hangs(tmp_path, command, environment):
    file = tmp_path / "stopped.jsonl"
    with FakeEndpoint(SeededSpeaker(TASK)) as server:
        server.faults.extend([*[None] * 200, *[hang] * 999])
        process = start(command, environment, server, file)
        await_lines(process, file, 32)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "")
    assert err == f"stopped: {file} keeps what was played; run the same command to go on\n"
    assert all(json.loads(line)["policy"] == server.spec for line in file.read_text().splitlines())
