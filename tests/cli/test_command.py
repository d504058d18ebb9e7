"""The command as a process: quick help, quiet pipes, exit codes, nothing but JSON on stdout."""

from __future__ import annotations

import json
import subprocess
from importlib.metadata import version

import pytest

from clinical_envs.episode import episode_schema

COMMANDS = (
    "tasks",
    "oracle",
    "play",
    "cases",
    "evaluate",
    "gates",
    "audit",
    "selftest",
    "schema",
    "demo",
)
HEAVY = ("scipy", "matplotlib", "gymnasium", "torch", "numpy", "clinical_envs")


def test_the_help_names_every_command_and_the_exit_codes(run):
    printed = run("--help").stdout
    assert all(command in printed for command in COMMANDS)
    assert "Exit codes" in printed


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(run, command):
    assert f"clinical-envs {command}" in run(command, "--help").stdout.replace("root", "")


@pytest.mark.parametrize("arguments", [["--help"], ["tasks", "--help"], ["evaluate", "--help"]])
def test_help_loads_nothing_heavy(command, environment, arguments):
    script = (
        "import sys, atexit\n"
        f"loaded = lambda: [m for m in {HEAVY} if m in sys.modules]\n"
        "atexit.register(lambda: sys.stderr.write(repr(loaded())))\n"
        f"sys.argv[1:] = {arguments}\n" + command[2]
    )
    done = subprocess.run(
        [command[0], "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == "[]"
    assert "Usage" in done.stdout


def test_the_version_is_that_of_the_distribution(run):
    assert run("--version").stdout == f"clinical-envs {version('clinical-envs')}\n"


def test_the_schema_of_an_episode_is_printed(run):
    assert json.loads(run("schema", "episode").stdout) == episode_schema()


@pytest.mark.parametrize("arguments", [("schema", "episod"), ("tsks",), ("tasks", "--jso")])
def test_unknown_commands_and_options_end_with_code_2(run, arguments):
    assert "No such" in run(*arguments, code=2).stderr


def test_a_closed_pipe_is_quiet(command, environment):
    for arguments in (["schema", "episode"], ["tasks", "show", "diagnostics"]):
        process = subprocess.Popen(
            [*command, *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        process.stdout.close()
        assert process.stderr.read() == b""
        process.stderr.close()
        process.wait(timeout=60)


def test_json_is_all_of_stdout_and_an_error_is_one_line_of_stderr(command, environment):
    def call(*arguments):
        return subprocess.run(
            [*command, *arguments], env=environment, capture_output=True, text=True, check=False
        )

    good = call("evaluate", "titration", "--policy", "1_ask", "-k", "1", "--json")
    assert (good.returncode, good.stderr) == (0, "")
    assert json.loads(good.stdout)["n_cases"] == 60
    bad = call("evaluate", "titration", "--policy", "1_aks", "--json")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == "error: no policy '1_aks'; did you mean '1_ask'?\n"


def test_colours_can_be_turned_off(command, environment):
    forced = environment | {"FORCE_COLOR": "1"}
    texts = [
        subprocess.run(
            [*command, "tasks", "show", "dx"], env=env, capture_output=True, text=True, check=False
        ).stderr
        for env in (forced, forced | {"NO_COLOR": "1"})
    ]
    assert "\x1b[1;31m" in texts[0]
    assert "31m" not in texts[1]
