"""Small adapters, whole and broken, as an uploader would send them."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
from safetensors.numpy import save

from training.adapter_archive import CONFIG, WEIGHTS

CONFIG_BYTES = json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 4}).encode()
WEIGHT_BYTES = save(
    {
        "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": np.ones((2, 8), "f4"),
        "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight": np.ones((8, 2), "f4"),
    }
)


def archive(
    entries: dict[str, bytes] | list[tuple[str | zipfile.ZipInfo, bytes]],
    method: int = zipfile.ZIP_STORED,
) -> bytes:
    """A zip archive of any entries."""
    pairs = list(entries.items()) if isinstance(entries, dict) else entries
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as bundle:
        for name, content in pairs:
            bundle.writestr(name, content)
    return target.getvalue()


def adapter(config: bytes = CONFIG_BYTES, weights: bytes = WEIGHT_BYTES, **kwargs: int) -> bytes:
    """An archive with the two names that an adapter has."""
    return archive({CONFIG: config, WEIGHTS: weights}, **kwargs)
