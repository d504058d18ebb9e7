"""Models and adapters: the embedded policy, any local or hub checkpoint, and what can go wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from clinical_envs.errors import InvalidArgument, require
from training.config import Config

# a multimodal checkpoint names its text model in one of two ways, by the version that saved it
_TEXT_KEYS = {
    r"^(?:language_model\.model|model\.language_model)\.": "model.",
    r"^language_model\.lm_head\.": "lm_head.",
}


def load_policy(source: str | Path, dtype: str = "float32") -> tuple[Any, Any]:
    """A causal language model and its tokenizer, text only, with no weight left random.

    A multimodal Gemma 3 checkpoint (MedGemma-4B) is read into its text model; loading it into the
    text class without renaming its keys would leave every weight random, with a warning only.

    Args:
        source: a checkpoint folder, or a hub id.
        dtype: of the weights, `float32` or `bfloat16`; the checkpoint's own does not matter.

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
            kind = Gemma3ForCausalLM
            extra = {"key_mapping": _TEXT_KEYS, "config": config.text_config}
        with _without_load_report():
            model, report = kind.from_pretrained(
                source, dtype=getattr(torch, dtype), output_loading_info=True, **extra
            )
    except (OSError, ValueError) as error:
        raise InvalidArgument(_why_not_loaded(str(source), error)) from error
    refuse_random(source, report["missing_keys"])
    # it remembers the renaming, and would undo it in every checkpoint saved from here on
    vars(model).pop("_weight_conversions", None)
    return model.eval(), tokenizer


def refuse_random(source: str | Path, missing: Collection[str]) -> None:
    """Raise when a checkpoint lacked weights, which loading drew at random.

    Raises:
        InvalidArgument: missing is not empty.
    """
    if missing:
        raise InvalidArgument(
            f"{source}: {len(missing)} weights are not in the checkpoint, such as "
            f"{sorted(missing)[0]}; they would stay random. Check that the folder is complete, and "
            "that its config.json belongs to its weights"
        )


def export_text(source: str | Path, folder: str | Path) -> Path:
    """Write the text model of a checkpoint in bfloat16, with its tokenizer; returns the folder.

    A multimodal checkpoint loses its vision tower. Adapters trained on the export fit it and
    nothing else, so whatever serves them must serve the export too.
    """
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


@contextmanager
def _without_load_report() -> Iterator[None]:
    """Without a table of the vision tower's weights; missing ones are checked and raise."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def _why_not_loaded(source: str, error: BaseException) -> str:
    hub = require("huggingface_hub.errors", "train")
    if source.count("/") > 1 and not Path(source).exists():
        return f"{source} does not exist; give a checkpoint folder, or a hub id"
    causes = tuple(_causes(error))
    if any(isinstance(cause, hub.GatedRepoError) for cause in causes):
        return (
            f"{source} is gated: accept its terms at https://huggingface.co/{source}, set HF_TOKEN "
            "to a token that may read it, or give the folder of a local copy"
        )
    if any(isinstance(cause, hub.RepositoryNotFoundError) for cause in causes):
        return (
            f"{source} is neither a folder nor a model that can be read on the hub; check the "
            "spelling, and set HF_TOKEN if it is private or gated"
        )
    offline = (hub.LocalEntryNotFoundError, hub.OfflineModeIsEnabled)
    if any(isinstance(cause, offline) for cause in causes):
        return (
            f"{source} is not on this machine and the hub cannot be reached; where it can, run "
            f"`hf download {source} --local-dir FOLDER`, bring the folder here and give its path"
        )
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return f"{source} cannot be loaded ({first}); give a checkpoint folder or a hub id"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
