"""Episodes survive a round trip, and a damaged line is named, never dropped."""

from __future__ import annotations

import io
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.episode import (
    MAX_LINE_CHARS,
    AskTurn,
    CaseRef,
    CommitTurn,
    DamagedLine,
    Episode,
    EpisodeFile,
    InvalidTurn,
    KeyMapping,
    episode_schema,
    read_episodes,
    read_mapping,
    write_episodes,
)
from clinical_envs.errors import InvalidArgument
from clinical_envs.verifier import verify
from tests.core.small_task import small_task
from tests.strategies import episodes

GOOD: dict[str, Any] = {
    "schema": 1,
    "task": "SoreThroat-v0@1.0.0",
    "family": "child",
    "turns": [{"ask": "cough", "answer": True}, {"invalid": "empty"}, {"commit": "reassure"}],
}
GOOD_LINE = json.dumps(GOOD)

text = st.text(max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
foreign_keys = text.filter(lambda key: key not in {*Episode.model_fields, "schema"})
turns = st.one_of(
    st.builds(AskTurn, ask=text, answer=st.booleans()),
    st.builds(CommitTurn, commit=text),
    st.builds(InvalidTurn, invalid=text),
)
foreign_turn_keys = text.filter(lambda key: key not in {"ask", "answer", "commit", "invalid"})
records = st.fixed_dictionaries(
    {
        "task": text,
        "family": text,
        "turns": st.lists(turns, max_size=5).map(tuple),
    },
    optional={
        "case": st.builds(CaseRef, split=text, seed=st.integers(), index=st.integers(), hash=text),
        "state": text,
        "initial": st.dictionaries(text, st.booleans(), max_size=3),
        "policy": text,
        "rollout": st.integers(),
        "raw": st.lists(text, max_size=3).map(tuple),
        "meta": st.dictionaries(text, json_values, max_size=3),
    },
)


def _read(content: str | bytes, tmp_path: Path, mapping: KeyMapping | None = None) -> EpisodeFile:
    path = tmp_path / "episodes.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_episodes(path, mapping)


@given(records)
def test_any_record_survives_its_json(record: dict[str, Any]) -> None:
    episode = Episode(**record)
    line = episode.to_json()
    assert "\n" not in line
    assert Episode.model_validate_json(line) == episode
    assert Episode.model_validate(json.loads(line)) == episode


@given(episodes(small_task()))
def test_a_played_episode_survives_its_json_and_its_verdict_too(episode: Episode) -> None:
    again = Episode.model_validate_json(episode.to_json())
    assert again == episode
    assert verify(small_task(), again) == verify(small_task(), episode)


@given(st.dictionaries(foreign_keys, json_values))
def test_unknown_keys_are_kept(unknown: dict[str, Any]) -> None:
    episode = Episode.model_validate_json(json.dumps(unknown | GOOD))
    kept = json.loads(episode.to_json())
    assert {key: kept[key] for key in unknown} == unknown
    assert kept.items() >= GOOD.items()


@given(st.dictionaries(foreign_turn_keys, json_values), st.sampled_from(GOOD["turns"]))
def test_unknown_keys_of_a_turn_and_of_a_case_are_kept(
    unknown: dict[str, Any], turn: dict[str, Any]
) -> None:
    case = {"split": "test", "seed": 1, "index": 2, "hash": "x"}
    record = GOOD | {"turns": [unknown | turn], "case": {"of": unknown} | case}
    kept = json.loads(Episode.model_validate_json(json.dumps(record)).to_json())
    assert kept.items() >= record.items()


def test_what_is_no_number_is_kept_in_unknown_keys() -> None:
    numbers = {"reward": math.nan, "best": math.inf, "worst": [-math.inf]}
    turn = {"commit": "refer"} | numbers
    line = json.dumps(GOOD | numbers | {"turns": [turn], "meta": numbers})
    kept = json.loads(Episode.model_validate_json(line).to_json())
    for where in (kept, kept["turns"][0], kept["meta"]):
        assert math.isnan(where["reward"])
        assert (where["best"], where["worst"]) == (math.inf, [-math.inf])


def test_of_a_key_that_stands_twice_the_last_value_counts() -> None:
    line = GOOD_LINE.replace('"family": "child"', '"family": "child", "family": "adult"')
    assert Episode.model_validate_json(line).family == "adult"
    file = read_episodes(io.StringIO(line), KeyMapping())
    assert [episode.family for episode in file.episodes] == ["adult"]


def test_unknown_keys_named_like_methods_do_no_harm() -> None:
    unknown = {
        "schema_": 7,
        "to_json": 1,
        "greedy": True,
        "case_id": "x",
        "model_dump": 2,
        "__class__": 3,
    }
    episode = Episode.model_validate_json(json.dumps(GOOD | unknown))
    assert json.loads(episode.to_json()).items() >= unknown.items()
    assert episode.greedy is False
    assert episode.case_id is None


def test_absent_optional_fields_are_left_out_and_null_means_absent() -> None:
    nulls = dict.fromkeys(["case", "state", "initial", "policy", "rollout", "raw", "meta"])
    episode = Episode.model_validate_json(json.dumps(GOOD | nulls))
    assert episode == Episode.model_validate(GOOD)
    assert "null" not in episode.to_json()


@given(st.lists(episodes(small_task()), max_size=3))
def test_a_file_gives_back_what_was_written(written: list[Episode]) -> None:
    buffer = io.StringIO("".join(episode.to_json() + "\n" for episode in written))
    file = read_episodes(buffer)
    assert file.episodes == written
    assert file.damaged == []
    assert file.source == "<stream>"


def test_writing_says_how_many_and_reading_finds_them(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    written = [Episode.model_validate(GOOD | {"policy": name}) for name in ("caf\u00e9", "\u2028")]
    assert write_episodes(path, iter(written)) == 2
    assert read_episodes(path).episodes == written
    assert read_episodes(str(path)).source == str(path)
    assert write_episodes(path, []) == 0
    assert read_episodes(path) == EpisodeFile(source=str(path))


def test_an_empty_file_and_blank_lines_hold_nothing(tmp_path: Path) -> None:
    for content in ("", "\n", "\n  \n\t\n"):
        file = _read(content, tmp_path)
        assert (file.episodes, file.damaged) == ([], [])


def test_windows_line_ends_are_read(tmp_path: Path) -> None:
    file = _read(f"{GOOD_LINE}\r\n{GOOD_LINE}\r\n", tmp_path)
    assert len(file.episodes) == 2
    assert file.damaged == []


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    file = _read(b"\xef\xbb\xbf" + GOOD_LINE.encode() + b"\n", tmp_path)
    assert (len(file.episodes), file.damaged) == (1, [])


def test_a_file_cut_inside_a_character_keeps_its_good_lines(tmp_path: Path) -> None:
    line = Episode.model_validate(GOOD | {"raw": ["caf\u00e9"]}).to_json().encode()
    cut = line[: line.index("\u00e9".encode()) + 1]
    file = _read(line + b"\n" + cut, tmp_path)
    assert [episode.raw for episode in file.episodes] == [("caf\u00e9",)]
    assert file.damaged == [DamagedLine(line=2, reason="not UTF-8 text")]


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=4))
def test_bad_bytes_spoil_their_own_line_only(noise: list[bytes]) -> None:
    bad = [line.replace(b"\n", b"").replace(b"\r", b"") + b"\xff" for line in noise]
    with tempfile.TemporaryDirectory() as folder:
        file = _read(b"\n".join([*bad, GOOD_LINE.encode(), *bad]), Path(folder))
    assert file.episodes == [Episode.model_validate(GOOD)]
    assert {damaged.reason for damaged in file.damaged} == {"not UTF-8 text"}
    assert [damaged.line for damaged in file.damaged] == [
        number for number in range(1, 2 * len(bad) + 2) if number != len(bad) + 1
    ]


def test_a_stream_that_is_not_utf8_is_refused_on_one_line() -> None:
    stream = io.TextIOWrapper(io.BytesIO(GOOD_LINE.encode() + b"\n\xff\n"), encoding="utf-8")
    with pytest.raises(InvalidArgument, match="can't decode byte 0xff") as caught:
        read_episodes(stream)
    assert str(caught.value).splitlines() == [str(caught.value)]


def test_a_missing_end_of_line_loses_nothing(tmp_path: Path) -> None:
    assert len(_read(f"{GOOD_LINE}\n{GOOD_LINE}", tmp_path).episodes) == 2


def test_a_truncated_last_line_is_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    for length in range(1, len(GOOD_LINE)):
        file = _read(f"{GOOD_LINE}\n\n{GOOD_LINE[:length]}", tmp_path)
        assert len(file.episodes) == 1
        assert [damaged.line for damaged in file.damaged] == [3]


def _without(key: str) -> str:
    return json.dumps({name: value for name, value in GOOD.items() if name != key})


DAMAGED = {
    "not JSON": ("{'schema': 1}", "Invalid JSON"),
    "prose": ("episode 1 went well", "Invalid JSON"),
    "two objects": (GOOD_LINE + GOOD_LINE, "Invalid JSON"),
    "NUL": ("\x00", "Invalid JSON"),
    "null": ("null", "object"),
    "a list": ("[]", "object"),
    "a number": ("3", "object"),
    "a string": ('"' + "x" * 1000 + '"', "object"),
    "nested too deeply": ("[" * 100_000, "recursion"),
    "a newer schema": (json.dumps(GOOD | {"schema": 2}), "schema: Input should be 1"),
    "schema as text": (json.dumps(GOOD | {"schema": "1"}), "schema: Input should be 1"),
    "schema as fraction": (json.dumps(GOOD | {"schema": 1.0}), "schema: Input should be 1"),
    "schema is true": (json.dumps(GOOD | {"schema": True}), "schema: Input should be 1"),
    "schema is null": (json.dumps(GOOD | {"schema": None}), "schema: Input should be 1"),
    "no schema": (_without("schema"), 'schema: missing; write "schema": 1'),
    "schema by its inner name": (_without("schema")[:-1] + ', "schema_": 1}', "schema: missing"),
    "a name of two lines": (json.dumps(GOOD | {"initial": {"a\nb": "zz"}}), "initial.a b"),
    "an escaped lone surrogate": (json.dumps(GOOD | {"raw": ["\ud800"]}), "Invalid JSON"),
    "no task": (_without("task"), "task: Field required"),
    "no family": (_without("family"), "family: Field required"),
    "no turns": (_without("turns"), "turns: Field required"),
    "turns are text": (json.dumps(GOOD | {"turns": "ask"}), "turns"),
    "a turn of no kind": (
        json.dumps(GOOD | {"turns": [{"tokens": 3}]}),
        "turns.0: A turn has exactly one of 'ask', 'commit' and 'invalid'",
    ),
    "a turn is a word": (json.dumps(GOOD | {"turns": ["ask"]}), "turns.0: A turn has exactly one"),
    "an ask without answer": (
        json.dumps(GOOD | {"turns": [{"ask": "cough"}]}),
        "turns.0.ask.answer: Field required",
    ),
    "an answer that is none": (
        json.dumps(GOOD | {"turns": [{"ask": "cough", "answer": "maybe"}]}),
        "turns.0",
    ),
    "ask and commit in one turn": (
        json.dumps(GOOD | {"turns": [{"ask": "cough", "answer": True, "commit": "refer"}]}),
        "turns.0: A turn has exactly one",
    ),
    "commit and no invalid in one turn": (
        json.dumps(GOOD | {"turns": [{"commit": "refer", "invalid": None}]}),
        "turns.0: A turn has exactly one",
    ),
    "initial is a list": (json.dumps(GOOD | {"initial": ["cough"]}), "initial"),
    "case without index": (
        json.dumps(GOOD | {"case": {"split": "test", "seed": 1}}),
        "case.index: Field required",
    ),
    "rollout is a fraction": (json.dumps(GOOD | {"rollout": 1.5}), "rollout"),
    "family is a number": (json.dumps(GOOD | {"family": 3}), "family"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_line_is_named_by_number_with_a_short_reason(what: str, tmp_path: Path) -> None:
    line, fragment = DAMAGED[what]
    file = _read(f"{GOOD_LINE}\n\n{line}\n{GOOD_LINE}\n", tmp_path)
    assert len(file.episodes) == 2
    (damaged,) = file.damaged
    assert damaged.line == 3
    assert fragment in damaged.reason
    assert damaged.reason.splitlines() == [damaged.reason]
    assert len(damaged.reason) <= 200


@given(st.lists(st.text() | st.just(GOOD_LINE) | json_values.map(json.dumps), max_size=6))
def test_every_line_is_an_episode_or_damaged_or_blank(lines: list[str]) -> None:
    content = io.StringIO("\n".join(lines), newline="\n")
    blank = sum(not line.strip() for line in "\n".join(lines).split("\n"))
    file = read_episodes(content)
    total = len(file.episodes) + len(file.damaged)
    assert total + blank == len("\n".join(lines).split("\n"))
    assert [damaged.line for damaged in file.damaged] == sorted(
        {damaged.line for damaged in file.damaged}
    )


def test_a_line_of_a_megabyte_is_read_and_one_beyond_the_limit_is_named(tmp_path: Path) -> None:
    big = json.dumps(GOOD | {"raw": ["x" * 1_000_000]})
    too_big = json.dumps(GOOD | {"raw": ["x" * MAX_LINE_CHARS]})
    file = _read(f"{big}\n{too_big}\n{GOOD_LINE}\n", tmp_path)
    assert len(file.episodes) == 2
    (damaged,) = file.damaged
    assert damaged.line == 2
    assert damaged.reason == f"longer than {MAX_LINE_CHARS} characters"


def test_a_line_separator_inside_a_text_is_no_end_of_line(tmp_path: Path) -> None:
    record = GOOD | {"raw": ["a\u2028b\u0085c\x0bd"]}
    file = _read(json.dumps(record, ensure_ascii=False) + "\n", tmp_path)
    assert file.episodes[0].raw == ("a\u2028b\u0085c\x0bd",)


def test_a_file_that_cannot_be_opened_is_an_error_of_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.jsonl", tmp_path):
        with pytest.raises(InvalidArgument) as caught:
            read_episodes(path)
        message = str(caught.value)
        assert str(path) in message
        assert message.splitlines() == [message]


def test_the_schema_asks_for_what_the_reader_asks_for() -> None:
    schema = episode_schema()
    assert set(schema["required"]) == {"schema", "task", "family", "turns"}
    assert schema["properties"]["schema"]["const"] == 1
    assert schema["additionalProperties"] is True
    json.dumps(schema)


FOREIGN = {
    "env": {"name": "SoreThroat-v0@1.0.0", "info": {"presentation": "child"}},
    "steps": [
        {"action": {"question": "cough"}, "observation": {"present": True}, "tokens": 12},
        {"error": "empty"},
        {"action": {"final": "reassure"}},
    ],
    "label": None,
    "score": 0.5,
}
MAPPING = """
rename:
  task: env.name
  family: env.info.presentation
  turns: steps
  state: label
constants: {schema: 1, policy: theirs}
turns:
  ask: action.question
  answer: observation.present
  commit: action.final
  invalid: error
"""


def test_a_mapping_file_renames_foreign_keys_at_any_depth(tmp_path: Path) -> None:
    path = tmp_path / "mapping.yaml"
    path.write_text(MAPPING)
    file = _read(json.dumps(FOREIGN) + "\n", tmp_path, read_mapping(path))
    assert file.damaged == []
    (episode,) = file.episodes
    assert episode.turns == Episode.model_validate(GOOD).turns
    assert (episode.task, episode.family) == ("SoreThroat-v0@1.0.0", "child")
    assert episode.state is None
    assert episode.policy == "theirs"
    assert json.loads(episode.to_json())["score"] == 0.5
    assert verify(small_task(), episode).committed


def test_a_mapping_leaves_our_own_records_as_they_are(tmp_path: Path) -> None:
    file = _read(GOOD_LINE + "\n", tmp_path, KeyMapping())
    assert file.episodes == [Episode.model_validate(GOOD)]


def test_damaged_lines_are_named_under_a_mapping_too(tmp_path: Path) -> None:
    path = tmp_path / "mapping.yaml"
    path.write_text(MAPPING)
    without = {key: value for key, value in FOREIGN.items() if key != "env"}
    lines = ["null", "[1]", "{", "[" * 100_000, json.dumps(FOREIGN), json.dumps(without)]
    file = _read("\n".join(lines), tmp_path, read_mapping(path))
    assert len(file.episodes) == 1
    assert [damaged.line for damaged in file.damaged] == [1, 2, 3, 4, 6]
    reasons = [damaged.reason for damaged in file.damaged]
    assert reasons[:2] == ["not a JSON object"] * 2
    assert "recursion" in reasons[3]
    assert reasons[4] == "task: Field required"


def test_a_mapping_builds_nested_objects_from_dotted_names() -> None:
    mapping = KeyMapping(
        rename={"case.seed": "seed", "case.index": "row.number", "meta.run.id": "run"},
        constants={"case.split": "test", "meta.greedy": True},
        turns={"commit": "final", "meta.cost": "tokens"},
    )
    record = GOOD | {"seed": 3, "row": {"number": 4}, "run": "x", "meta": {"note": "kept"}}
    record["turns"] = [{"final": "refer", "tokens": 12, "time": 0.1}]
    (episode,) = read_episodes(io.StringIO(json.dumps(record)), mapping).episodes
    assert episode.case == CaseRef(split="test", seed=3, index=4)
    assert episode.meta == {"note": "kept", "greedy": True, "run": {"id": "x"}}
    assert episode.greedy
    kept = json.loads(episode.to_json())
    assert kept["turns"] == [{"commit": "refer", "meta": {"cost": 12}}]
    assert kept["row"] == {"number": 4}
    assert not {"seed", "run"} & set(kept)


def test_the_constants_of_a_mapping_are_shared_and_never_changed() -> None:
    mapping = KeyMapping(rename={"meta.row": "row"}, constants={"meta": {"run": "x"}})
    lines = [json.dumps(GOOD | {"row": row}) for row in (1, 2)]
    file = read_episodes(io.StringIO("\n".join(lines)), mapping)
    assert [episode.meta for episode in file.episodes] == [
        {"run": "x", "row": 1},
        {"run": "x", "row": 2},
    ]
    assert mapping.constants == {"meta": {"run": "x"}}


def test_under_a_mapping_the_schema_is_ours_unless_the_record_names_another() -> None:
    for line, episodes_read in ((_without("schema"), 1), (json.dumps(GOOD | {"schema": "v3"}), 0)):
        assert len(read_episodes(io.StringIO(line), KeyMapping()).episodes) == episodes_read
        forced = KeyMapping(constants={"schema": 1})
        assert len(read_episodes(io.StringIO(line), forced).episodes) == 1


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        ("renam: {task: env}\n", "renam"),
        ("rename: [task]\n", "rename"),
        ("rename: {task: {a: b}}\n", "rename.task"),
        ("rename: {\n", "line 2"),
        ("rename: !!python/object/apply:os.system ['true']\n", "python/object"),
        ("just words\n", "dictionary"),
        ("[]\n", "dictionary"),
        ("0\n", "dictionary"),
        ("rename: {task: env, task: id}\n", "line 1: key 'task' stands twice"),
        ("constants: {a: " + "9" * 5000 + "}\n", "is no integer"),
        ("a: &a [1]\nb: *a\n", "anchors and aliases are not allowed"),
        ("constants: " + "[" * 100_000, "nested deeper"),
        (b"rename: {a: \xff}\n", "can't decode byte 0xff"),
    ],
)
def test_a_broken_mapping_file_is_refused_on_one_line(
    content: str | bytes, fragment: str, tmp_path: Path
) -> None:
    path = tmp_path / "mapping.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidArgument) as caught:
        read_mapping(path)
    message = str(caught.value)
    assert fragment in message
    assert "mapping.yaml" in message
    assert message.splitlines() == [message]


def test_an_empty_mapping_file_renames_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mapping.yaml"
    path.write_text("# later\n")
    assert read_mapping(path) == KeyMapping()
    path.write_text("constants: {meta.greedy: true, policy: yes}\n")
    assert read_mapping(path).constants == {"meta.greedy": True, "policy": "yes"}


def test_a_missing_mapping_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"mapping file .*absent\.yaml"):
        read_mapping(tmp_path / "absent.yaml")
