"""GRPO on rollouts that a server has sampled, with the proof that they are on-policy.

TRL 1.16 corrects for a sampler that rounds differently when it believes that it uses vLLM: the
loss of each token is multiplied with the truncated ratio of its probability here to that on the
server. Its own client merges the adapter and pushes whole models, so it is replaced by the
adapter sync; the three attributes that this takes are set in one place and pinned by a test.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object

from training.adapter_sync import AdapterSync
from training.chat import ChatTokens
from training.on_policy import agreement, doubt
from training.patience import ServedError, everywhere
from training.probe import check_start
from training.rollouts import Scored
from training.trainer import CreditTrainer

Rows = list[dict[str, Any]]


class ServedTrainer(CreditTrainer):
    """Publishes the policy at every update, and compares what was sampled with it.

    sync: keeps the policy on the server. tolerance: of log-probabilities, in nats. record: is
    given one row a rollout, of all processes, before they are judged.
    """

    def __init__(
        self,
        *,
        sync: AdapterSync,
        tolerance: float,
        record: Callable[[Rows], None] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sync, self.tolerance, self.record = sync, tolerance, record
        self.rollout_func = lambda prompts, trainer: everywhere(
            partial(self.rollouts, prompts, trainer)
        )
        self.use_vllm = True
        self.vllm_generation = SimpleNamespace(sync_weights=self.publish)
        self._last_loaded_step = -1

    def meet_server(self, tokens: ChatTokens) -> None:
        """Refuse a server of another model, now and after every outage; then play the start.

        Raises:
            ServedError: it is another one.
        """
        sync, model = self.sync, self.accelerator.unwrap_model(self.model)

        def check() -> None:
            check_start(sync.server, sync.offer.base, model, tokens, self.tolerance)

        sync.check = check
        everywhere(lambda: sync.patience.until_it_works(check))
        self.publish()

    def publish(self) -> None:
        """Let the server play the policy as it is now; nothing to do where it already does."""
        step = int(self.state.global_step)
        model = self.accelerator.unwrap_model(self.model)

        def save(folder: Path) -> None:
            model.save_pretrained(folder, selected_adapters=["default"])

        self.sync.publish(f"v{step}", save, version=step)

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        self._prove(self.rollouts.last, output)
        return output

    def _prove(self, scored: list[Scored], output: dict[str, Any]) -> None:
        """Log how near server and trainer are, and stop where they are not.

        Raises:
            ServedError: the rollouts are not on-policy.
        """
        mask = _sampled(scored, output["completion_mask"])
        server, trainer, base = (
            _rows(values, mask)
            for values in (
                output["sampling_per_token_logps"],
                output["old_per_token_logps"],
                self.start_logprobs,
            )
        )
        apart = [
            float(np.abs(s - t).max(initial=0.0)) for s, t in zip(server, trainer, strict=True)
        ]
        rows = gather_object(self._proofs(scored, apart))
        everyone = [gather_object(values) for values in (server, trainer, base)]
        found = agreement(*(np.concatenate(values) for values in everyone))
        staleness = max(row["staleness"] for row in rows)
        logged = {
            "rollout/staleness": float(staleness),
            "rollout/logprob_max_diff": found.max_diff,
            "rollout/logprob_max_shift": found.max_shift,
            "rollout/adapter_sync_ms": self.sync.last_ms,
        }
        for name, value in logged.items():
            self._metrics["train"][name].append(value)
        if self.record is not None:
            self.record(rows)
        problem = doubt(found, self.tolerance)
        if staleness:
            problem = f"a rollout was sampled by the policy of {staleness} steps ago"
        if problem is not None:
            raise ServedError(f"{self.sync.server.url}: {problem}")

    def _proofs(self, scored: list[Scored], apart: list[float]) -> Rows:
        """One row a rollout of this process."""
        step, size = int(self.state.global_step), self.num_generations
        first = self.accelerator.process_index * len(scored)
        return [
            {
                "step": step + 1,
                "case": rollout.case,
                "group": (first + i) // size,
                "rollout": (first + i) % size,
                "policy": self.sync.current.name,
                "version": rollout.record.version,
                "staleness": step - _known(rollout.record.version),
                "turns": len(rollout.record.turns),
                "tokens": sum(rollout.record.env_mask),
                "logprob_max_diff": apart[i],
            }
            for i, rollout in enumerate(scored)
        ]


def _sampled(scored: list[Scored], completion: torch.Tensor) -> torch.Tensor:
    """Where the tokens of the policy are, whether or not they are learned from."""
    mask = torch.zeros_like(completion, dtype=torch.bool)
    for row, rollout in enumerate(scored):
        own = torch.tensor(rollout.record.env_mask, dtype=torch.bool, device=mask.device)
        mask[row, : len(own)] = own
    return mask


def _rows(values: torch.Tensor, mask: torch.Tensor) -> list[np.ndarray[Any, Any]]:
    """The sampled tokens of each rollout."""
    return [row[kept].float().cpu().numpy() for row, kept in zip(values, mask, strict=True)]


def _known(version: int | None) -> int:
    if version is None:
        raise ServedError("a rollout came from an engine that does not say which policy it played")
    return version
