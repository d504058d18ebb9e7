"""A task file is plain YAML data, small, UTF-8; anything else is refused on one line."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clinical_envs.catalog import MAX_FILE_BYTES, check_task_text, load_task, read_yaml
from clinical_envs.errors import ClinicalEnvsError, InvalidArgument, InvalidTask, UnknownTask
from clinical_envs.task import Task
from tests.core.small_task import SMALL_TASK, as_yaml, load_text, refusal, small_task
from tests.strategies import task_data


def test_a_shipped_file_and_the_small_file_load_without_a_problem(tmp_path: Path) -> None:
    assert load_text(tmp_path, SMALL_TASK).digest == small_task().digest


def test_a_hand_written_yes_or_no_branch_stays_a_word(tmp_path: Path) -> None:
    branch = load_text(tmp_path, SMALL_TASK).model_dump()["checklist"]["child"]
    assert branch == {
        "ask": "trismus",
        "yes": {"commit": "refer"},
        "no": {"commit": "reassure"},
    }


@settings(max_examples=30)
@given(task_data(certain=True))
def test_every_generated_task_survives_a_yaml_file(data: dict[str, Any]) -> None:
    text = as_yaml(data)
    task, problems = check_task_text(text, "generated.yaml")
    assert problems == []
    assert task is not None
    assert task.digest == Task.model_validate(data).digest


NOT_PLAIN = {
    "anchor": (SMALL_TASK.replace("[low, urgent]", "&groups [low, urgent]"), "anchors and aliases"),
    "alias": ("a: &x 1\nb: *x\n", "anchors and aliases"),
    "bomb": (
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n"
            for a, b in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "anchors and aliases",
    ),
    "python tag": ("id: !!python/object/apply:os.system ['true']\n", "tag"),
    "own tag": ("id: !secret x\n", "tag '!secret' is not allowed"),
    "standard tag": ("id: !!str x\n", "tag 'tag:yaml.org,2002:str' is not allowed"),
    "merge key": ("<<: {id: x}\n", "line 1"),
    "repeated key": (SMALL_TASK + "turn_cap: 4\n", "key 'turn_cap' stands twice"),
    "repeated key below": (
        SMALL_TASK.replace("prior: 0.25,", "prior: 0.25, prior: 0.25,"),
        "line 11: key 'prior' stands twice",
    ),
    "repeated family": (
        SMALL_TASK.replace("child: [0.3, 0.3, 0.3]", "adult: [0.3, 0.3, 0.3]"),
        "key 'adult' stands twice",
    ),
    "flow nesting": ("[" * 100_000, "nested deeper than 60 levels"),
    "block nesting": ("- " * 100_000, "nested deeper than 60 levels"),
    "nested mappings": ("{a: " * 100, "nested deeper than 60 levels"),
    "unclosed bracket": ("id: [x\n", "line 2"),
    "tab": ("id:\n\tx: 1\n", "cannot start any token"),
    "two documents": ("id: x\n---\nid: y\n", "single document"),
    "integer beyond Python": (
        SMALL_TASK.replace("turn_cap: 3", "turn_cap: " + "9" * 5000),
        "line 26: '999999999999...9999999999999' is no integer",
    ),
    "integer without digits": ("id: x\nturn_cap: 0x_\n", "line 2: '0x_' is no integer"),
    "key that is a list": ("? [a, b]\n: 1\n", "unhashable key"),
    "NUL": ("id: \x00\n", "special characters are not allowed"),
    "nothing": ("", "a mapping of fields"),
    "a comment": ("# later\n", "a mapping of fields"),
    "a word": ("hello", "a mapping of fields"),
    "a list": ("- 1\n- 2\n", "a mapping of fields"),
}


@pytest.mark.parametrize("what", NOT_PLAIN)
def test_yaml_beyond_plain_data_is_refused_at_once(what: str, tmp_path: Path) -> None:
    text, fragment = NOT_PLAIN[what]
    start = time.perf_counter()
    assert fragment in refusal(tmp_path, text)
    assert time.perf_counter() - start < 5.0


def test_only_true_and_false_are_booleans_and_dates_are_text() -> None:
    text = "[yes, no, on, Off, y, true, False, 2026-01-01, null, 3, 0.5]"
    words = ["yes", "no", "on", "Off", "y", True, False, "2026-01-01", None, 3, 0.5]
    assert read_yaml(text) == words
    with pytest.raises(ValueError, match="line 2: key 'a' stands twice"):
        read_yaml("b:\n  {a: 1, a: 2}")


MANY: dict[str, tuple[str, str]] = {
    "fields": ("".join(f"a{i}: 1\n" for i in range(5_000)), "a0: unknown field"),
    "fields of one name": (
        SMALL_TASK + "".join(f"a{i}: 1\n" for i in range(5_000)) + "a0: 1\n",
        "line 1: key 'a0' stands twice",
    ),
    "states": (
        SMALL_TASK.replace(
            "risk_groups: [",
            "".join(f"  - {{id: s{i}, risk_group: low, prior: 0}}\n" for i in range(2_000))
            + "risk_groups: [",
        ),
        "states.s0.text: missing",
    ),
    "hedges": (
        SMALL_TASK.replace("hedges: [", f"hedges: [{'antibiotic, ' * 20_000}"),
        "hedges: 'antibiotic' stands twice",
    ),
}


@pytest.mark.parametrize("what", MANY)
def test_a_long_file_is_refused_in_time_that_grows_with_its_length(what: str) -> None:
    text, fragment = MANY[what]
    start = time.process_time()
    _, problems = check_task_text(text, "mine.yaml")
    assert fragment in problems[0]
    assert time.process_time() - start < 20.0


@given(st.text() | st.text(alphabet="ab:-[]{}?&*!|>%@`\"'#,.01_x \n\t~=<"))
def test_any_text_gives_a_task_or_problems_of_one_line(text: str) -> None:
    task, problems = check_task_text(text, "mine.yaml")
    assert task is None
    assert problems
    for problem in problems:
        assert problem.splitlines() == [problem]


def test_a_file_of_more_than_a_megabyte_is_refused_unread(tmp_path: Path) -> None:
    with pytest.raises(InvalidTask, match="larger than 1000000 bytes"):
        load_text(tmp_path, "#" + "x" * MAX_FILE_BYTES)


def test_a_file_that_is_not_utf8_or_not_a_file_is_refused(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"title: \xe9\n")
    with pytest.raises(InvalidTask, match="cannot be read as UTF-8"):
        load_task(latin)
    folder = tmp_path / "folder.yaml"
    folder.mkdir()
    with pytest.raises(InvalidTask, match="cannot be read"):
        load_task(folder)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("dx", "known: 'diagnostics', 'refill', 'titration'"),
        ("diagnostic", "did you mean 'diagnostics'?"),
        ("ClinicalDX-v0", "did you mean 'ClinicalDx-v0'?"),
        ("titrat\u0456on", "did you mean 'titration'?"),
        ("", "known: 'diagnostics'"),
        ("no/such/file.yaml", "check the path"),
        ("two\nlines", "known: 'diagnostics'"),
    ],
)
def test_an_unknown_task_is_named_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(UnknownTask) as caught:
        load_task(name)
    message = str(caught.value)
    assert repr(name) in message
    assert hint in message
    assert message.splitlines() == [message]


@pytest.mark.parametrize("name", ["x" * 5000, "x" * 5000 + ".yaml", "a\0", "a\0.yaml"])
def test_a_name_that_no_file_can_have_is_an_unknown_task(name: str) -> None:
    with pytest.raises(UnknownTask) as caught:
        load_task(name)
    assert len(str(caught.value)) < 1000


def test_a_version_is_loaded_where_it_is_the_one_that_is_here() -> None:
    task = load_task("ClinicalDx-v0")
    assert load_task(task.key) is task
    assert load_task(f"diagnostics@{task.version}") is task
    with pytest.raises(UnknownTask) as caught:
        load_task("ClinicalDx-v0@9.9.9")
    message = f"ClinicalDx-v0@9.9.9 is not here; this installation has {task.key}"
    assert str(caught.value) == message


def test_a_wrong_finding_or_decision_name_is_answered_with_the_nearest() -> None:
    task = load_task("diagnostics")
    with pytest.raises(InvalidArgument, match=r"no finding 'fevr'; did you mean 'fever'\?"):
        task.finding("fevr")
    with pytest.raises(
        InvalidArgument, match=r"no decision 'urgent_admt'; did you mean 'urgent_admit'\?"
    ):
        task.decision("urgent_admt")
    assert task.finding_ids[task.finding("fever")] == "fever"
    assert task.decision_ids[task.decision("discharge")] == "discharge"


def test_every_refusal_is_in_the_one_tree_and_a_standard_error_too() -> None:
    assert issubclass(InvalidTask, ClinicalEnvsError)
    assert issubclass(InvalidTask, ValueError)
    assert issubclass(UnknownTask, ClinicalEnvsError)
    assert issubclass(UnknownTask, LookupError)
