"""Configuration of a run: frozen, read from TOML, nonsense refused before a model is loaded.

A file holds sections named after the classes below; `--set section.field=value` overrides one
field. A shipped configuration is three layers merged by name, TASK-VARIANT-MODEL, from
`configs/`; a layer's table `with.OTHER` holds what changes beside another layer. The hash of the
merged configuration names the run.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, fields
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, dataclass_transform, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from clinical_envs.errors import InvalidArgument, did_you_mean

_CONFIGS = Path(str(resources.files("training") / "configs"))
_KINDS = ("tasks", "variants", "models")
Count = Annotated[int, Field(gt=0)]
Whole = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
_SERVICE = re.compile(r"https?://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?/?")
_ADDED = {
    ("model", "menu"): False,
    ("reward", "proxy"): None,
    ("optim", "mean"): "tokens",
    ("optim", "kl"): 0.0,
    ("optim", "clip_low"): 0.2,
    ("optim", "clip_high"): 0.2,
}
"""Fields that came after runs had been named, with their defaults."""
LINEAR_LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def _section(cls: type) -> type:
    return dataclass(cls, frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))


@_section
class Model:
    """source: `embedded`, a local checkpoint, or a hub id. dtype: of the frozen weights.

    menu: an evidence world is played in the protocol of findings; the world writes the texts.
    """

    source: str = "embedded"
    dtype: Literal["float32", "bfloat16"] = "float32"
    menu: bool = False


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

    proxy: the published reward of an evidence world that variant proxy pays, see
    `training.proxies`. entropy, regret, decision_change, sufficiency: weights of the credits.
    per_turn: one advantage a turn instead of one an episode. scale: what advantages are divided
    by. high_risk_share: of the training groups; None draws cases as they come.
    """

    variant: Literal["outcome", "credit", "decoupled", "proxy"] = "outcome"
    proxy: str | None = None
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
    """steps: policy updates (each of two phases for decoupled). groups: cases a step.

    mean: of the loss; over all tokens of a batch, or over the tokens of a turn, the turns of a
    rollout and the rollouts. kl: weight of the KL divergence from the start. clip_low, clip_high:
    of the probability ratio, which is 1 as long as every batch is used once.
    """

    steps: Count = 60
    groups: Count = 8
    rollouts: Annotated[int, Field(ge=2)] = 8
    learning_rate: Positive = 1e-5
    warmup_steps: Whole = 5
    mean: Literal["tokens", "turns"] = "tokens"
    kl: NonNegative = 0.0
    clip_low: Positive = 0.2
    clip_high: Positive = 0.2
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
class Vllm:
    """The rollout server, where engine is vllm.

    url, sidecar_url: `http://HOST:PORT` of the server and of the service that takes uploads. sync:
    how adapters get there. shared_folder: seen by both nodes under one path; by default the
    run's own `adapters`. patience_s: how long an outage is waited out. timeout_s: of one request.
    logprob_tolerance: largest difference to the trainer in nats, by default 0.0001 in float32
    and 0.5 in bfloat16. Secrets come from the environment.
    """

    url: str = ""
    sync: Literal["shared", "upload"] = "shared"
    shared_folder: str = ""
    sidecar_url: str = ""
    patience_s: Positive = 300.0
    timeout_s: Positive = 120.0
    logprob_tolerance: Positive | None = None


@_section
class Config:
    """Everything a run depends on. engine: what samples the rollouts of GRPO."""

    task: str
    seed: Whole = 0
    engine: Literal["inprocess", "vllm"] = "inprocess"
    model: Model = field(default_factory=Model)
    lora: Lora = field(default_factory=Lora)
    teacher: Teacher = field(default_factory=Teacher)
    warmup: Warmup = field(default_factory=Warmup)
    reward: Reward = field(default_factory=Reward)
    optim: Optim = field(default_factory=Optim)
    limits: Limits = field(default_factory=Limits)
    validation: Validation = field(default_factory=Validation)
    vllm: Vllm = field(default_factory=Vllm)

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise ValueError(problem)

    @property
    def hash(self) -> str:
        """First 12 hex digits of SHA-256 over every field but where rollouts are sampled.

        A run may go on with another server, or without one. A field of `_ADDED` counts only
        where it is set, so that older runs keep their names.
        """
        fields = asdict(self)
        del fields["engine"], fields["vllm"]
        for (section, name), default in _ADDED.items():
            if fields[section][name] == default:
                del fields[section][name]
        text = json.dumps(fields, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def config_names() -> tuple[str, ...]:
    """Names of the shipped configurations: TASK-VARIANT-MODEL.

    A task comes in the `variants` that its layer lists, by default in all that pay no proxy.

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
        if first["type"] == "unexpected_keyword_argument":
            *sections, name = (str(part) for part in first["loc"])
            message = f"no field {where}; {did_you_mean(name, _fields(sections))}"
        elif where:
            got = "" if first["type"] == "missing" else f", got {first['input']!r}"
            message = f"{where}: {message}{got}"
        raise InvalidArgument(f"configuration: {message}") from None


def _fields(sections: Sequence[str]) -> list[str]:
    """The names that a section may hold; without one, those of the whole."""
    kind: Any = Config
    for section in sections:
        kind = get_type_hints(kind)[section]
    return [known.name for known in fields(kind)]


def _shipped() -> dict[str, tuple[str, ...]]:
    """The task, variant and model that each name stands for."""
    tasks, variants, models = (_read(_CONFIGS / f"{kind}.toml") for kind in _KINDS)
    clinical = [name for name, layer in variants.items() if "proxy" not in layer.get("reward", {})]
    return {
        "-".join(layers): layers
        for task, layer in tasks.items()
        for layers in product((task,), layer.get("variants", clinical), models)
    }


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
    layers[0].pop("variants", None)
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
    if (reward.variant == "proxy") is (reward.proxy is None):
        found.append(
            f"reward.variant is {reward.variant} and reward.proxy is {reward.proxy}; variant proxy "
            "needs a proxy, and no other has one"
        )
    if reward.variant == "decoupled" and reward.per_turn:
        found.append("reward.per_turn has no meaning in the decoupled variant; set it to false")
    if warmup.kind == "light" and not config.teacher.hazard:
        found.append("warmup.kind is light but teacher.hazard is empty; give the [teacher] section")
    return found + _server_problems(config)


def _server_problems(config: Config) -> list[str]:
    vllm = config.vllm
    if config.engine != "vllm":
        return ["vllm.url is given but engine is inprocess; set engine=vllm"] if vllm.url else []
    services = (("url", vllm.url), ("sidecar_url", vllm.sidecar_url))
    found = [
        f"vllm.{name} must be http://HOST:PORT and nothing else; secrets come from the environment"
        for name, url in services
        if not _SERVICE.fullmatch(url) and (url or name == "url")
    ]
    if vllm.sync == "upload" and not vllm.sidecar_url:
        found.append("vllm.sync is upload; give vllm.sidecar_url, http://HOST:PORT of the sidecar")
    if vllm.sync == "shared" and vllm.sidecar_url:
        found.append("vllm.sidecar_url is given but vllm.sync is shared; set vllm.sync=upload")
    found += [
        f"vllm.{name} has port {port[1]}, and the largest is 65535"
        for name, url in services
        if (port := re.search(r":(\d+)/?$", url)) and int(port[1]) > 65535
    ]
    if config.lora.dropout:
        found.append(
            f"lora.dropout is {config.lora.dropout} and engine is vllm, which samples without; "
            "set lora.dropout=0"
        )
    unservable = sorted(set(config.lora.targets) - set(LINEAR_LAYERS))
    if unservable:
        found.append(f"lora.targets has {unservable[0]}, which vLLM serves no adapter of")
    return found
