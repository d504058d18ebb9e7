"""What the judges are given: JSON Lines of answers, pairs of answers, or answers with passages.

A file is read whole before anything is asked: a bad line on its end must not cost a run. Keys that
are not listed belong under `meta`, where they are left alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    ValidationError,
    model_validator,
)

from clinical_envs.checkedqa.checkers import Label
from clinical_envs.checkedqa.claims import claims
from clinical_envs.errors import InvalidArgument
from clinical_envs.rubric.consensus import Verdict
from oracles.reward_audit.records import Demand, Key, NonNegative

Text = Annotated[str, Field(min_length=1)]


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    prompt: Key
    meta: dict[str, Any] = Field(default_factory=dict)

    @property
    def identity(self) -> tuple[object, ...]:
        """What no other line may repeat; 1 and "1" are different."""
        return (repr(self.prompt),)


class Criterion(BaseModel):
    """One criterion of a rubric; a negative weight is of something an answer should not do."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    criterion: Text
    weight: FiniteFloat = 1.0
    demand: Demand | None = None


class Answer(_Line):
    """An answer to be graded; one a prompt and step.

    `training` holds the training verifier's verdicts, where the run recorded them.
    """

    step: NonNegativeInt = 0
    question: Text
    answer: str
    rubric: list[Criterion] = Field(min_length=1)
    training: list[Verdict] | None = None

    @property
    def identity(self) -> tuple[object, ...]:
        """Step and prompt."""
        return (self.step, repr(self.prompt))

    @model_validator(mode="after")
    def _check(self) -> Self:
        if all(one.weight == 0 for one in self.rubric):
            raise ValueError("every weight of the rubric is 0")
        if self.training is not None and len(self.training) != len(self.rubric):
            raise ValueError(
                f"{len(self.training)} training verdicts for {len(self.rubric)} criteria"
            )
        return self


class Pair(_Line):
    """Two answers to one question; left and right are names, not places."""

    question: Text
    left: str
    right: str


class Cited(_Line):
    """An answer whose claims are checked against the passages that were retrieved for it.

    `claims` are split by rule where they are not given. `truth` holds their annotated labels;
    `base` is the reward that the checker's multiplier multiplies.
    """

    step: NonNegativeInt = 0
    rollout: Key = 0
    policy: str = "policy"
    question: str | None = None
    answer: str
    passages: list[Text]
    claims: list[Text] | None = None
    truth: list[Annotated[Label | None, Field(strict=False)]] | None = None
    base: FiniteFloat | None = None
    searches: NonNegative | None = None

    @property
    def stated(self) -> Sequence[str]:
        """The claims."""
        return claims(self.answer) if self.claims is None else self.claims

    @property
    def identity(self) -> tuple[object, ...]:
        """Step, prompt and rollout."""
        return (self.step, repr(self.prompt), repr(self.rollout))

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.truth is not None and len(self.truth) != len(self.stated):
            raise ValueError(
                f"{len(self.truth)} labels under truth for {len(self.stated)} claims; give the "
                "claims they belong to under claims"
            )
        return self


LineT = TypeVar("LineT", bound=_Line)


def read_lines(path: Path, kind: type[LineT]) -> list[LineT]:
    """Every line of a file, in order.

    Raises:
        InvalidArgument: the file cannot be read or is empty, or a line breaks a rule or repeats
            another.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from None
    found: list[LineT] = []
    seen: dict[tuple[object, ...], int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = kind.model_validate(json.loads(line))
        except ValidationError as error:
            raise InvalidArgument(f"{path}, line {number}: {_first(error)}") from None
        except (ValueError, RecursionError):
            raise InvalidArgument(f"{path}, line {number}: not JSON in UTF-8") from None
        first = seen.setdefault(row.identity, number)
        if first != number:
            raise InvalidArgument(
                f"{path}, line {number}: repeats the prompt of line {first}; number the prompts, "
                "steps or rollouts apart"
            )
        found.append(row)
    if not found:
        raise InvalidArgument(f"{path} has no lines; give one JSON object a line")
    return found


def _first(error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message
