"""A checkpoint as an option model."""

from __future__ import annotations

import torch

from clinical_envs.errors import InvalidArgument
from training.agents.evidence_scorer import CausalOptions
from training.models import load_policy


def load_options(spec: str) -> CausalOptions:
    """The model of `hf:FOLDER`, on the accelerator if there is one, there in bfloat16.

    Raises:
        InvalidArgument: the folder holds no checkpoint, or one without a chat template.
    """
    on_gpu = torch.cuda.is_available()
    model, tokenizer = load_policy(spec.removeprefix("hf:"), "bfloat16" if on_gpu else "float32")
    if not tokenizer.chat_template:
        raise InvalidArgument(f"{spec} has no chat template; give an instruction-tuned checkpoint")
    return CausalOptions(model.to("cuda" if on_gpu else "cpu"), tokenizer)
