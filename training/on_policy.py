"""Does the server sample the policy that is trained? Judged from log-probabilities of one play.

    s, t, b   log-probability of each sampled token: the server's own, the trainer's, the trainer's
              with the adapter switched off

s must equal t up to how two programs round. Where t and b can be told apart, s must lie at t and
not at b: a server that does not apply an adapter says so nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

TOLERANCE = {"float32": 1e-4, "bfloat16": 0.5}
_LIKELIER = 2.0  # how many times nearer to b than to t is no rounding
_ROUNDING = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """max_diff, mean_diff: of |s - t|. mean_from_base: of |s - b|. max_shift: of |t - b|, below
    which nothing can be told of the adapter. Nats.
    """  # noqa: D205

    max_diff: float
    mean_diff: float
    mean_from_base: float
    max_shift: float

    @property
    def at_base(self) -> bool:
        """Whether s lies at b and not at t, where the two can be told apart."""
        apart = self.max_shift > _ROUNDING
        return apart and self.mean_diff > _LIKELIER * self.mean_from_base


def agreement(server: npt.ArrayLike, trainer: npt.ArrayLike, base: npt.ArrayLike) -> Agreement:
    """How near s, t and b are; of no tokens, 0.

    >>> agreement([-1.0, -2.0], [-1.0, -2.5], [-1.0, -2.0])
    Agreement(max_diff=0.5, mean_diff=0.25, mean_from_base=0.0, max_shift=0.5)
    """
    s, t, b = (np.asarray(values, dtype=np.float64) for values in (server, trainer, base))
    if not s.size:
        return Agreement(max_diff=0.0, mean_diff=0.0, mean_from_base=0.0, max_shift=0.0)
    return Agreement(
        max_diff=float(np.abs(s - t).max()),
        mean_diff=float(np.abs(s - t).mean()),
        mean_from_base=float(np.abs(s - b).mean()),
        max_shift=float(np.abs(t - b).max()),
    )


def doubt(found: Agreement, tolerance: float) -> str | None:
    """What is wrong and what to look at, in one line; None where nothing is.

    tolerance: of max_diff. An adapter that is not applied is told from the base alone as well,
    since its effect may be smaller than a tolerance that coarse arithmetic needs.
    """
    if found.max_diff <= tolerance and not found.at_base:
        return None
    differ = (
        f"the server's log-probabilities differ from the trainer's by up to {found.max_diff:.2g} "
        f"nats (tolerance {tolerance:g}, vllm.logprob_tolerance)"
    )
    if found.at_base:
        return (
            f"{differ} and lie at those of the model without the adapter, which is loaded but not "
            "applied: serve the text-only export that the run started from, not the multimodal "
            "checkpoint"
        )
    return (
        f"{differ}: check that it serves the checkpoint and dtype that the run started from, and "
        "runs with --logprobs-mode processed_logprobs"
    )
