"""Configuration of a run: frozen, read from TOML, nonsense refused before a model is loaded.

A file holds sections named after the classes below; `--set section.field=value` overrides one
field. A shipped configuration is three layers merged by name, TASK-VARIANT-MODEL, from
`configs/`; a layer's table `with.OTHER` holds what changes beside another layer. The hash of the
merged configuration names the run.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, dataclass_transform

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from clinical_envs.errors import InvalidArgument, did_you_mean

_CONFIGS = Path(str(resources.files("training") / "configs"))
_KINDS = ("tasks", "variants", "models")
Count = Annotated[int, Field(gt=0)]
Whole = Annotated[int, Field(ge=0)]
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
    warmup_steps: Whole = 10
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
    warmup_steps: Whole = 5
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
    seed: Whole = 0
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
    """Names of the shipped configurations: TASK-VARIANT-MODEL for every combination of layers.

    >>> "titration-lambda-0.15-embedded" in config_names()
    True
    """
    return tuple(_shipped())


def load_config(name_or_file: str | Path, overrides: Sequence[str] = ()) -> Config:
    """A shipped configuration by name, or a TOML file, with `section.field=value` overrides.

    Raises:
        InvalidArgument: unknown name, section or field, a value of the wrong type, or nonsense.
    """
    path = Path(name_or_file)
    data: dict[str, Any] = {}
    layers = [_read(path)] if path.suffix == ".toml" else _layers(str(name_or_file))
    for layer in layers:
        _merge(data, layer)
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


def _shipped() -> dict[str, tuple[str, ...]]:
    """The task, variant and model that each name stands for."""
    parts = [_read(_CONFIGS / f"{kind}.toml") for kind in _KINDS]
    return {"-".join(layers): layers for layers in product(*parts)}


def _layers(name: str) -> list[dict[str, Any]]:
    """What a name is made of, later ones winning: its layers, then what each has `with` another."""
    shipped = _shipped()
    if name not in shipped:
        hint = did_you_mean(name, tuple(shipped))
        raise InvalidArgument(f"no configuration {name!r}; {hint}")
    chosen = shipped[name]
    layers = [
        _read(_CONFIGS / f"{kind}.toml")[layer] for kind, layer in zip(_KINDS, chosen, strict=True)
    ]
    refined = [layer.pop("with", {}) for layer in layers]
    return layers + [beside.get(other, {}) for beside in refined for other in chosen]


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidArgument(f"configuration {path}: {error}") from None


def _merge(data: dict[str, Any], layer: Mapping[str, Any]) -> None:
    for key, value in layer.items():
        if isinstance(value, Mapping):
            _merge(data.setdefault(key, {}), value)
        else:
            data[key] = value


def _set(data: dict[str, Any], override: str) -> None:
    name, equals, text = override.partition("=")
    if not equals:
        raise InvalidArgument(f"--set {override!r}: write section.field=value")
    *sections, last = name.strip().split(".")
    for section in sections:
        data = data.setdefault(section, {})
        if not isinstance(data, dict):
            raise InvalidArgument(f"--set {override!r}: {section} is a field, not a section")
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
