"""GRPO from a warmup: `accelerate launch training/grpo.py --config NAME_OR_FILE --start PATH`.

The same path trains the embedded policy on a CPU and MedGemma-4B on a GPU; model, LoRA and batch
numbers differ. A killed run is continued from its last checkpoint by the same command.
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
    start: Annotated[Path, typer.Option(help="Checkpoint folder to start from.")],
    out: Annotated[Path, typer.Option(help="Folder of the run.")],
    set_: Annotated[list[str], typer.Option("--set", help="section.field=value")] = [],  # noqa: B006
) -> None:
    """Train."""
    train(load_config(config, set_), start, out)


def train(config: Config, start: Path, out: Path) -> dict[str, Any]:
    """Run GRPO to its last step, from the newest checkpoint in `out` if there is one."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    import torch
    from datasets import Dataset
    from transformers.trainer_utils import get_last_checkpoint

    from clinical_envs.catalog import load_task
    from training.chat import ChatTokens
    from training.inprocess import InProcessEngine
    from training.models import load_policy, lora_config
    from training.plan import training_plan
    from training.rollouts import Rollouts
    from training.trainer import CreditTrainer

    if not torch.cuda.is_available():
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    world = ClinicalWorld(load_task(config.task))
    model, tokenizer = load_policy(start, config.model.dtype)
    tokens = ChatTokens(tokenizer)
    engine = InProcessEngine(model, tokens)
    rollouts = Rollouts(world, config, engine)
    plan = training_plan(world, config)
    if rollouts.decoupled:
        size = config.optim.groups
        steps = [plan[i : i + size] for i in range(0, len(plan), size)]
        plan = [case for step in steps for case in (*step, *step)]
    trainer = CreditTrainer(
        rollouts=rollouts,
        model=model,
        args=_arguments(config, out),
        train_dataset=Dataset.from_dict({"prompt": [str(case) for case in plan]}),
        processing_class=tokenizer,
        peft_config=lora_config(config),
    )
    engine.model = trainer.accelerator.unwrap_model(trainer.model)
    last = get_last_checkpoint(str(out)) if out.is_dir() else None
    trainer.train(resume_from_checkpoint=last)
    trainer.save_model(str(out / "final"))
    tokenizer.save_pretrained(out / "final")
    return {"history": trainer.state.log_history}


def _arguments(config: Config, out: Path) -> Any:
    from trl import GRPOConfig

    optim, phases = config.optim, 2 if config.reward.variant == "decoupled" else 1
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    batch = optim.groups * optim.rollouts
    micro = min(optim.micro_batch, batch // world_size)
    return GRPOConfig(
        output_dir=str(out),
        max_steps=optim.steps * phases,
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=batch // (micro * world_size),
        num_generations=optim.rollouts,
        max_completion_length=config.limits.context_tokens,
        learning_rate=optim.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=optim.warmup_steps,
        beta=0.0,
        temperature=1.0,
        loss_type="dapo",
        scale_rewards=config.reward.scale,
        shuffle_dataset=False,
        gradient_checkpointing=optim.gradient_checkpointing,
        bf16=config.model.dtype == "bfloat16",
        logging_steps=1,
        save_steps=optim.checkpoint_every * phases,
        seed=config.seed,
        report_to=["tensorboard"],
        disable_tqdm=False,
    )


if __name__ == "__main__":
    app()
