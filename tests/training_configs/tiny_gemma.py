"""A tiny random multimodal Gemma 3 on disk, as MedGemma-4B is saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TEXT: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "query_pre_attn_scalar": 16,
    "sliding_window": 1024,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
    "max_position_embeddings": 512,
    "pad_token_id": 0,
}
VISION = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 4,
}


def multimodal(vocab: int) -> Any:
    """The whole model, vision tower included."""
    import torch
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration

    config = Gemma3Config(
        text_config=TEXT | {"vocab_size": vocab}, vision_config=VISION, mm_tokens_per_image=4
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return Gemma3ForConditionalGeneration(config).eval()


def save(folder: Path) -> Any:
    """Write it with the embedded tokenizer; returns the model."""
    from training.embedded import build_tokenizer

    tokenizer = build_tokenizer()
    model = multimodal(len(tokenizer))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model


def rename_keys(folder: Path, rename: dict[str, str]) -> None:
    """Write the weights again under other names: prefixes are replaced, "" drops a weight."""
    from safetensors.torch import load_file, save_file

    file = folder / "model.safetensors"
    renamed = {}
    for key, value in load_file(file).items():
        name = key
        for old, new in rename.items():
            if key.startswith(old):
                name = new + key.removeprefix(old) if new else ""
        if name:
            renamed[name] = value
    save_file(renamed, file, metadata={"format": "pt"})
