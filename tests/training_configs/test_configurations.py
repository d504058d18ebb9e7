"""Shipped configurations: what is there, what it says, and what its teachers are worth."""

from __future__ import annotations

import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clinical_envs.catalog import load_task
from clinical_envs.errors import InvalidArgument
from oracles.clinical import ClinicalWorld
from oracles.evaluation import evaluate
from training.config import config_from, config_names, load_config
from training.teacher import NoisyTeacher, TeacherShape

FOLDER = Path(__file__).parents[2] / "training" / "configs"
TASKS = ("diagnostics", "titration", "refill")
MODELS = ("embedded", "medgemma-4b")
LAMBDAS = (0.0, 0.03, 0.1, 0.15, 0.2, 0.3)
WARMUPS = ("light", "full", "full-severe", "full-mild")

every_task = pytest.mark.parametrize("task", TASKS)
every_model = pytest.mark.parametrize("model", MODELS)


def layers(kind: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / f"{kind}.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", config_names())
def test_every_shipped_configuration_loads_and_names_its_task(name: str) -> None:
    config = load_config(name)
    assert name.startswith(f"{config.task}-")
    assert load_task(config.task).name == config.task


def test_the_names_are_the_combinations_of_layers() -> None:
    """A task lists its variants, or has all that pay no proxy."""
    variants = layers("variants")
    without_proxy = [name for name, layer in variants.items() if "proxy" not in str(layer)]
    combinations = {
        f"{task}-{variant}-{model}"
        for task, layer in layers("tasks").items()
        for variant in layer.get("variants", without_proxy)
        for model in layers("models")
    }
    assert set(config_names()) == combinations
    clinical = [name for name in combinations if name.partition("-")[0] in TASKS]
    assert (len(combinations), len(clinical)) == (116, 84)


def test_a_refinement_names_a_layer_that_exists() -> None:
    known = {name for kind in ("tasks", "variants", "models") for name in layers(kind)}
    named = {
        other
        for kind in ("tasks", "variants", "models")
        for layer in layers(kind).values()
        for other in (*layer.get("with", {}), *layer.get("variants", ()))
    }
    assert named
    assert named <= known


@every_task
@every_model
def test_variants_pay_for_what_their_names_say(task: str, model: str) -> None:
    rewards = {
        variant: load_config(f"{task}-{variant}-{model}").reward
        for variant in ("outcome", "credit", "decoupled", "recommended")
    }
    assert (rewards["outcome"].variant, rewards["outcome"].scale) == ("outcome", "group")
    assert rewards["credit"].variant == "credit"
    assert rewards["credit"].entropy == {"diagnostics": 0.2, "titration": 0.1, "refill": 0.1}[task]
    assert rewards["credit"].outcome == 1.0
    assert (rewards["decoupled"].variant, rewards["decoupled"].kappa) == ("decoupled", 0.0)
    recommended = rewards["recommended"]
    assert (recommended.outcome, recommended.regret) == (0.0, 1.0)
    assert (recommended.scale, recommended.high_risk_share) == ("batch", 0.2)


@every_task
@every_model
def test_starts_differ_as_the_variants_need(task: str, model: str) -> None:
    starts = {
        variant: load_config(f"{task}-{variant}-{model}").warmup
        for variant in ("outcome", "credit", "decoupled", "recommended", "full")
    }
    assert starts["outcome"] == starts["credit"]
    assert starts["outcome"].kind == starts["decoupled"].kind == "light"
    assert starts["decoupled"].modes
    assert starts["decoupled"].steps > starts["outcome"].steps
    assert starts["recommended"].kind == "full"
    assert starts["recommended"].steps < starts["full"].steps


@every_model
def test_the_lambda_sweep_differs_in_lambda_only(model: str) -> None:
    configs = [load_config(f"titration-lambda-{value:g}-{model}") for value in LAMBDAS]
    assert [config.reward.entropy for config in configs] == list(LAMBDAS)
    rest = []
    for config in configs:
        plain = asdict(config)
        plain["reward"] |= {"entropy": None, "variant": None}
        rest.append(plain)
    assert all(plain == rest[0] for plain in rest)


def test_a_step_of_the_sweep_at_the_credit_variants_lambda_is_the_credit_variant() -> None:
    swept, credit = (
        load_config("titration-lambda-0.1-embedded"),
        load_config("titration-credit-embedded"),
    )
    assert swept.hash == credit.hash
    assert load_config("titration-lambda-0-embedded") == load_config("titration-outcome-embedded")


def test_warmups_keep_the_share_of_high_risk_episodes_that_they_name() -> None:
    kept = {
        name: load_config(f"diagnostics-{name}-embedded").warmup.keep_high_risk for name in WARMUPS
    }
    assert kept == {"light": 1.0, "full": 1.0, "full-severe": 0.0, "full-mild": 0.3}
    kinds = [load_config(f"diagnostics-{name}-embedded").warmup.kind for name in WARMUPS]
    assert kinds == ["light", "full", "full", "full"]


def test_the_two_models_have_the_published_and_the_measured_numbers() -> None:
    small = load_config("diagnostics-outcome-embedded")
    assert (small.optim.learning_rate, small.limits.turn_tokens) == (4e-4, 12)
    assert (small.limits.context_tokens, small.model.dtype) == (512, "float32")
    assert load_config("diagnostics-decoupled-embedded").optim.learning_rate == 2e-4
    large = load_config("diagnostics-outcome-medgemma-4b")
    assert large.model.source == "google/medgemma-4b-it"
    assert large.model.dtype == "bfloat16"
    assert (large.lora.rank, large.lora.alpha) == (16, 32)
    optim = large.optim
    assert (optim.learning_rate, optim.steps, optim.checkpoint_every) == (1e-5, 60, 10)
    assert (optim.groups, optim.rollouts) == (8, 8)
    assert optim.gradient_checkpointing
    assert optim.micro_batch < optim.groups * optim.rollouts
    assert (large.limits.turn_tokens, large.limits.context_tokens) == (96, 2048)


@pytest.mark.parametrize(
    ("override", "meant"),
    [("optim.step=3", "steps"), ("optimm.steps=3", "optim"), ("vllm.ur=x", "url")],
)
def test_an_unknown_field_is_refused_with_the_nearest_one(override: str, meant: str) -> None:
    with pytest.raises(InvalidArgument, match=f"no field .*did you mean '{meant}'"):
        load_config("diagnostics-outcome-embedded", [override])


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(InvalidArgument, match="did you mean 'refill-credit-embedded'"):
        load_config("refil-credit-embeded")


def test_an_override_wins_over_every_layer_and_changes_the_hash() -> None:
    name = "titration-recommended-embedded"
    changed = load_config(name, ["warmup.steps=7", "reward.scale=group", "seed=3"])
    assert (changed.warmup.steps, changed.reward.scale, changed.seed) == (7, "group", 3)
    assert changed.hash != load_config(name).hash


def test_loading_twice_gives_the_same_configuration_and_changes_no_layer() -> None:
    first = load_config("diagnostics-recommended-medgemma-4b")
    load_config("diagnostics-outcome-embedded", ["optim.steps=1"])
    again = load_config("diagnostics-recommended-medgemma-4b")
    assert (again, again.hash) == (first, first.hash)
    assert config_from(asdict(first)).hash == first.hash


def test_a_file_still_works_alone(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('task = "titration"\n[warmup]\nkind = "full"\nsteps = 4\n', encoding="utf-8")
    config = load_config(file)
    assert (config.task, config.warmup.steps, config.model.source) == ("titration", 4, "embedded")
    file.write_text('task = "titration"\n[warmup]\nkinds = "full"\n', encoding="utf-8")
    with pytest.raises(InvalidArgument, match=r"warmup\.kinds"):
        load_config(file)


@pytest.mark.parametrize(
    ("task", "value", "asks"),
    # notes of the study that chose the shapes: about .25 and 2.5; -.03 and 2.8; .26 and 2.9
    [("diagnostics", (0.22, 0.29), (2.4, 2.7)), ("titration", (-0.06, -0.01), (2.7, 2.95)),
     ("refill", (0.24, 0.31), (2.7, 3.0))],
)  # fmt: skip
def test_a_teacher_is_worth_what_its_start_should_be(
    task: str, value: tuple[float, float], asks: tuple[float, float]
) -> None:
    world, teacher = ClinicalWorld(load_task(task)), load_config(f"{task}-light-embedded").teacher
    policy = NoisyTeacher(
        world.task,
        TeacherShape(
            hazard=teacher.hazard,
            sharpness=teacher.sharpness,
            inverse_temperature=teacher.inverse_temperature,
            bias=teacher.bias,
            evidence_exponent=teacher.evidence_exponent,
        ),
    )
    rows = [world.assess(e) for e in evaluate(world, policy, world.cases("sft"), k=2, seed=5)]
    mean_asks = np.mean([row.asks for row in rows])
    zero_asks = np.mean([row.asks == 0 for row in rows])
    assert value[0] < np.mean([row.reward for row in rows]) < value[1]
    assert asks[0] < mean_asks < asks[1]
    assert zero_asks <= 0.08
    if task == "titration":
        reduced = np.mean([row.decision == "reduced_intensity" for row in rows])
        assert 0.02 < reduced < 0.08
    if task == "diagnostics":
        hedges = np.mean([row.decision == "observe_serial" for row in rows])
        assert 0.40 < hedges < 0.50
        discharges = np.mean([row.decision == "discharge" for row in rows])
        assert 0.01 < discharges < 0.03  # rare, not absent: gate 2 asks for it
