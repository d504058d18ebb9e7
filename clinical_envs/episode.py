"""The finished record of one encounter: the only thing that crosses a border.

One JSON object a line. Readers accept older schema versions, keep unknown keys, and name every
damaged line. A recorded reward is never trusted: the verifier computes it again from the turns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from clinical_envs.errors import InvalidArgument

SCHEMA: Literal[1] = 1
MAX_LINE_CHARS = 4_000_000


class AskTurn(BaseModel):
    """A finding that was asked for, and its answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ask: str
    answer: bool


class CommitTurn(BaseModel):
    """The final decision."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    commit: str


class InvalidTurn(BaseModel):
    """A malformed or illegal turn, with its reason."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    invalid: str


Turn = AskTurn | CommitTurn | InvalidTurn


class CaseRef(BaseModel):
    """Which case was played."""

    model_config = ConfigDict(frozen=True, extra="allow")

    split: str
    seed: int
    index: int
    hash: str | None = None


class Episode(BaseModel):
    """One finished encounter.

    task: `id@version`, or a task file. state: the hidden state, where it is known. initial:
    findings shown at the start. rollout: number of the rollout of this case. raw: the texts the
    policy wrote, one a turn. Unknown keys are kept.
    """

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)

    schema_: Annotated[Literal[1], Field(alias="schema")] = SCHEMA
    task: str
    family: str
    turns: tuple[Turn, ...]
    case: CaseRef | None = None
    state: str | None = None
    initial: dict[str, bool] = {}
    policy: str | None = None
    rollout: int | None = None
    raw: tuple[str, ...] | None = None
    meta: dict[str, Any] = {}

    @field_validator("initial", "meta", mode="before")
    @classmethod
    def _null_is_empty(cls, value: Any) -> Any:
        return {} if value is None else value

    @property
    def greedy(self) -> bool:
        """Whether the policy played its most likely action on every turn."""
        return bool(self.meta.get("greedy", False))

    @property
    def case_id(self) -> str | None:
        """A short name of the case, the same for every rollout of it."""
        if self.case is None:
            return None
        return f"{self.case.split}/{self.case.seed}/{self.case.index}"

    def to_json(self) -> str:
        """One line of JSON, absent fields left out."""
        return self.model_dump_json(by_alias=True, exclude_none=True, exclude_defaults=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedLine:
    """A line that is no episode: its number (from 1) and why."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFile:
    """What a JSON Lines file holds: good episodes, and every line that is not one."""

    source: str
    episodes: list[Episode] = field(default_factory=list)
    damaged: list[DamagedLine] = field(default_factory=list)


class KeyMapping(BaseModel):
    """How a foreign record's keys are renamed before it is read as an episode.

    rename: our key -> their key; a dotted path reaches into nested objects. constants: keys that
    every record shares. turns: how one foreign turn becomes ours, the same way.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rename: dict[str, str] = {}
    constants: dict[str, Any] = {}
    turns: dict[str, str] = {}


def read_mapping(path: str | Path) -> KeyMapping:
    """Read a mapping file (YAML).

    Raises:
        InvalidArgument: the file is missing or is no mapping.
    """
    try:
        data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        return KeyMapping.model_validate(data or {})
    except (OSError, yaml.YAMLError, ValidationError) as error:
        reason = " ".join(str(error).split())
        raise InvalidArgument(f"mapping file {path}: {reason}") from None


def read_episodes(source: str | Path | IO[str], mapping: KeyMapping | None = None) -> EpisodeFile:
    """Read a JSON Lines file of episodes; a damaged line is reported, never dropped silently.

    Raises:
        InvalidArgument: the file cannot be opened or is not UTF-8 text.
    """
    if not isinstance(source, str | Path):
        return _read_lines(source, getattr(source, "name", "<stream>"), mapping)
    try:
        with Path(source).open(encoding="utf-8") as lines:
            return _read_lines(lines, str(source), mapping)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"episodes file {source}: {error}; give a JSON Lines file") from None


def write_episodes(path: str | Path, episodes: Iterable[Episode]) -> int:
    """Write episodes, one a line; returns how many."""
    count = 0
    with Path(path).open("w", encoding="utf-8") as out:
        for episode in episodes:
            out.write(episode.to_json() + "\n")
            count += 1
    return count


def episode_schema() -> dict[str, Any]:
    """The JSON Schema of one line."""
    schema = Episode.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _read_lines(lines: Iterable[str], source: str, mapping: KeyMapping | None) -> EpisodeFile:
    file = EpisodeFile(source=source)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            file.episodes.append(_read_line(line, mapping))
        except ValueError as error:
            file.damaged.append(DamagedLine(line=number, reason=_reason(error)))
    return file


def _read_line(line: str, mapping: KeyMapping | None) -> Episode:
    if len(line) > MAX_LINE_CHARS:
        raise ValueError(f"longer than {MAX_LINE_CHARS} characters")
    if mapping is None:
        return Episode.model_validate_json(line)
    try:
        record = json.loads(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 (a damaged line, not a wrong type)
    return Episode.model_validate(_renamed(record, mapping))


def _renamed(record: Mapping[str, Any], mapping: KeyMapping) -> dict[str, Any]:
    renamed = {key: value for key, value in record.items() if key not in mapping.rename.values()}
    renamed |= mapping.constants
    for ours, theirs in mapping.rename.items():
        value = _dig(record, theirs)
        if value is not None:
            renamed[ours] = value
    if mapping.turns and isinstance(renamed.get("turns"), list):
        renamed["turns"] = [_renamed_turn(turn, mapping.turns) for turn in renamed["turns"]]
    return renamed


def _renamed_turn(turn: Any, names: Mapping[str, str]) -> Any:
    if not isinstance(turn, dict):
        return turn
    found = {ours: _dig(turn, theirs) for ours, theirs in names.items()}
    return {ours: value for ours, value in found.items() if value is not None} or turn


def _dig(record: Mapping[str, Any], path: str) -> Any:
    value: Any = record
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def _reason(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        message = f"{where}: {first['msg']}" if where else str(first["msg"])
    else:
        message = " ".join(str(error).split())
    return message if len(message) <= 200 else message[:197] + "..."
