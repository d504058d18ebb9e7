"""GRPO on TRL's own trainer: what this project adds to a step, and nothing else.

Added: advantages of single turns where asked for, and what is logged at every step (same-utility
groups, KL per turn from the start, entropy, cut lengths, parse failures).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from trl import GRPOTrainer

from training.advantages import informative, turn_advantages, turn_weights
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
        if self.rollouts.config.optim.mean == "turns":
            output["tool_mask"] = self._turn_weights(scored, output["tool_mask"])
        if self.rollouts.config.optim.kl:
            output["tool_mask"] = self._without_silent(scored, output["tool_mask"])
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

    def _turn_weights(self, scored: list[Scored], mask: torch.Tensor) -> torch.Tensor:
        """Weights (B, T) in the place of the 0/1 mask of policy tokens; each rollout's sum to 1.

        The trainer's loss of type grpo divides by that sum, so that it is the mean over turns.
        """
        rows = [turn_weights(rollout.record.turns, mask.size(1)) for rollout in scored]
        return torch.tensor(np.array(rows), dtype=torch.float32, device=mask.device)

    def _without_silent(self, scored: list[Scored], mask: torch.Tensor) -> torch.Tensor:
        """Leaves out rollouts without an advantage, which the KL term alone would move."""
        rewards = np.array([rollout.reward for rollout in scored]).reshape(-1, self.num_generations)
        heard = torch.from_numpy(informative(rewards).ravel()).to(mask.device)
        return mask * heard.unsqueeze(1)

    def _from_start(self, scored: list[Scored], output: dict[str, Any]) -> dict[str, float]:
        """KL per turn from the start (the adapter switched off), and the policy's entropy.

        KL is estimated on the sampled tokens: mean over turns of Σ (log p - log p_start).
        """
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
        mask = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
        width = output["completion_ids"].size(1)
        model = self.accelerator.unwrap_model(self.model)
        start = output.get("ref_per_token_logps")  # there with a KL term
        if start is None:
            with torch.no_grad(), model.disable_adapter():
                start = self._get_per_token_logps_and_entropies(
                    model, ids, mask, width, batch_size=self.args.per_device_train_batch_size
                )[0]
        self.start_logprobs = start
        sampled = output["completion_mask"] * output["tool_mask"]
        policy = torch.zeros_like(start)
        for row, rollout in enumerate(scored):
            logprobs = torch.tensor(rollout.record.logprobs, device=start.device)
            policy[row, : len(logprobs)] = logprobs.to(start.dtype)
        turns = sum(len(rollout.record.turns) for rollout in scored)
        drift = ((policy - start) * sampled).sum() / max(1, turns)
        surprise = -(policy * sampled).sum() / sampled.sum().clamp(min=1)
        return {"rollout/kl_per_turn": float(drift), "rollout/entropy_estimate": float(surprise)}
