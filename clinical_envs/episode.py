"""The finished record of one encounter: the only thing that crosses a border.

One JSON object a line. Readers accept older schema versions, keep unknown keys (of a key that
stands twice the last value), and name every damaged line. A recorded reward is never trusted: the
verifier computes it again from the turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    SerializeAsAny,
    Tag,
    ValidationError,
    field_validator,
)
from pydantic_core import from_json

from clinical_envs.catalog import one_line, read_yaml
from clinical_envs.errors import InvalidArgument

SCHEMA: Literal[1] = 1
MAX_LINE_CHARS = 4_000_000


class _Record(BaseModel):
    """Immutable; unknown keys are kept as they are, NaN included."""

    model_config = ConfigDict(frozen=True, extra="allow", ser_json_inf_nan="constants")


class AskTurn(_Record):
    """A finding that was asked for, and its answer."""

    ask: str
    answer: bool


class CommitTurn(_Record):
    """The final decision."""

    commit: str


class InvalidTurn(_Record):
    """A malformed or illegal turn, with its reason."""

    invalid: str


Turn = AskTurn | CommitTurn | InvalidTurn
_KINDS: Final = {"ask": AskTurn, "commit": CommitTurn, "invalid": InvalidTurn}


def _kind(turn: Any) -> str | None:
    if isinstance(turn, Mapping):
        kinds = [kind for kind in _KINDS if kind in turn]
    else:
        kinds = [kind for kind, model in _KINDS.items() if isinstance(turn, model)]
    return kinds[0] if len(kinds) == 1 else None


# Written as what it is: asking `_kind` again would make writing three times slower.
_AnyTurn = SerializeAsAny[
    Annotated[
        Annotated[AskTurn, Tag("ask")]
        | Annotated[CommitTurn, Tag("commit")]
        | Annotated[InvalidTurn, Tag("invalid")],
        Discriminator(
            _kind,
            custom_error_type="turn",
            custom_error_message="A turn has exactly one of 'ask', 'commit' and 'invalid'",
        ),
    ]
]


class CaseRef(_Record):
    """Which case was played."""

    split: str
    seed: int
    index: int
    hash: str | None = None


def _integer(value: Any) -> Any:
    """`true` and 1.0 equal 1, and name no schema."""
    return value if type(value) is int else None


class Episode(_Record):
    """One finished encounter.

    task: `id@version`, or a task file. state: the hidden state, where it is known. initial:
    findings shown at the start. rollout: number of the rollout of this case. raw: the texts the
    policy wrote, one a turn. Unknown keys are kept.
    """

    schema_: Annotated[Literal[1], BeforeValidator(_integer), Field(alias="schema")] = SCHEMA
    task: str
    family: str
    turns: tuple[_AnyTurn, ...]
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
        """One line of JSON, absent fields left out; an unknown key that is null is kept."""
        absent = {name for name in Episode.model_fields if getattr(self, name) is None}
        return self.model_dump_json(by_alias=True, exclude=absent)


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

    rename: our key -> their key. constants: our keys that every record shares. turns: how one
    foreign turn becomes ours, the same way; of a renamed turn nothing else is kept. A dotted path
    reaches into nested objects, on either side. The schema is ours, unless the record names one.
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
        data = read_yaml(Path(path).read_text(encoding="utf-8"))
        return KeyMapping.model_validate({} if data is None else data)
    except (OSError, ValueError) as error:
        raise InvalidArgument(one_line(f"mapping file {path}: {_reason(error)}")) from None


def read_episodes(source: str | Path | IO[str], mapping: KeyMapping | None = None) -> EpisodeFile:
    """Read a JSON Lines file of episodes; a damaged line is reported, never dropped silently.

    Raises:
        InvalidArgument: the file cannot be opened, or the stream is not text.
    """
    try:
        if not isinstance(source, str | Path):
            return _read_lines(source, getattr(source, "name", "<stream>"), mapping)
        # A byte that is not UTF-8 becomes a lone surrogate, by which its line is known.
        with Path(source).open(encoding="utf-8-sig", errors="surrogateescape") as lines:
            return _read_lines(lines, str(source), mapping)
    except (OSError, ValueError) as error:
        reason = one_line(f"episodes file {source}: {error}; give a JSON Lines file")
        raise InvalidArgument(reason) from None


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
    schema["required"] = ["schema", *schema["required"]]
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
    try:
        content = line.encode()
    except UnicodeEncodeError:
        raise ValueError("not UTF-8 text") from None
    if mapping is None:
        episode = Episode.model_validate_json(content)
    else:
        record = from_json(content)
        if not isinstance(record, dict):
            raise ValueError("not a JSON object")
        episode = Episode.model_validate(_renamed(record, mapping))
    named = episode.model_fields_set - (episode.model_extra or {}).keys()
    if "schema_" not in named:
        raise ValueError(f'schema: missing; write "schema": {SCHEMA}')
    return episode


def _renamed(record: Mapping[str, Any], mapping: KeyMapping) -> dict[str, Any]:
    theirs = set(mapping.rename.values())
    renamed = {key: value for key, value in record.items() if key not in theirs}
    renamed.setdefault("schema", SCHEMA)
    for ours, value in mapping.constants.items():
        _put(renamed, ours, value)
    _rename(record, mapping.rename, renamed)
    if mapping.turns and isinstance(renamed.get("turns"), list):
        renamed["turns"] = [_renamed_turn(turn, mapping.turns) for turn in renamed["turns"]]
    return renamed


def _renamed_turn(turn: Any, names: Mapping[str, str]) -> Any:
    if not isinstance(turn, dict):
        return turn
    renamed: dict[str, Any] = {}
    _rename(turn, names, renamed)
    return renamed or turn


def _rename(record: Mapping[str, Any], names: Mapping[str, str], into: dict[str, Any]) -> None:
    for ours, theirs in names.items():
        value = _dig(record, theirs)
        if value is not None:
            _put(into, ours, value)


def _dig(record: Mapping[str, Any], path: str) -> Any:
    value: Any = record
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def _put(record: dict[str, Any], path: str, value: Any) -> None:
    """Set a nested key; objects on the way are copied, since the record shares them."""
    *parents, last = path.split(".")
    for part in parents:
        inner = record.get(part)
        record[part] = record = dict(inner) if isinstance(inner, Mapping) else {}
    record[last] = value


def _reason(error: Exception) -> str:
    """One line for a damaged line or file: where, and what."""
    message = str(error)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        message = f"{where}: {first['msg']}" if where else str(first["msg"])
    message = one_line(message)
    return message if len(message) <= 200 else message[:197] + "..."
