"""Models and adapters: the embedded policy, any local or hub checkpoint, and what can go wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from clinical_envs.errors import InvalidArgument
from training.config import Config

_TEXT_KEYS = {r"^language_model\.model\.": "model.", r"^language_model\.lm_head": "lm_head"}


def load_policy(source: str | Path, dtype: str = "float32") -> tuple[Any, Any]:
    """A causal language model and its tokenizer, text only, with no weight left random.

    A multimodal Gemma 3 checkpoint (MedGemma-4B) is read into its text model; loading it into the
    text class without renaming its keys would leave every weight random, with a warning only.

    Raises:
        InvalidArgument: the checkpoint is missing, gated, or lacks weights of the text model.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, Gemma3ForCausalLM

    try:
        config = AutoConfig.from_pretrained(source)
        tokenizer = AutoTokenizer.from_pretrained(source)
        kind: Any = AutoModelForCausalLM
        extra: dict[str, Any] = {}
        if config.model_type == "gemma3":
            kind, extra = (
                Gemma3ForCausalLM,
                {"key_mapping": _TEXT_KEYS, "config": config.text_config},
            )
        model, report = kind.from_pretrained(
            source, dtype=getattr(torch, dtype), output_loading_info=True, **extra
        )
    except OSError as error:
        raise InvalidArgument(_why_not_loaded(source, error)) from error
    if report["missing_keys"]:
        some = sorted(report["missing_keys"])[:3]
        raise InvalidArgument(
            f"{source}: {len(report['missing_keys'])} weights are not in the checkpoint, such as "
            f"{some}; they would stay random. Export the text model with export_text first"
        )
    return model.eval(), tokenizer


def export_text(source: str | Path, folder: str | Path) -> Path:
    """Write the text-only checkpoint of a multimodal one, to be used on both nodes."""
    model, tokenizer = load_policy(source, "bfloat16")
    path = Path(folder)
    model.save_pretrained(path, safe_serialization=True)
    tokenizer.save_pretrained(path)
    return path


def lora_config(config: Config) -> Any:
    """The PEFT configuration of a run."""
    from peft import LoraConfig

    lora = config.lora
    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.targets),
        task_type="CAUSAL_LM",
    )


def _why_not_loaded(source: str | Path, error: OSError) -> str:
    text = f"{type(error).__name__} {type(error.__cause__).__name__} {error}"
    if "GatedRepo" in text or "gated" in text.lower() or "401" in text:
        return (
            f"{source} is gated: accept its terms on its model page, set HF_TOKEN to a token that "
            "may read it, or give the path of a local copy"
        )
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return f"{source} cannot be loaded ({first}); give a local checkpoint folder or set HF_TOKEN"
