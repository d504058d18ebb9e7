"""GRPO on TRL's own trainer: what this project adds to a step, and nothing else.

Added: advantages of single turns where asked for, and what is logged at every step (same-utility
groups, KL per turn from the start, entropy, cut lengths, parse failures).
"""

from __future__ import annotations

from typing import Any

import torch
from accelerate.utils import gather_object
from trl import GRPOTrainer

from training.advantages import turn_advantages
from training.rollouts import Rollouts, Scored, summary


def rollout_reward(
    prompts: list[Any], completions: list[Any], reward: list[float], **_: Any
) -> list[float]:
    """The reward that travelled with each rollout."""
    return reward


class CreditTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer whose rollouts may carry one advantage a turn."""

    def __init__(self, *, rollouts: Rollouts, **kwargs: Any) -> None:
        self.rollouts = rollouts
        super().__init__(reward_funcs=[rollout_reward], rollout_func=rollouts, **kwargs)

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        scored = self.rollouts.last
        if self.rollouts.config.reward.per_turn:
            output["advantages"] = self._spread_over_turns(scored, output["completion_ids"])
        logged = summary(scored, self.num_generations) | self._from_start(scored, output)
        for name, value in logged.items():
            mean = self.accelerator.gather(
                torch.tensor([value], device=self.accelerator.device, dtype=torch.float32)
            ).mean()
            self._metrics["train"][name].append(float(mean))
        return output

    def _spread_over_turns(self, scored: list[Scored], ids: torch.Tensor) -> torch.Tensor:
        """Advantages (B, T): each policy token has its turn's, environment tokens have 0."""
        size = self.num_generations
        mine = [list(rollout.turn_rewards) for rollout in scored]
        groups = [mine[i : i + size] for i in range(0, len(mine), size)]
        everyone = gather_object(groups)
        values = turn_advantages(everyone, self.rollouts.config.reward.scale)
        first = self.accelerator.process_index * len(groups)
        local = [turns for group in values[first : first + len(groups)] for turns in group]
        result = torch.zeros(ids.shape, dtype=torch.float32, device=ids.device)
        for row, (rollout, turns) in enumerate(zip(scored, local, strict=True)):
            for (start, end), value in zip(rollout.record.turns, turns, strict=False):
                result[row, start:end] = value
        return result

    def _from_start(self, scored: list[Scored], output: dict[str, Any]) -> dict[str, float]:
        """KL per turn from the start (the adapter switched off), and the policy's entropy.

        KL is estimated on the sampled tokens: mean over turns of Σ (log p - log p_start).
        """
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
        mask = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
        width = output["completion_ids"].size(1)
        model = self.accelerator.unwrap_model(self.model)
        with torch.no_grad(), model.disable_adapter():
            start = self._get_per_token_logps_and_entropies(
                model, ids, mask, width, batch_size=self.args.per_device_train_batch_size
            )[0]
        sampled = output["completion_mask"] * output["tool_mask"]
        policy = torch.zeros_like(start)
        for row, rollout in enumerate(scored):
            logprobs = torch.tensor(rollout.record.logprobs, device=start.device)
            policy[row, : len(logprobs)] = logprobs.to(start.dtype)
        turns = sum(len(rollout.record.turns) for rollout in scored)
        drift = ((policy - start) * sampled).sum() / max(1, turns)
        surprise = -(policy * sampled).sum() / sampled.sum().clamp(min=1)
        return {"rollout/kl_per_turn": float(drift), "rollout/entropy_estimate": float(surprise)}
