"""MedGemma without its weights: sizes, memory, the dry run and the export command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from clinical_envs.errors import InvalidArgument, require
from tests.training.toy import NEEDS
from tests.training_configs import tiny_gemma
from training.config import Config, Lora, load_config
from training.medgemma import app, dry_run
from training.memory import TextShape, memory_plan

torch = pytest.importorskip("torch", reason=NEEDS)
pytest.importorskip("trl", reason=NEEDS)

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore:'pin_memory' argument:UserWarning"
)
GIB = 2**30


def on(folder: Path, name: str) -> Config:
    """A shipped configuration with another source."""
    config = load_config(name)
    return replace(config, model=replace(config.model, source=str(folder)))


def text_config(shape: TextShape) -> Any:
    from transformers import Gemma3TextConfig

    return Gemma3TextConfig(
        vocab_size=shape.vocab,
        hidden_size=shape.hidden,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        sliding_window=shape.sliding_window,
    )


def test_the_counted_parameters_are_those_of_the_real_class_at_full_depth() -> None:
    from peft import get_peft_model
    from transformers import Gemma3ForCausalLM

    from training.models import lora_config

    shape, config = TextShape(), load_config("diagnostics-outcome-medgemma-4b")
    with torch.device("meta"):
        model = Gemma3ForCausalLM(text_config(shape))
        assert model.num_parameters() == shape.parameters == 3_880_263_168
        adapted = get_peft_model(model, lora_config(config))
    trained = adapted.num_parameters(only_trainable=True)
    assert trained == shape.lora_parameters(config.lora) == 29_802_496


def test_lora_parameters_follow_rank_and_targets() -> None:
    shape = TextShape(vocab=10, hidden=4, layers=3, heads=2, kv_heads=1, head_dim=2, feed_forward=8)
    assert shape.lora_parameters(Lora(rank=5, targets=("q_proj",))) == 3 * 5 * (4 + 4)
    assert shape.lora_parameters(Lora(rank=5, targets=("k_proj",))) == 3 * 5 * (4 + 2)
    assert shape.lora_parameters(Lora(rank=5, targets=("down_proj",))) == 3 * 5 * (8 + 4)


def test_the_memory_plan_of_the_shipped_configuration() -> None:
    plan = memory_plan(load_config("diagnostics-credit-medgemma-4b"))
    assert plan.base == 2 * 3_880_263_168
    assert plan.adapter == 16 * 29_802_496
    assert plan.cache == 64 * 2048 * 139_264
    assert plan.total == plan.base + plan.adapter + plan.cache
    assert 20 * GIB < plan.total < 30 * GIB


def test_a_cache_of_the_planned_size_is_what_a_model_keeps() -> None:
    from transformers import Gemma3ForCausalLM

    shape = TextShape(vocab=50, hidden=32, layers=3, heads=4, kv_heads=2, head_dim=8,
                      feed_forward=64)  # fmt: skip
    config = load_config("diagnostics-outcome-embedded", ["limits.context_tokens=24"])
    ids = torch.ones(64, 24, dtype=torch.long)
    with torch.no_grad():
        cache = Gemma3ForCausalLM(text_config(shape)).eval()(input_ids=ids).past_key_values
    kept = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    assert memory_plan(config, shape).cache == kept


@pytest.mark.parametrize("layers", [1, 3])
def test_the_planned_activations_are_within_a_fifth_of_what_autograd_keeps(layers: int) -> None:
    shape = TextShape(vocab=50, hidden=160, layers=layers, heads=8, kv_heads=4, head_dim=16,
                      feed_forward=640)  # fmt: skip
    config = load_config(
        "diagnostics-outcome-medgemma-4b",
        ["lora.rank=2", "optim.micro_batch=1", "limits.context_tokens=256",
         "optim.gradient_checkpointing=false"],
    )  # fmt: skip
    planned = memory_plan(config, shape).activations
    assert planned == pytest.approx(_kept_for_backward(shape, config), rel=0.2)
    checkpointed = replace(config, optim=replace(config.optim, gradient_checkpointing=True))
    difference = planned - memory_plan(checkpointed, shape).activations
    assert (difference > 0) == (layers > 1)


def _kept_for_backward(shape: TextShape, config: Config) -> int:
    """Bytes of distinct storages that autograd saves in one forward pass, weights left out."""
    from peft import get_peft_model
    from transformers import Gemma3ForCausalLM

    from training.models import lora_config

    model = get_peft_model(
        Gemma3ForCausalLM(text_config(shape)).to(torch.bfloat16), lora_config(config)
    ).train()
    model.enable_input_require_grads()
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: list[Any] = []

    def keep(tensor: Any) -> Any:
        kept.append(tensor)
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16),
    ):
        model.get_base_model().model(input_ids=torch.ones(1, 256, dtype=torch.long))
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in kept}
    return sum(size for place, size in storages.items() if place not in weights)


def test_a_dry_run_takes_one_step_and_tells_what_it_made_smaller(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny_gemma.save(tmp_path / "source")
    config = on(tmp_path / "source", "titration-credit-medgemma-4b")
    facts = dry_run(config, tmp_path / "dry")
    assert facts["steps"] == 1
    assert facts["loss"] == pytest.approx(0.0, abs=1e-6)  # every rollout of a random model fails
    assert facts["shape"]["layers"] == 3
    assert facts["lora_parameters"] == _linear_lora(layers=3)
    assert facts["built_lora_parameters"] == _linear_lora(layers=2)
    assert facts["dtypes"]["adapter"] == "float32"
    assert {"layers 3 -> 2", "optim.rollouts 8 -> 2", "limits.context_tokens 2048 -> 512"} <= set(
        facts["shrunk"]
    )
    assert facts["logged"]["rollout/parse_failure_rate"] == 1.0
    assert json.loads((tmp_path / "dry" / "dry_run.json").read_text(encoding="utf-8")) == facts
    printed = capsys.readouterr().out
    for word in ("shape", "parameters", "memory: base", "shrunk", "dtypes"):
        assert word in printed


def _linear_lora(layers: int) -> int:
    """By hand: rank 16 on maps of 32-32, 32-16 (twice), 32-32, 32-64 (twice), 64-32."""
    return layers * 16 * (64 + 48 + 48 + 64 + 96 + 96 + 96)


def test_a_dry_run_of_the_decoupled_variant_updates_in_both_phases(tmp_path: Path) -> None:
    tiny_gemma.save(tmp_path / "source")
    facts = dry_run(on(tmp_path / "source", "titration-decoupled-medgemma-4b"), tmp_path / "dry")
    assert facts["steps"] == 2


def test_a_model_whose_vocabulary_does_not_fit_gets_the_tokenizers_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from training.medgemma import _fit_into_memory

    text = text_config(TextShape())
    assert text.vocab_size == 262_208
    psutil = require("psutil", "train")
    memory = psutil.virtual_memory()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory._replace(available=GIB))
    assert _fit_into_memory(text, range(400)) == ["vocabulary 262208 -> 400, for want of 8 GiB"]
    assert text.vocab_size == 400
    assert _fit_into_memory(text, range(400)) == []


@pytest.mark.parametrize("source", ["someone/else-7b", "google/medgemma-27b-text-it"])
def test_a_dry_run_refuses_a_model_whose_shape_it_does_not_know(
    tmp_path: Path, source: str
) -> None:
    with pytest.raises(InvalidArgument, match="not known here"):
        dry_run(on(Path(source), "titration-outcome-medgemma-4b"), tmp_path)


def test_the_export_command_writes_a_text_checkpoint(tmp_path: Path) -> None:
    tiny_gemma.save(tmp_path / "source")
    target = tmp_path / "text"
    result = CliRunner().invoke(app, ["export", str(tmp_path / "source"), str(target)])
    assert result.exit_code == 0, result.output
    config = json.loads((target / "config.json").read_text(encoding="utf-8"))
    assert config["model_type"] == "gemma3_text"
    assert (target / "tokenizer.json").is_file()


def test_the_export_command_says_in_one_line_what_is_wrong(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["export", str(tmp_path), str(tmp_path / "text")])
    assert result.exit_code == 2
    assert result.output.startswith("error: ")
    assert len(result.output.splitlines()) == 1
