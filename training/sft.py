"""Supervised warmup: `accelerate launch training/sft.py --config NAME_OR_FILE --out PATH`.

Imitates the teacher of the configuration on the 800 cases of the `sft` set, with loss on the
policy's turns only, and writes a checkpoint folder that is a run folder too (`training.runs`). The
embedded policy is trained whole, from its random start; any other model through LoRA, merged at
the end. A killed warmup is continued by the same command.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clinical_envs.catalog import load_task
from clinical_envs.errors import ClinicalEnvsError, InvalidArgument, require
from oracles.clinical import ClinicalWorld
from training.config import Config, load_config
from training.model_card import sft_card
from training.runs import Run, last_checkpoint, open_run, process, quiet
from training.signals import check_reward

if TYPE_CHECKING:
    from clinical_envs.episode import Episode

app = typer.Typer(add_completion=False, help=__doc__)
_NEEDED = ("torch", "transformers", "trl", "peft", "accelerate", "datasets")


@app.command()
def main(
    config: Annotated[str, typer.Option(help="A shipped configuration or a TOML file.")],
    out: Annotated[Path, typer.Option(help="Folder of the checkpoint.")],
    set_: Annotated[list[str], typer.Option("--set", help="section.field=value")] = [],  # noqa: B006
) -> None:
    """Warm a policy up."""
    try:
        warm_up(load_config(config, set_), out)
    except ClinicalEnvsError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


def warm_up(config: Config, out: Path) -> Path:
    """Train on the teacher's episodes; returns the checkpoint folder.

    Raises:
        InvalidArgument: the folder holds another run, or the model cannot be loaded.
        MissingExtra: the training stack is not installed.
    """
    for module in _NEEDED:
        require(module, "train")
    quiet()
    world = ClinicalWorld(load_task(config.task))
    check_reward(world.task, config)
    run = open_run(out, config, kind="sft", task=world.key, start=config.model.source)
    if run.data["status"] == "training":
        _imitate(run, world)
    return out


def _imitate(run: Run, world: ClinicalWorld) -> None:
    from transformers import PrinterCallback
    from trl import SFTTrainer

    from training.models import lora_config
    from training.validation import Recorder

    config = run.config
    model, tokenizer = _model(config, world)
    whole = config.model.source == "embedded"
    trainer = SFTTrainer(
        model=model,
        args=_arguments(config, run.checkpoints),
        train_dataset=_dataset(config, world, tokenizer),
        processing_class=tokenizer,
        peft_config=None if whole else lora_config(config),
        callbacks=[Recorder(run)],
    )
    trainer.remove_callback(PrinterCallback)  # the run tells its steps
    trainer.train(resume_from_checkpoint=last_checkpoint(run.checkpoints))
    if run.writes:
        trained = trainer.accelerator.unwrap_model(trainer.model)
        _save(run, trained if whole else trained.merge_and_unload(), tokenizer)


def _save(run: Run, model: Any, tokenizer: Any) -> None:
    from training.checkpoint_policy import PlaySettings

    limits = run.config.limits
    model.save_pretrained(run.folder, safe_serialization=True)
    tokenizer.save_pretrained(run.folder)
    PlaySettings(
        menu=run.config.model.menu,
        turn_tokens=limits.turn_tokens,
        context_tokens=limits.context_tokens,
        dtype=run.config.model.dtype,
    ).write(run.folder)
    run.clock()
    run.note(status="finished")
    card = sft_card(run.data, run.config)
    (run.folder / "README.md").write_text(card, encoding="utf-8")


def _model(config: Config, world: ClinicalWorld) -> tuple[Any, Any]:
    """The model that learns and its tokenizer."""
    import torch

    from training.embedded import build_model, build_tokenizer
    from training.models import load_policy
    from training.world_words import policy_words

    if not torch.cuda.is_available():
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    if config.model.source != "embedded":
        return load_policy(config.model.source, config.model.dtype)
    tokenizer = build_tokenizer(words=policy_words(world.task, menu=config.model.menu))
    return build_model(tokenizer, config.seed), tokenizer


def _dataset(config: Config, world: ClinicalWorld, tokenizer: Any) -> Any:
    """The teacher's episodes as token ids, with the mask of the policy's turns."""
    from datasets import Dataset

    from training.chat import ChatTokens
    from training.supervised import examples

    tokens = ChatTokens(tokenizer)
    episodes, menu = _episodes(config, world), config.model.menu
    data = examples(world.task, episodes, tokens, modes=config.warmup.modes, menu=menu)
    rows = {
        "input_ids": [list(example.input_ids) for example in data],
        "assistant_masks": [list(example.policy_mask) for example in data],
    }
    return Dataset.from_dict(rows)


def _episodes(config: Config, world: ClinicalWorld) -> list[Episode]:
    from training.teacher import TeacherShape, biased, teacher_episodes

    teacher, shape = config.teacher, None
    if config.warmup.kind == "light":
        shape = TeacherShape(
            hazard=teacher.hazard,
            sharpness=teacher.sharpness,
            inverse_temperature=teacher.inverse_temperature,
            bias=teacher.bias,
            evidence_exponent=teacher.evidence_exponent,
        )
    episodes = teacher_episodes(world, shape, seed=config.seed)
    if config.warmup.keep_high_risk == 1.0:
        return episodes
    return biased(world, episodes, config.warmup.keep_high_risk, seed=config.seed)


def _arguments(config: Config, folder: Path) -> Any:
    import torch
    from trl import SFTConfig

    warmup, processes = config.warmup, process()[1]
    micro = min(warmup.batch_size // processes, config.optim.micro_batch)
    if micro < 1 or warmup.batch_size % (micro * processes):
        raise InvalidArgument(
            f"warmup.batch_size is {warmup.batch_size}; optim.micro_batch x processes = "
            f"{config.optim.micro_batch} x {processes} must divide it"
        )
    return SFTConfig(
        output_dir=str(folder),
        max_steps=warmup.steps,
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=warmup.batch_size // (micro * processes),
        learning_rate=warmup.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=warmup.warmup_steps,
        weight_decay=0.0,
        adam_beta2=0.95,
        max_grad_norm=1.0,
        max_length=config.limits.context_tokens,
        gradient_checkpointing=config.optim.gradient_checkpointing,
        bf16=config.model.dtype == "bfloat16",
        save_steps=max(1, warmup.steps // 5),
        save_total_limit=2,
        logging_steps=10,
        seed=config.seed,
        report_to=[],
        use_cpu=not torch.cuda.is_available(),
        dataloader_pin_memory=torch.cuda.is_available(),
        disable_tqdm=True,
    )


if __name__ == "__main__":
    app()
