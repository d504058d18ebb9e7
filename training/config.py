"""Configuration of a run: frozen, read from TOML, nonsense refused before a model is loaded.

A file holds sections named after the classes below; `--set section.field=value` overrides one
field. The hash of the whole configuration names the run.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, dataclass_transform

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from clinical_envs.errors import InvalidArgument, did_you_mean

_CONFIGS = Path(str(resources.files("training") / "configs"))
Count = Annotated[int, Field(gt=0)]
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
LINEAR_LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def _section(cls: type) -> type:
    return dataclass(cls, frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))


@_section
class Model:
    """source: `embedded`, a local checkpoint, or a hub id. dtype: of the frozen weights."""

    source: str = "embedded"
    dtype: Literal["float32", "bfloat16"] = "float32"


@_section
class Lora:
    """Adapter on all linear layers of the text model."""

    rank: Count = 16
    alpha: Count = 32
    dropout: Share = 0.0
    targets: tuple[str, ...] = LINEAR_LAYERS


@_section
class Teacher:
    """The imperfect teacher; its formula is in `training.teacher`."""

    hazard: tuple[Share, ...] = ()
    sharpness: float = 0.0
    inverse_temperature: float = 1.0
    bias: tuple[float, ...] = ()
    evidence_exponent: float = 1.0


@_section
class Warmup:
    """Supervised warmup. kind: `full` imitates the oracle, `light` the imperfect teacher.

    keep_high_risk: share of the high-risk episodes kept; 1 is unbiased. modes: also teach the two
    modes of the decoupled variant.
    """

    kind: Literal["light", "full"] = "light"
    steps: Count = 300
    batch_size: Count = 32
    learning_rate: Positive = 4e-3
    warmup_steps: int = 10
    keep_high_risk: Share = 1.0
    modes: bool = False


@_section
class Reward:
    """What GRPO is paid for. variant decoupled trains in two phases and reads kappa only.

    entropy, regret, decision_change, sufficiency: weights of the credits. per_turn: one advantage
    a turn instead of one an episode. scale: what advantages are divided by. high_risk_share: of
    the training groups; None draws cases as they come.
    """

    variant: Literal["outcome", "credit", "decoupled"] = "outcome"
    outcome: Finite = 1.0
    entropy: Finite = 0.0
    regret: Finite = 0.0
    decision_change: Finite = 0.0
    sufficiency: Finite = 0.0
    clip_entropy: bool = False
    kappa: Finite = 0.0
    per_turn: bool = False
    scale: Literal["group", "batch", "none"] = "group"
    high_risk_share: Share | None = None


@_section
class Optim:
    """steps: policy updates (each of two phases for decoupled). groups: cases a step."""

    steps: Count = 60
    groups: Count = 8
    rollouts: Annotated[int, Field(ge=2)] = 8
    learning_rate: Positive = 1e-5
    warmup_steps: int = 5
    micro_batch: Count = 64
    checkpoint_every: Count = 10
    gradient_checkpointing: bool = False


@_section
class Limits:
    """Tokens of one turn and of a whole dialogue."""

    turn_tokens: Count = 96
    context_tokens: Count = 2048


@_section
class Validation:
    """every: steps between evaluations on the validation set. k: rollouts a case."""

    every: Count = 20
    k: Count = 2


@_section
class Config:
    """Everything a run depends on."""

    task: str
    seed: int = 0
    model: Model = field(default_factory=Model)
    lora: Lora = field(default_factory=Lora)
    teacher: Teacher = field(default_factory=Teacher)
    warmup: Warmup = field(default_factory=Warmup)
    reward: Reward = field(default_factory=Reward)
    optim: Optim = field(default_factory=Optim)
    limits: Limits = field(default_factory=Limits)
    validation: Validation = field(default_factory=Validation)

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise ValueError(problem)

    @property
    def hash(self) -> str:
        """First 12 hex digits of SHA-256 over every field."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def config_names() -> tuple[str, ...]:
    """Names of the shipped configurations."""
    return tuple(sorted(path.stem for path in _CONFIGS.glob("*.toml")))


def load_config(name_or_file: str | Path, overrides: Sequence[str] = ()) -> Config:
    """A shipped configuration by name, or a TOML file, with `section.field=value` overrides.

    Raises:
        InvalidArgument: unknown name, section or field, a value of the wrong type, or nonsense.
    """
    path = Path(name_or_file)
    if path.suffix != ".toml":
        if str(name_or_file) not in config_names():
            hint = did_you_mean(name_or_file, config_names())
            raise InvalidArgument(f"no configuration {str(name_or_file)!r}; {hint}")
        path = _CONFIGS / f"{name_or_file}.toml"
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidArgument(f"configuration {path}: {error}") from None
    for override in overrides:
        _set(data, override)
    return config_from(data)


def config_from(data: Mapping[str, Any]) -> Config:
    """A configuration from plain data."""
    try:
        return _ADAPTER.validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        message = str(first["msg"]).removeprefix("Value error, ")
        if where:
            got = "" if first["type"] == "missing" else f", got {first['input']!r}"
            message = f"{where}: {message}{got}"
        raise InvalidArgument(f"configuration: {message}") from None


def _set(data: dict[str, Any], override: str) -> None:
    name, equals, text = override.partition("=")
    if not equals:
        raise InvalidArgument(f"--set {override!r}: write section.field=value")
    *sections, last = name.strip().split(".")
    for section in sections:
        data = data.setdefault(section, {})
    try:
        data[last] = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        data[last] = text.strip()


_ADAPTER = TypeAdapter(Config)


def _problems(config: Config) -> list[str]:
    found = []
    optim, reward, warmup = config.optim, config.reward, config.warmup
    if optim.groups * optim.rollouts % optim.micro_batch:
        found.append(
            f"optim.micro_batch is {optim.micro_batch}; it must divide groups x rollouts = "
            f"{optim.groups * optim.rollouts}"
        )
    credits = (reward.entropy, reward.regret, reward.decision_change, reward.sufficiency)
    if reward.variant == "credit" and not any(credits):
        found.append("reward.variant is credit but every credit weighs 0; set reward.entropy")
    if reward.variant != "credit" and any(credits):
        found.append(f"reward.variant is {reward.variant} but a credit has a weight; say credit")
    if reward.variant == "decoupled" and reward.per_turn:
        found.append("reward.per_turn has no meaning in the decoupled variant; set it to false")
    if warmup.kind == "light" and not config.teacher.hazard:
        found.append("warmup.kind is light but teacher.hazard is empty; give the [teacher] section")
    return found
