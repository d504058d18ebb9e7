"""GRPO from a warmup: `accelerate launch training/grpo.py --config NAME --start PATH --out PATH`.

The same path trains the embedded policy on a CPU and MedGemma-4B on a GPU; model, LoRA and batch
numbers differ. Gates before the first step, the validation set during training, `test` and the
guarded report at the end, all in one run folder (`training.runs`). A killed run is continued from
its last checkpoint by the same command.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clinical_envs.catalog import load_task
from clinical_envs.errors import ClinicalEnvsError, InvalidArgument, require
from oracles.clinical import ClinicalWorld
from training.config import Config, load_config
from training.runs import Run, last_checkpoint, open_run, quiet, wait_for_all
from training.served_run import connected, recorder, tolerance
from training.signals import check_reward

if TYPE_CHECKING:
    from training.adapter_sync import AdapterSync
    from training.checkpoint_policy import CheckpointPolicy, PlaySettings

app = typer.Typer(add_completion=False, help=__doc__)
_NEEDED = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "tensorboard")


@app.command()
def main(
    config: Annotated[str, typer.Option(help="A shipped configuration or a TOML file.")],
    out: Annotated[Path, typer.Option(help="Folder of the run.")],
    start: Annotated[
        Path | None,
        typer.Option(help="Checkpoint folder to start from; by default model.source."),
    ] = None,
    set_: Annotated[list[str], typer.Option("--set", help="section.field=value")] = [],  # noqa: B006
) -> None:
    """Train."""
    try:
        chosen = load_config(config, set_)
        train(chosen, start_of(chosen, start), out)
    except ClinicalEnvsError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


def start_of(config: Config, start: Path | None) -> Path:
    """The checkpoint that training starts from: the given folder, or the configuration's model.

    Raises:
        InvalidArgument: it is no folder, or none is given and the model is the embedded one.
    """
    if start is not None and not start.is_dir():
        raise InvalidArgument(f"--start: no checkpoint folder {start}")
    if start is None and config.model.source == "embedded":
        raise InvalidArgument(
            "--start: the embedded policy needs a warmup; make one with clinical-envs train sft"
        )
    return start or Path(config.model.source)


def train(config: Config, start: Path, out: Path) -> dict[str, Any]:
    """Run GRPO and its evaluations to their end, from where the run in `out` stopped.

    Returns:
        What `run.json` holds.

    Raises:
        InvalidArgument: the folder holds another run, or the start cannot be loaded.
        MissingExtra: the training stack is not installed.
    """
    for module in _NEEDED:
        require(module, "train")
    quiet()
    from training.final import conclude

    world = ClinicalWorld(load_task(config.task))
    check_reward(world.task, config)
    run = open_run(out, config, kind="grpo", task=world.key, start=str(start))
    settings = play_settings(config)
    with connected(run) as sync:
        if run.data["status"] == "training":
            _optimise(run, world, start, settings, sync)
        conclude(run, world, str(start), settings, sync)
    wait_for_all()
    return run.data


def _optimise(
    run: Run, world: ClinicalWorld, start: Path, settings: PlaySettings, sync: AdapterSync | None
) -> None:
    """Gates, then every update."""
    from training.served_validation import ServedValidator, train_served
    from training.shaped import reward_facts
    from training.validation import Validator, open_gates

    facts = reward_facts(world, run.config)
    run.note(reward=asdict(facts) | {"words": str(facts)})
    run.say(str(facts))
    record = recorder(run, phases(run.config))
    trainer, player = build_trainer(
        run.config, world, start, run.checkpoints, settings, sync, record
    )
    run.note(device=str(trainer.accelerator.device))
    if sync is not None:
        trainer.meet_server(player.tokens)
    baseline = open_gates(run, world, player)
    kind = Validator if sync is None else ServedValidator
    validator = kind(run, world, player, baseline, phases(run.config))
    validator.trainer = trainer
    trainer.add_callback(validator)
    last = last_checkpoint(run.checkpoints)
    if run.writes:
        trainer.add_callback(_tensorboard(run.folder / "tensorboard", last))
    if isinstance(validator, ServedValidator):
        train_served(run, validator, last)
    else:
        trainer.train(resume_from_checkpoint=last)


def build_trainer(
    config: Config,
    world: ClinicalWorld,
    start: Path,
    folder: Path,
    settings: PlaySettings,
    sync: AdapterSync | None = None,
    record: Callable[[list[dict[str, Any]]], None] | None = None,
) -> tuple[Any, CheckpointPolicy]:
    """The trainer with its checkpoints in `folder`, and the model it trains as a policy.

    sync: the server that samples; without one this process does. record: takes a row for each
    rollout that a server sampled.
    """
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    import torch
    from datasets import Dataset
    from transformers import PrinterCallback

    from training.chat import ChatTokens
    from training.checkpoint_policy import CheckpointPolicy
    from training.inprocess import InProcessEngine
    from training.models import load_policy, lora_config
    from training.rollouts import Rollouts
    from training.served import ServedEngine
    from training.served_trainer import ServedTrainer
    from training.trainer import CreditTrainer

    if not torch.cuda.is_available():
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    model, tokenizer = load_policy(start, config.model.dtype)
    tokens = ChatTokens(tokenizer)
    engine = InProcessEngine(model, tokens) if sync is None else ServedEngine(sync, tokens)
    kind: Any = CreditTrainer
    if sync is not None:
        kind = partial(ServedTrainer, sync=sync, tolerance=tolerance(config), record=record)
    trainer = kind(
        rollouts=Rollouts(world, config, engine),
        model=model,
        args=_arguments(config, folder),
        train_dataset=Dataset.from_dict({"prompt": _prompts(world, config)}),
        processing_class=tokenizer,
        peft_config=lora_config(config),
    )
    trainer.remove_callback(PrinterCallback)  # the run tells its steps
    if isinstance(engine, InProcessEngine):
        engine.model = trainer.accelerator.unwrap_model(trainer.model)
    return trainer, CheckpointPolicy(world.task, engine, tokens, settings, "start")


def phases(config: Config) -> int:
    """Optimiser steps of one update: exploring and exploiting have their own."""
    return 2 if config.reward.variant == "decoupled" else 1


def _prompts(world: ClinicalWorld, config: Config) -> list[str]:
    """A row a group: the case's position; both phases of an update face the same cases."""
    from training.plan import training_plan

    plan, size = training_plan(world, config), config.optim.groups
    updates = [plan[i : i + size] for i in range(0, len(plan), size)]
    return [str(case) for update in updates for case in update * phases(config)]


def play_settings(config: Config) -> PlaySettings:
    """How the policies of a run are played: in its phases, within its limits."""
    from training.checkpoint_policy import PlaySettings

    return PlaySettings(
        decoupled=config.reward.variant == "decoupled",
        menu=config.model.menu,
        turn_tokens=config.limits.turn_tokens,
        context_tokens=config.limits.context_tokens,
        dtype=config.model.dtype,
        batch_size=config.optim.groups * config.optim.rollouts,
    )


def _tensorboard(folder: Path, last: str | None) -> Any:
    """Writes into `folder`; points after the checkpoint that training goes on from are dropped."""
    from torch.utils.tensorboard import SummaryWriter
    from transformers.integrations import TensorBoardCallback

    step = int(Path(last).name.split("-")[1]) if last else 0
    return TensorBoardCallback(SummaryWriter(str(folder), purge_step=step + 1))


def _arguments(config: Config, folder: Path) -> Any:
    import torch
    from trl import GRPOConfig

    optim = config.optim
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    batch = optim.groups * optim.rollouts
    micro = min(optim.micro_batch, batch // world_size)
    if micro == 0 or batch % (micro * world_size):
        raise InvalidArgument(
            f"optim.groups x optim.rollouts is {batch} and cannot be divided into micro-batches of "
            f"{micro} on {world_size} processes; choose another optim.micro_batch or number of them"
        )
    return GRPOConfig(
        output_dir=str(folder),
        max_steps=optim.steps * phases(config),
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=batch // (micro * world_size),
        num_generations=optim.rollouts,
        max_completion_length=config.limits.context_tokens,
        learning_rate=optim.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=optim.warmup_steps,
        beta=optim.kl,
        epsilon=optim.clip_low,
        epsilon_high=optim.clip_high,
        use_bias_correction_kl=False,  # the term as EG-GRPO and GRPO were published
        temperature=1.0,
        loss_type="dapo" if optim.mean == "tokens" else "grpo",
        vllm_importance_sampling_mode="token_truncate",  # read where a server samples
        scale_rewards=config.reward.scale,
        shuffle_dataset=False,
        gradient_checkpointing=optim.gradient_checkpointing,
        bf16=config.model.dtype == "bfloat16",
        logging_steps=1,
        save_steps=optim.checkpoint_every * phases(config),
        save_total_limit=2,
        seed=config.seed,
        report_to=[],
        use_cpu=not torch.cuda.is_available(),
        dataloader_pin_memory=torch.cuda.is_available(),
        disable_tqdm=True,
    )


if __name__ == "__main__":
    app()
