"""What the judges are given: a bad line is named before anything is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clinical_envs.errors import InvalidArgument
from training.judges.files import Answer, Cited, Pair, read_lines

RUBRIC = [{"criterion": "Names the drug", "weight": 2}]
GOOD: dict[type, dict[str, Any]] = {
    Answer: {"prompt": "p", "question": "q", "answer": "a", "rubric": RUBRIC},
    Pair: {"prompt": "p", "question": "q", "left": "l", "right": ""},
    Cited: {"prompt": "p", "answer": "It helps. It is safe.", "passages": ["It helps."]},
}


def write(path: Path, *lines: object) -> Path:
    path.write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    )
    return path


@pytest.mark.parametrize("kind", GOOD)
def test_a_line_of_required_keys_is_read(tmp_path: Path, kind: type) -> None:
    (line,) = read_lines(write(tmp_path / "f", GOOD[kind], "", "  "), kind)
    assert line.prompt == "p"


@pytest.mark.parametrize(
    ("kind", "change", "says"),
    [
        (Answer, {"rubric": []}, "rubric: List should have at least 1 item"),
        (Answer, {"rubric": [{"criterion": "x", "weight": 0}]}, "every weight of the rubric is 0"),
        (Answer, {"rubric": [{"criterion": ""}]}, "rubric.0.criterion"),
        (Answer, {"rubric": [{"criterion": "x", "weight": float("nan")}]}, "rubric.0.weight"),
        (Answer, {"rubric": ["x"]}, "rubric.0"),
        (Answer, {"training": [True, False]}, "2 training verdicts for 1 criteria"),
        (Answer, {"training": ["yes"]}, "training.0"),
        (Answer, {"answer": None}, "answer: Input should be a valid string"),
        (Answer, {"weights": [1]}, "weights: Extra inputs are not permitted"),
        (Answer, {"step": -1}, "step"),
        (Pair, {"left": 3}, "left"),
        (Cited, {"passages": "It helps."}, "passages"),
        (Cited, {"truth": ["ENTAIL"]}, "1 labels under truth for 2 claims"),
        (Cited, {"claims": ["c"], "truth": ["SUPPORTS"]}, "truth.0"),
    ],
)
def test_a_line_that_breaks_a_rule_is_named_with_file_line_and_field(
    tmp_path: Path, kind: type, change: dict[str, Any], says: str
) -> None:
    path = write(tmp_path / "f.jsonl", GOOD[kind], GOOD[kind] | {"prompt": "other"} | change)
    with pytest.raises(InvalidArgument) as refused:
        read_lines(path, kind)
    assert f"{path}, line 2: " in str(refused.value)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("line", ["{", "[1]", "\x00", '{"prompt": "p"}', "[" * 100_000])
def test_something_else_than_such_a_line_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(InvalidArgument, match="line 1"):
        read_lines(write(tmp_path / "f", line), Pair)


def test_a_repeated_line_is_named_with_the_first(tmp_path: Path) -> None:
    later = GOOD[Answer] | {"step": 25}
    assert len(read_lines(write(tmp_path / "f", GOOD[Answer], later), Answer)) == 2
    with pytest.raises(InvalidArgument, match="line 3: repeats the prompt of line 1"):
        read_lines(write(tmp_path / "f", GOOD[Answer], later, GOOD[Answer]), Answer)
    rollouts = [GOOD[Cited], GOOD[Cited] | {"rollout": 1}, GOOD[Cited] | {"prompt": 1}]
    assert len(read_lines(write(tmp_path / "f", *rollouts), Cited)) == 3


def test_an_empty_or_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="has no lines"):
        read_lines(write(tmp_path / "f", ""), Pair)
    with pytest.raises(InvalidArgument, match="cannot be read"):
        read_lines(tmp_path / "none", Pair)


def test_claims_are_split_by_rule_where_they_are_not_given() -> None:
    assert list(Cited.model_validate(GOOD[Cited]).stated) == ["It helps.", "It is safe."]
    own = Cited.model_validate(GOOD[Cited] | {"claims": ["It helps and is safe"]})
    assert list(own.stated) == ["It helps and is safe"]
