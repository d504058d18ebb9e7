"""The loss that is a mean over turns, then tokens: by hand, and through the trainer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.toy import NEEDS, tokenizer, toy_config, toy_world, warm_model
from training.advantages import informative, turn_weights

torch = pytest.importorskip("torch", reason=NEEDS)
pytest.importorskip("trl", reason=NEEDS)

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # TRL and PEFT use old names

KL = 0.3


def spans(lengths: list[int], gap: int = 2) -> list[tuple[int, int]]:
    """Turns of these lengths with replies between them."""
    starts = np.cumsum([0, *(length + gap for length in lengths)])
    return [(int(s), int(s) + length) for s, length in zip(starts, lengths, strict=False)]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_the_weights_of_a_rollout_sum_to_one_and_every_turn_weighs_the_same(
    lengths: list[int],
) -> None:
    turns = spans(lengths)
    weights = turn_weights(turns, turns[-1][1] + 3)
    assert weights.sum() == pytest.approx(1.0)
    for start, end in turns:
        assert weights[start:end].sum() == pytest.approx(1.0 / len(turns))
    assert (weights > 0).sum() == sum(lengths)


def test_a_mean_over_turns_by_hand() -> None:
    """Turns of 1 and 3 tokens with losses 6 and 1, 2, 3: (6 + 2) / 2 = 4; over tokens it is 3."""
    losses = np.array([6.0, 99.0, 1.0, 2.0, 3.0])
    turns = [(0, 1), (2, 5)]
    assert turn_weights(turns, 5) @ losses == pytest.approx(4.0)
    assert losses[[0, 2, 3, 4]].mean() == 3.0


@given(st.lists(st.floats(-2, 2) | st.just(math.nan), min_size=4, max_size=4))
def test_a_group_has_something_to_say_only_if_its_known_rewards_differ(group: list[float]) -> None:
    heard = informative(np.array([group]))[0]
    known = [reward for reward in group if not math.isnan(reward)]
    differ = bool(known) and max(known) - min(known) > 1e-9
    assert heard.tolist() == [differ and not math.isnan(reward) for reward in group]


def make_trainer(tmp_path: Path, **optim: Any) -> Any:
    """The production trainer on the toy."""
    from training.grpo import build_trainer, play_settings

    folder = tmp_path / "start"
    warm_model(100).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    config = toy_config(optim={"steps": 1, "warmup_steps": 0, **optim})
    trainer, _ = build_trainer(config, toy_world(), folder, tmp_path / "out", play_settings(config))
    return trainer


def scored_batch(trainer: Any) -> dict[str, Any]:
    """Rollouts of one update, as the trainer scored them."""
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    size = trainer.num_generations
    rows = [{"prompt": str(case)} for case in range(4) for _ in range(size)]
    batch: dict[str, Any] = trainer._generate_and_score_completions(rows)
    return batch


def logprobs(trainer: Any, batch: dict[str, Any]) -> Any:
    """Of every completion token, by a plain forward pass."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    width = batch["completion_ids"].size(1)
    logits = trainer.model(input_ids=ids, attention_mask=mask).logits[:, -width - 1 : -1]
    chosen = batch["completion_ids"].unsqueeze(-1)
    return torch.log_softmax(logits.float(), dim=-1).gather(-1, chosen).squeeze(-1)


def gradient(trainer: Any, loss: Any) -> Any:
    trainer.model.zero_grad()
    loss.backward()
    grads = [w.grad.ravel() for w in trainer.model.parameters() if w.grad is not None]
    return torch.cat(grads).clone()


def test_the_trainers_loss_and_gradient_are_those_of_the_formula(tmp_path: Path) -> None:
    """L = -1/B Σ_i 1/|τ_i| Σ_j 1/|a_ij| Σ_k [A_i log p - KL (e^d - d - 1)], d = log p_start/p."""
    trainer = make_trainer(tmp_path, mean="turns", kl=KL)
    batch = scored_batch(trainer)
    drift = 0.1 * torch.randn(batch["ref_per_token_logps"].shape, generator=torch.manual_seed(0))
    batch["ref_per_token_logps"] = batch["ref_per_token_logps"] + drift
    theirs = trainer._compute_loss(trainer.model, batch)
    their_gradient = gradient(trainer, theirs)

    logp, total, value = logprobs(trainer, batch), 0.0, 0.0
    distance = batch["ref_per_token_logps"] - logp
    divergence = torch.exp(distance) - distance - 1
    heard = informative(np.array([r.reward for r in trainer.rollouts.last]).reshape(-1, 4)).ravel()
    assert heard.any()
    for row, rollout in enumerate(trainer.rollouts.last):
        if not heard[row]:
            continue
        advantage, turns = float(batch["advantages"][row]), rollout.record.turns
        for start, end in turns:
            weight = 1.0 / (len(logp) * len(turns) * (end - start))
            away = divergence[row, start:end].sum()
            # the ratio p / p_old is 1 and its gradient is that of log p
            total = total - weight * (advantage * logp[row, start:end].sum() - KL * away)
            value = value - weight * (advantage * (end - start) - KL * float(away.detach()))
    assert float(theirs.detach()) == pytest.approx(value, abs=1e-5)
    assert torch.allclose(their_gradient, gradient(trainer, total), atol=1e-5)
    assert float(their_gradient.norm()) > 1e-3


def test_a_mean_over_tokens_is_another_gradient(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, mean="turns")
    batch = scored_batch(trainer)
    by_turn = gradient(trainer, trainer._compute_loss(trainer.model, batch))
    trainer.loss_type = "dapo"
    batch["tool_mask"] = (batch["tool_mask"] > 0).long()
    by_token = gradient(trainer, trainer._compute_loss(trainer.model, batch))
    likeness = torch.nn.functional.cosine_similarity(by_turn, by_token, dim=0)
    assert float(likeness) < 0.9999


@pytest.mark.parametrize("mean", ["tokens", "turns"])
def test_a_group_without_spread_moves_nothing_where_kl_is_weighed(
    tmp_path: Path, mean: str
) -> None:
    trainer = make_trainer(tmp_path, mean=mean, kl=KL)
    heard = informative(np.array([[1.0, 1.0, 1.0, 1.0], [0.0, 1.0, math.nan, 1.0]]))
    assert heard.sum(axis=1).tolist() == [0, 3]
    pay = trainer.rollouts._signal.earned
    count = iter(range(16))

    def earned(episode: Any) -> Any:
        found, number = pay(episode), next(count)
        level = 1.0 if number < 4 else math.nan if number == 6 else float(number)
        turns = (*(0.0 for _ in found.turns[1:]), level)
        return type(found)(turns=turns)

    trainer.rollouts._signal = type("Fixed", (), {"earned": staticmethod(earned)})()
    batch = scored_batch(trainer)
    silent = [row for row in range(16) if not batch["tool_mask"][row].any()]
    assert silent == [0, 1, 2, 3, 6]
    assert batch["advantages"][[0, 1, 2, 3, 6]].abs().max() == 0.0
    assert batch["advantages"].isfinite().all()
    assert trainer.loss_type == ("dapo" if mean == "tokens" else "grpo")


def test_the_configured_numbers_reach_the_trainer(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, mean="turns", kl=0.03, clip_low=0.2, clip_high=0.28)
    assert (trainer.beta, trainer.epsilon_low, trainer.epsilon_high) == (0.03, 0.2, 0.28)
    assert trainer.scale_rewards == "group"
    assert trainer.num_iterations == 1
