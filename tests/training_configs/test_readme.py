"""training/README.md: what it names exists, and what it computes is computed again."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from oracles.exact import exact_value
from oracles.oracle import solve
from oracles.policies import make_policy
from training.break_even import break_even, information_per_ask
from training.config import config_from, config_names, load_config
from training.memory import TextShape, memory_plan

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "training" / "README.md").read_text(encoding="utf-8")
FLAT = " ".join(TEXT.split())
NAME = re.compile(r"(?:diagnostics|titration|refill)-[a-z0-9.-]+")
FIELD = re.compile(r"`(model|lora|teacher|warmup|reward|optim|limits|validation|vllm)\.(\w+)")
GIB = 2**30


def test_every_configuration_named_exists() -> None:
    named = set(NAME.findall(TEXT))
    assert len(named) >= 10
    assert named <= set(config_names())


def test_the_table_of_layers_lists_all_and_nothing_else() -> None:
    rows = dict(re.findall(r"^\| (task|variant|model) \| (.+) \|$", TEXT, re.MULTILINE))
    tasks, variants, models = (
        re.findall(r"[a-z][a-z0-9.-]*", rows[kind].replace("for the warmup alone", ""))
        for kind in ("task", "variant", "model")
    )
    listed = {f"{t}-{v}-{m}" for t in tasks for v in variants for m in models}
    worlds = re.findall(r"^\| (factcheck|checkedqa|rubric) \| (light, .+) \|$", TEXT, re.MULTILINE)
    assert len(worlds) == 3
    listed |= {f"{t}-{v}-{m}" for t, names in worlds for v in names.split(", ") for m in models}
    assert listed == set(config_names())


def test_every_field_named_exists() -> None:
    known = asdict(load_config("diagnostics-outcome-embedded"))
    named = FIELD.findall(TEXT)
    assert len(named) >= 12
    assert [f"{section}.{name}" for section, name in named if name not in known[section]] == []


def test_the_table_of_models_says_what_the_configurations_say() -> None:
    small, large = (load_config(f"diagnostics-outcome-{m}") for m in ("embedded", "medgemma-4b"))
    for config in (small, large):
        optim, limits = config.optim, config.limits
        assert f"{optim.steps} of {optim.groups} x {optim.rollouts}" in TEXT
        assert f"{limits.turn_tokens}, {limits.context_tokens}" in TEXT
        assert f"{config.lora.rank}, {config.lora.alpha}" in TEXT
        assert re.search(rf"\b{config.warmup.steps}, ", TEXT)
    rates = [f"{c.optim.learning_rate:.0e}".replace("e-0", "e-") for c in (small, large)]
    assert f"| {rates[0]} | {rates[1]} |" in TEXT
    assert f"| {small.optim.micro_batch} | {large.optim.micro_batch}, with gradient" in TEXT
    assert large.optim.gradient_checkpointing


def test_the_memory_table_is_the_memory_plan() -> None:
    shape, config = TextShape(), load_config("diagnostics-credit-medgemma-4b")
    plan = memory_plan(config)
    parts = (plan.base, plan.adapter, plan.cache, plan.activations, plan.total)
    table = TEXT.split("| part | arithmetic | GiB |")[1].split("\n\n")[0]
    assert re.findall(r"([\d.]+) \|$", table, re.MULTILINE) == [f"{p / GIB:.1f}" for p in parts]
    assert f"{shape.parameters:,} parameters x 2 bytes" in FLAT
    assert f"{shape.lora_parameters(config.lora):,} parameters x 4" in FLAT
    a_token = 2 * shape.kv_heads * shape.head_dim * shape.layers * 2
    assert f"64 dialogues x 2048 tokens x {a_token:,} bytes" in FLAT
    assert plan.cache == 64 * 2048 * a_token
    kept = re.search(r"\| 4 x 2048 tokens x \((\d+) x (\d+) \+ ([\d,]+)\) x 2 bytes", TEXT)
    assert kept is not None
    layers, hidden, inside = (int(number.replace(",", "")) for number in kept.groups())
    assert plan.activations == 4 * 2048 * (layers * hidden + inside) * 2


def test_the_advice_for_a_smaller_card_is_computed() -> None:
    config = load_config("diagnostics-credit-medgemma-4b")
    halved = memory_plan(replace(config, optim=replace(config.optim, groups=4)))
    words = f"{halved.cache / GIB:.1f} GiB of keys and values, {halved.total / GIB:.1f} in all"
    assert words in FLAT


@pytest.mark.parametrize("task", ["titration", "diagnostics", "refill"])
def test_the_break_even_quoted_is_exact(task: str) -> None:
    oracle = solve(task)
    turn, nats = f"{break_even(oracle):.3f}"[1:], f"{information_per_ask(oracle):.4f}"[1:]
    assert re.search(rf"{re.escape(turn)}\**\s+in {task} \({re.escape(nats)}", FLAT)


@pytest.mark.parametrize(
    "row", re.findall(r"^\| `(titration-lambda-[\d.]+-embedded)` \| (\S+) \| (\S+) \|$", TEXT, re.M)
)
def test_the_shaped_optimum_quoted_is_exact(row: tuple[str, str, str]) -> None:
    name, value, asks = row
    oracle = solve("titration", credit=load_config(name).reward.entropy)
    best = exact_value(oracle.task, make_policy("oracle", oracle))
    assert best.value == pytest.approx(float(value), abs=5e-5)
    assert best.mean_asks == pytest.approx(float(asks), abs=5e-3)


def test_the_six_lambdas_are_all_quoted() -> None:
    assert len(set(re.findall(r"`(titration-lambda-[\d.]+-embedded)`", TEXT))) == 6


def test_the_settings_that_the_text_recommends_are_settings() -> None:
    base = asdict(load_config("titration-outcome-embedded"))
    for section, name, value in re.findall(r"`(\w+)\.(\w+)=(\w+)`", TEXT):
        base[section][name] = value
    assert config_from(base).reward.scale == "batch"


def test_it_says_what_it_is_not() -> None:
    assert "No policy trained here is fit for patient care" in TEXT
    assert "which is no measurement for a larger model" in FLAT
