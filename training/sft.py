"""Supervised warmup: `accelerate launch training/sft.py --config NAME_OR_FILE --out PATH`.

Imitates the teacher of the configuration on the 800 cases of the `sft` set, with loss on the
policy's turns only, and writes a checkpoint folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from oracles.clinical import ClinicalWorld
from training.config import Config, load_config

app = typer.Typer(add_completion=False, help=__doc__)


@app.command()
def main(
    config: Annotated[str, typer.Option(help="A shipped configuration or a TOML file.")],
    out: Annotated[Path, typer.Option(help="Folder of the checkpoint.")],
    set_: Annotated[list[str], typer.Option("--set", help="section.field=value")] = [],  # noqa: B006
) -> None:
    """Warm a policy up."""
    warm_up(load_config(config, set_), out)


def warm_up(config: Config, out: Path) -> Path:
    """Train on the teacher's episodes; returns the checkpoint folder."""
    import torch
    from datasets import Dataset
    from trl import SFTTrainer

    from clinical_envs.catalog import load_task
    from training.chat import ChatTokens
    from training.embedded import build_model, build_tokenizer
    from training.models import load_policy
    from training.supervised import examples
    from training.teacher import TeacherShape, biased, teacher_episodes

    if not torch.cuda.is_available():
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    world = ClinicalWorld(load_task(config.task))
    if config.model.source == "embedded":
        tokenizer = build_tokenizer()
        model = build_model(tokenizer, config.seed)
    else:
        model, tokenizer = load_policy(config.model.source, config.model.dtype)
    teacher = config.teacher
    shape = None
    if config.warmup.kind == "light":
        shape = TeacherShape(
            hazard=teacher.hazard,
            sharpness=teacher.sharpness,
            inverse_temperature=teacher.inverse_temperature,
            bias=teacher.bias,
            evidence_exponent=teacher.evidence_exponent,
        )
    episodes = teacher_episodes(world, shape, seed=config.seed)
    if config.warmup.keep_high_risk < 1.0:
        episodes = biased(world, episodes, config.warmup.keep_high_risk, seed=config.seed)
    data = examples(world.task, episodes, ChatTokens(tokenizer), modes=config.warmup.modes)
    rows = {
        "input_ids": [list(example.input_ids) for example in data],
        "assistant_masks": [list(example.policy_mask) for example in data],
    }
    trainer = SFTTrainer(
        model=model,
        args=_arguments(config, out),
        train_dataset=Dataset.from_dict(rows),
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.model.save_pretrained(out, safe_serialization=True)
    tokenizer.save_pretrained(out)
    return out


def _arguments(config: Config, out: Path) -> Any:
    from trl import SFTConfig

    warmup = config.warmup
    return SFTConfig(
        output_dir=str(out),
        max_steps=warmup.steps,
        per_device_train_batch_size=warmup.batch_size,
        learning_rate=warmup.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=warmup.warmup_steps,
        weight_decay=0.0,
        adam_beta2=0.95,
        max_grad_norm=1.0,
        max_length=config.limits.context_tokens,
        gradient_checkpointing=False,
        bf16=config.model.dtype == "bfloat16",
        save_strategy="no",
        logging_steps=10,
        seed=config.seed,
        report_to=[],
    )


if __name__ == "__main__":
    app()
