"""MedGemma-4B without surprises: a dry run that needs no weights, and the text-only export.

The dry run takes the way that training takes, with a random model of the same shapes and few
layers. `python -m training.medgemma export SOURCE FOLDER` writes the text model of a checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import typer

from clinical_envs.errors import ClinicalEnvsError, InvalidArgument, require
from training.config import Config
from training.memory import TextShape, memory_plan

SOURCE = "google/medgemma-4b-it"
_GIB = 2**30
# of the dry run
_LAYERS, _TURN_TOKENS, _CONTEXT_TOKENS = 2, 2, 512

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)


def dry_run(config: Config, out: Path) -> dict[str, Any]:
    """One GRPO step of a random model with the configuration's shapes, on the way training takes.

    The model is written as a multimodal checkpoint and read as text only, gets its adapter, plays
    one group, and is updated once (in both phases of the decoupled variant). Reports what was
    built and every number that had to be smaller than in the configuration.

    Args:
        config: model.source is `embedded`, MedGemma-4B's hub id, whose shape is known here and
            whose place the embedded tokenizer takes, or a checkpoint folder with its own of both.
        out: a folder; the checkpoint and the run lie there afterwards.

    Raises:
        InvalidArgument: any other source, or anything that training itself refuses.
    """
    from clinical_envs.catalog import load_task
    from oracles.clinical import ClinicalWorld
    from training import grpo
    from training.world_words import policy_words

    world = ClinicalWorld(load_task(config.task))
    words = policy_words(world.task, menu=config.model.menu)
    text, tokenizer = _shape_of_source(config.model.source, config.seed, words)
    full = _shape(text)
    shrunk = [f"layers {text.num_hidden_layers} -> {_LAYERS}", *_fit_into_memory(text, tokenizer)]
    _cut_layers(text)
    small = _one_step(config)
    _write_random(text, tokenizer, out / "start", small)
    shrunk += _differences(config, small)
    settings = grpo.play_settings(small)
    trainer, _ = grpo.build_trainer(small, world, out / "start", out / "run", settings)
    result = trainer.train()
    facts = {
        "shape": asdict(full),
        "parameters": full.parameters,
        "lora_parameters": full.lora_parameters(config.lora),
        "memory": str(memory_plan(config, full)),
        "built_parameters": trainer.model.num_parameters(),
        "built_lora_parameters": trainer.model.num_parameters(only_trainable=True),
        "dtypes": _dtypes(trainer.model),
        "shrunk": shrunk,
        "steps": trainer.state.global_step,
        "loss": result.training_loss,
        "logged": trainer.state.log_history[0],
    }
    (out / "dry_run.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    for name, value in facts.items():
        typer.echo(f"{name}: {value}")
    return facts


@app.callback()
def _medgemma() -> None:
    """MedGemma-4B without surprises."""


@app.command()
def export(source: str, folder: Path) -> None:
    """Write the text model of a checkpoint folder or hub id, in bfloat16, with its tokenizer."""
    from training.models import export_text

    try:
        typer.echo(export_text(source, folder))
    except ClinicalEnvsError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


def _shape_of_source(source: str, seed: int, words: Sequence[str] | None) -> tuple[Any, Any]:
    """The text configuration to build from, and a tokenizer, of these words where it is ours."""
    from transformers import AutoConfig, AutoTokenizer, Gemma3TextConfig

    from training.embedded import build_model, build_tokenizer

    if Path(source).is_dir():
        try:
            text = AutoConfig.from_pretrained(source).get_text_config()
            tokenizer = AutoTokenizer.from_pretrained(source)
        except (OSError, ValueError) as error:
            raise InvalidArgument(f"{source} is no checkpoint folder: {error}") from None
        if text.model_type != "gemma3_text":
            raise InvalidArgument(f"{source} holds a {text.model_type}; a dry run builds a Gemma 3")
        return text, tokenizer
    tokenizer = build_tokenizer(words=words)
    if source == "embedded":
        return build_model(tokenizer, seed).config, tokenizer
    if source != SOURCE:
        raise InvalidArgument(
            f"the shape of {source} is not known here; a dry run takes embedded, {SOURCE} or a "
            "checkpoint folder"
        )
    shape = TextShape()
    text = Gemma3TextConfig(
        vocab_size=shape.vocab,
        hidden_size=shape.hidden,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        query_pre_attn_scalar=shape.head_dim,
        sliding_window=shape.sliding_window,
        pad_token_id=tokenizer.pad_token_id,
    )
    return text, tokenizer


def _shape(text: Any) -> TextShape:
    return TextShape(
        vocab=text.vocab_size,
        hidden=text.hidden_size,
        layers=text.num_hidden_layers,
        heads=text.num_attention_heads,
        kv_heads=text.num_key_value_heads,
        head_dim=text.head_dim,
        feed_forward=text.intermediate_size,
        sliding_window=text.sliding_window,
    )


def _cut_layers(text: Any) -> None:
    """Keep the first layers, and one of each kind of attention."""
    kinds = list(dict.fromkeys(text.layer_types))
    text.layer_types = (kinds + text.layer_types)[:_LAYERS]
    text.num_hidden_layers = _LAYERS


def _fit_into_memory(text: Any, tokenizer: Any) -> list[str]:
    """The embedding is most of a cut model; without room for it the vocabulary is the tokenizer's.

    The embedding is held once while it is written and once while it trains, in float32 at most.
    """
    needed = 3 * 4 * text.vocab_size * text.hidden_size
    if require("psutil", "train").virtual_memory().available > needed:
        return []
    vocab, text.vocab_size = text.vocab_size, len(tokenizer)
    return [f"vocabulary {vocab} -> {text.vocab_size}, for want of {needed / _GIB:.0f} GiB"]


def _write_random(text: Any, tokenizer: Any, folder: Path, config: Config) -> None:
    """A multimodal checkpoint, as MedGemma's is, with a vision tower of next to nothing."""
    import torch
    from transformers import AutoModelForImageTextToText, Gemma3Config

    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    vision |= {"num_attention_heads": 2, "image_size": 16, "patch_size": 4}
    both = Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        dtype = getattr(torch, config.model.dtype)
        model = AutoModelForImageTextToText.from_config(both, dtype=dtype)
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)


def _one_step(config: Config) -> Config:
    """A configuration of one update of two rollouts; bfloat16 is for accelerators."""
    import torch

    limits, optim = config.limits, config.optim
    dtype = config.model.dtype if torch.cuda.is_available() else "float32"
    return replace(
        config,
        model=replace(config.model, dtype=dtype),
        optim=replace(optim, steps=1, groups=1, rollouts=2, micro_batch=1, warmup_steps=0),
        limits=replace(
            limits,
            turn_tokens=min(limits.turn_tokens, _TURN_TOKENS),
            context_tokens=min(limits.context_tokens, _CONTEXT_TOKENS),
        ),
    )


def _differences(config: Config, small: Config) -> list[str]:
    return [
        f"{section}.{name} {value} -> {getattr(getattr(small, section), name)}"
        for section in ("model", "optim", "limits")
        for name, value in asdict(getattr(config, section)).items()
        if value != getattr(getattr(small, section), name)
    ]


def _dtypes(model: Any) -> dict[str, str]:
    """Of the frozen weights and of the adapter."""
    found: dict[str, set[str]] = {"frozen": set(), "adapter": set()}
    for parameter in model.parameters():
        name = str(parameter.dtype).removeprefix("torch.")
        found["adapter" if parameter.requires_grad else "frozen"].add(name)
    return {kind: ", ".join(sorted(names)) for kind, names in found.items()}


if __name__ == "__main__":
    app()
