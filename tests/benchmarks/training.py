"""Rollouts of the embedded policy: the engine, a plain generate loop, and what a GRPO step spends.

The policy is the embedded default after 100 supervised steps on the light teacher of diagnostics,
so that its encounters have the shape of those that training sees. Every figure plays 64 encounters
(8 cases x 8) at temperature 1; both sides of a ratio run side by side.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clinical_envs.catalog import load_task
from oracles.clinical import ClinicalWorld
from oracles.evaluation import evaluate
from tests.benchmarks.record import Figure, alternating, at_least, at_most, middle, seconds
from tests.training.toy import imitate, shipped_teacher
from training.chat import ChatTokens
from training.config import Config, config_from
from training.dialogue import EpisodeSpeaker
from training.embedded import build_model, build_tokenizer
from training.engine import Sampling
from training.supervised import examples
from training.teacher import NoisyTeacher

SFT_STEPS = 100
GROUPS, ROLLOUTS, PLAYS, ROUNDS, UPDATES = 8, 8, 3, 7, 3
SAMPLING = Sampling(max_turn_tokens=24, max_context_tokens=512)


@dataclass
class Clock:
    """Seconds spent inside what it times."""

    spent: float = 0.0
    _depth: int = field(default=0, repr=False)

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with its time counted; a call inside another counts once."""

        def run(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.spent += time.perf_counter() - start

        return run


def figures() -> Iterator[Figure]:
    import torch

    from training.inprocess import InProcessEngine

    torch.set_num_threads(1)
    world = ClinicalWorld(load_task("diagnostics"))
    tokens = ChatTokens(build_tokenizer())
    model = _warm(world, tokens)
    engine = InProcessEngine(model, tokens)
    plain = _times(world, lambda speakers: _regenerate(model, tokens, speakers))
    lockstep = _times(world, lambda speakers: engine.play(speakers, _seeds(), SAMPLING))
    ratio, detail = middle(alternating(plain, lockstep, ROUNDS))
    yield at_least("engine_vs_regenerate", ratio, "ratio", 1.5, f"{detail}, {PLAYS} plays each")
    shares = [_overhead(world, engine) for _ in range(ROUNDS)]
    detail = f"{middle(shares)[1]}; share of a rollout outside model.forward"
    yield at_most("engine_overhead_share", middle(shares)[0], "share", 0.35, detail)
    share, detail = _env_share(world, tokens, model)
    yield at_most("env_share_of_step", share, "share", 0.03, detail)


def _speakers(world: ClinicalWorld) -> list[EpisodeSpeaker]:
    cases = world.cases("train")[:GROUPS]
    return [EpisodeSpeaker(world.task, case) for case in cases for _ in range(ROLLOUTS)]


def _seeds() -> range:
    return range(GROUPS * ROLLOUTS)


def _times(
    world: ClinicalWorld, play: Callable[[list[EpisodeSpeaker]], Any]
) -> Callable[[], float]:
    """Measures the seconds of some plays of the 64 encounters."""
    return lambda: sum(seconds(lambda: play(_speakers(world))) for _ in range(PLAYS))


def _warm(world: ClinicalWorld, tokens: ChatTokens) -> Any:
    """The embedded default after a few supervised steps on the light teacher."""
    teacher = NoisyTeacher(world.task, shipped_teacher("diagnostics"))
    episodes = evaluate(world, teacher, world.cases("sft")[:400], k=1)
    data = examples(world.task, episodes, tokens)
    return imitate(build_model(tokens.tokenizer, seed=0), data, SFT_STEPS, batch=32)


def _regenerate(model: Any, tokens: ChatTokens, speakers: Sequence[EpisodeSpeaker]) -> None:
    """The plain loop: each turn encodes every dialogue anew, padded on the left, and generates."""
    import torch

    torch.manual_seed(0)
    dialogues = [list(tokens.prompt(speaker.opening)) for speaker in speakers]
    active = list(range(len(speakers)))
    while active:
        width = max(len(dialogues[i]) for i in active)
        ids = torch.full((len(active), width), tokens.pad)
        mask = torch.zeros(len(active), width, dtype=torch.long)
        for row, i in enumerate(active):
            ids[row, width - len(dialogues[i]) :] = torch.tensor(dialogues[i])
            mask[row, width - len(dialogues[i]) :] = 1
        with torch.no_grad():
            out = model.generate(
                input_ids=ids,
                attention_mask=mask,
                max_new_tokens=SAMPLING.max_turn_tokens,
                do_sample=True,
                temperature=1.0,
                top_k=0,
                top_p=1.0,
                eos_token_id=tokens.end_of_turn,
                pad_token_id=tokens.pad,
            )
        for row, i in enumerate(active):
            turn = out[row, width:].tolist()
            complete = tokens.end_of_turn in turn
            turn = turn[: turn.index(tokens.end_of_turn) + 1] if complete else turn
            reply = speakers[i].answer(tokens.text(turn), complete=complete)
            dialogues[i] += [*turn, *(() if reply is None else tokens.reply(reply))]
            if reply is None or len(dialogues[i]) >= SAMPLING.max_context_tokens:
                active = [other for other in active if other != i]


@contextmanager
def _patched(owner: Any, name: str, clock: Clock) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, clock.timed(original))
    try:
        yield
    finally:
        setattr(owner, name, original)


def _overhead(world: ClinicalWorld, engine: Any) -> float:
    """Share of one batch of rollouts that is spent outside the model's forward pass."""
    clock = Clock()
    with _patched(engine.model, "forward", clock):
        whole = seconds(lambda: engine.play(_speakers(world), _seeds(), SAMPLING))
    return 1.0 - clock.spent / whole


def _env_share(world: ClinicalWorld, tokens: ChatTokens, model: Any) -> tuple[float, str]:
    """Share of GRPO steps on TRL spent in environment, belief, oracle and reward."""
    from training.rollouts import Rollouts

    world.oracle  # noqa: B018 (solved once a run, not once a step)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(world, tokens, model, Path(folder))
        with (
            _patched(EpisodeSpeaker, "__init__", clock),
            _patched(EpisodeSpeaker, "answer", clock),
            _patched(Rollouts, "_score", clock),
        ):
            whole = seconds(trainer.train)
    step = whole / UPDATES
    return clock.spent / whole, f"{UPDATES} steps of 8 cases x 8, {step:.2f} s each, first included"


def _config() -> Config:
    return config_from(
        {
            "task": "diagnostics",
            "warmup": {"kind": "full"},
            "reward": {"variant": "credit", "entropy": 0.2},
            "optim": {"steps": UPDATES, "groups": GROUPS, "rollouts": ROLLOUTS},
            "limits": {
                "turn_tokens": SAMPLING.max_turn_tokens,
                "context_tokens": SAMPLING.max_context_tokens,
            },
        }
    )


def _trainer(world: ClinicalWorld, tokens: ChatTokens, model: Any, folder: Path) -> Any:
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    from datasets import Dataset
    from transformers import PrinterCallback
    from trl import GRPOConfig

    from training.inprocess import InProcessEngine
    from training.models import lora_config
    from training.plan import training_plan
    from training.rollouts import Rollouts
    from training.trainer import CreditTrainer

    config, engine = _config(), InProcessEngine(model, tokens)
    trainer = CreditTrainer(
        rollouts=Rollouts(world, config, engine),
        model=model,
        args=GRPOConfig(
            output_dir=str(folder),
            max_steps=UPDATES,
            per_device_train_batch_size=GROUPS * ROLLOUTS,
            num_generations=ROLLOUTS,
            max_completion_length=SAMPLING.max_context_tokens,
            learning_rate=6e-4,
            beta=0.0,
            loss_type="dapo",
            shuffle_dataset=False,
            activation_checkpointing=False,
            bf16=False,
            use_cpu=True,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_dict({"prompt": list(map(str, training_plan(world, config)))}),
        processing_class=tokens.tokenizer,
        peft_config=lora_config(config),
    )
    trainer.remove_callback(PrinterCallback)
    engine.model = trainer.accelerator.unwrap_model(trainer.model)
    return trainer
