"""The rows that the audit reads: one JSON object a line, of three kinds.

`judgment`  the training verifier's verdict on one criterion of one prompt at one checkpoint
`check`     a checker's verdict on one claim of one rollout
`reward`    the reward of one rollout, with whatever else the run recorded about it

Unscored is `null` (NaN reads as `null`), never 0 or false. Keys that are not listed belong under
`meta`; a misspelt key would otherwise leave an audit SKIPPED without a word. A line that cannot
be read, breaks a rule or repeats an earlier row is left out, named by its number and counted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    TypeAdapter,
    ValidationError,
)

from clinical_envs.checkedqa.checkers import Label
from clinical_envs.errors import InvalidArgument
from clinical_envs.rubric.consensus import Verdict
from clinical_envs.rubric.verifiers import Leniency


def _nan_is_null(value: object) -> object:
    return None if isinstance(value, float) and math.isnan(value) else value


Scored = Annotated[FiniteFloat | None, BeforeValidator(_nan_is_null)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Key = str | int
Demand = Literal["presence", "absence", "other"]


class Row(BaseModel):
    """What every row has: the checkpoint's training step and the prompt."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    step: NonNegativeInt
    prompt: Key
    meta: dict[str, Any] = Field(default_factory=dict)


class JudgmentRow(Row):
    """One criterion of one prompt: the training verdict and the votes of a reference panel.

    `demand` says whether the criterion asks for something or forbids it; `cause` is the class of
    failure of the training verifier, where someone has classified it.
    """

    kind: Literal["judgment"] = "judgment"
    criterion: Key
    verifier: str = "verifier"
    weight: FiniteFloat = 1.0
    training: Verdict
    panel: list[Verdict] = Field(default_factory=list)
    demand: Demand | None = None
    cause: Annotated[Leniency | None, Field(strict=False)] = None


class CheckRow(Row):
    """One claim of one rollout; `truth` is the annotated label, where there is one."""

    kind: Literal["check"] = "check"
    rollout: Key
    claim: Key
    checker: str = "checker"
    policy: str = "policy"
    verdict: Annotated[Label | None, Field(strict=False)]
    truth: Annotated[Label | None, Field(strict=False)] = None


class RewardRow(Row):
    """One rollout; the rollouts of one prompt at one step are a group.

    `reference` is a better judge's reward, `phi` the checker's multiplier, `self_gap` the
    self-internalization gap. `length` is in any one unit, `foreign_share` the share of letters
    outside the question's scripts.
    """

    kind: Literal["reward"] = "reward"
    rollout: Key
    reward: Scored
    reference: Scored = None
    phi: Scored = None
    self_gap: Scored = None
    claims: NonNegative | None = None
    incorrect_claims: NonNegative | None = None
    length: NonNegative | None = None
    searches: NonNegative | None = None
    foreign_share: Share | None = None


AnyRow = Annotated[JudgmentRow | CheckRow | RewardRow, Field(discriminator="kind")]
_ROW: TypeAdapter[JudgmentRow | CheckRow | RewardRow] = TypeAdapter(AnyRow)


@dataclass(frozen=True, slots=True)
class Damage:
    """A line that was left out, and why."""

    source: str
    line: int
    reason: str


@dataclass(slots=True)
class Log:
    """All rows of a run by kind, and the damaged lines."""

    judgments: list[JudgmentRow] = field(default_factory=list)
    checks: list[CheckRow] = field(default_factory=list)
    rewards: list[RewardRow] = field(default_factory=list)
    damaged: list[Damage] = field(default_factory=list)

    def add(self, row: JudgmentRow | CheckRow | RewardRow) -> None:
        """Put a row where its kind belongs."""
        match row:
            case JudgmentRow():
                self.judgments.append(row)
            case CheckRow():
                self.checks.append(row)
            case RewardRow():
                self.rewards.append(row)


def row_schema() -> dict[str, Any]:
    """The JSON schema of a line."""
    return _ROW.json_schema()


def read_log(paths: Iterable[Path]) -> Log:
    """Read the files of one run.

    Raises:
        InvalidArgument: a file cannot be opened.
    """
    log = Log()
    seen: dict[tuple[object, ...], str] = {}
    for path in paths:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from None
        _read_lines(content.split(b"\n"), str(path), log, seen)
    return log


def read_lines(lines: Iterable[str | bytes], source: str = "lines") -> Log:
    """Read rows from lines; total on any text.

    >>> log = read_lines(['{"kind": "reward", "step": 0, "prompt": 1, "rollout": 0, "reward": 1}',
    ...                   '{"kind": "reward"'])
    >>> len(log.rewards), log.damaged[0].line
    (1, 2)
    """
    log = Log()
    _read_lines(lines, source, log, {})
    return log


def _read_lines(
    lines: Iterable[str | bytes], source: str, log: Log, seen: dict[tuple[object, ...], str]
) -> None:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        row = _parse(line)
        if isinstance(row, str):
            log.damaged.append(Damage(source, number, row))
            continue
        first = seen.setdefault(_identity(row), f"{source}:{number}")
        if first == f"{source}:{number}":
            log.add(row)
        else:
            log.damaged.append(Damage(source, number, f"repeats the row of {first}"))


def _parse(line: str | bytes) -> JudgmentRow | CheckRow | RewardRow | str:
    try:
        text = line.decode("utf-8") if isinstance(line, bytes) else line
        return _ROW.validate_python(json.loads(text))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] == "union_tag_not_found":
            return "no kind; a row is a judgment, a check or a reward (episodes: use audit)"
        where = ".".join(str(part) for part in first["loc"][1:])
        return f"{where}: {first['msg']}" if where else first["msg"]
    except (ValueError, RecursionError):
        return "not a JSON object in UTF-8"


def _identity(row: JudgmentRow | CheckRow | RewardRow) -> tuple[object, ...]:
    """What makes a row unique; 1 and "1" are different keys."""
    common = (row.kind, row.step, repr(row.prompt))
    match row:
        case JudgmentRow():
            return (*common, row.verifier, repr(row.criterion))
        case CheckRow():
            return (*common, row.checker, row.policy, repr(row.rollout), repr(row.claim))
        case RewardRow():
            return (*common, repr(row.rollout))
