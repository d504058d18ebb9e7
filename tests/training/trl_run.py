"""GRPO on the toy through TRL's own trainer, with a hold on what it computes.

Run as a module it is one process of a distributed run: it plays one update's rollouts, takes two
steps and writes what every process saw. Arguments: folder of the policy, processes, output file.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from peft import LoraConfig
from trl import GRPOConfig

from tests.training.toy import chat, tokenizer, toy_config, toy_world
from training.config import LINEAR_LAYERS, Config
from training.inprocess import InProcessEngine
from training.plan import training_plan
from training.rollouts import Rollouts, Scored
from training.trainer import CreditTrainer


class Watched(CreditTrainer):
    """Keeps each batch of rollouts with what the trainer made of it."""

    def __init__(self, **kwargs: Any) -> None:
        self.seen: list[tuple[list[Scored], dict[str, Any]]] = []
        super().__init__(**kwargs)

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        kept = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in output.items()}
        self.seen.append((list(self.rollouts.last), kept))
        return output


def make_trainer(config: Config, model: Any, out: Path, *, processes: int = 1) -> Watched:
    """A trainer on the toy, ready to train."""
    world, optim = toy_world(), config.optim
    engine = InProcessEngine(model, chat())
    rollouts = Rollouts(world, config, engine)
    plan = training_plan(world, config)
    phases = 2 if rollouts.decoupled else 1
    size = optim.groups
    steps = [plan[i : i + size] for i in range(0, len(plan), size)]
    rows = [str(case) for step in steps for case in step * phases]
    batch = optim.groups * optim.rollouts
    micro = min(optim.micro_batch, batch // processes)
    trainer = Watched(
        rollouts=rollouts,
        model=model,
        args=GRPOConfig(
            output_dir=str(out),
            max_steps=optim.steps * phases,
            per_device_train_batch_size=micro,
            gradient_accumulation_steps=batch // (micro * processes),
            num_generations=optim.rollouts,
            max_completion_length=config.limits.context_tokens,
            learning_rate=optim.learning_rate,
            lr_scheduler_type="constant",
            beta=0.0,
            loss_type="dapo",
            scale_rewards=config.reward.scale,
            shuffle_dataset=False,
            activation_checkpointing=False,
            bf16=False,
            use_cpu=True,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_pin_memory=False,
        ),
        train_dataset=Dataset.from_dict({"prompt": rows}),
        processing_class=tokenizer(),
        peft_config=LoraConfig(r=8, lora_alpha=16, target_modules=list(LINEAR_LAYERS)),
    )
    engine.model = trainer.accelerator.unwrap_model(trainer.model)
    return trainer


def main(policy: str, processes: int, out: str) -> None:
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    config = toy_config(
        reward={"variant": "credit", "entropy": 0.1, "per_turn": True, "scale": "batch"}
    )
    model = AutoModelForCausalLM.from_pretrained(policy)
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(config, model, Path(folder), processes=processes)
        assert trainer.accelerator.num_processes == processes
        trainer.train()
    rows = [gather_object(_rows(*batch)) for batch in trainer.seen]
    if trainer.accelerator.is_main_process:
        world_size = int(os.environ["WORLD_SIZE"])
        Path(out).write_text(json.dumps({"world_size": world_size, "batches": rows}))


def _rows(scored: list[Scored], output: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "case": rollout.case,
            "completion": list(rollout.record.completion_ids),
            "reward": rollout.reward,
            "advantages": [advantages[start].item() for start, _ in rollout.record.turns],
        }
        for rollout, advantages in zip(scored, output["advantages"], strict=True)
    ]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
