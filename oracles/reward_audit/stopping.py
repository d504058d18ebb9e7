"""Where to stop: by the training reward, or by the self-internalization gap.

The gap of one answer sampled *with* the rubric in view is the mean over its tokens of
`log p(token | prompt only) - log p(token | prompt and rubric)`. In expectation it is at most 0, its
negative is about the length-normalised KL divergence between the two, and it falls when training
leaves what the rubric asks for. Source: arXiv 2605.12474.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import pearsonr

from clinical_envs.errors import InvalidArgument
from clinical_envs.rubric.scoring import ScoredMean, scored_mean
from oracles.reward_audit.findings import Finding, decide
from oracles.reward_audit.intervals import Totals, cluster_interval
from oracles.reward_audit.records import Key, RewardRow
from oracles.reward_audit.rules import STOPPING_REGRET


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleLogprobs:
    """Token log-probabilities of one sampled answer under both contexts, each of shape (tokens,).

    `truncated` marks samples whose rubric did not fit the context: they are unscored.

    Raises:
        InvalidArgument: the two contexts have different numbers of tokens.
    """

    prompt_only: Sequence[float]
    with_rubric: Sequence[float]
    truncated: bool = False

    def __post_init__(self) -> None:
        if len(self.prompt_only) != len(self.with_rubric):
            raise InvalidArgument(
                f"{len(self.prompt_only)} tokens without the rubric, {len(self.with_rubric)} with "
                "it; score the same answer under both contexts"
            )


def self_gap(samples: Sequence[SampleLogprobs]) -> ScoredMean:
    """Mean gap per token, averaged over samples; empty and truncated samples are unscored.

    >>> self_gap([SampleLogprobs(prompt_only=[-2.0, -3.0], with_rubric=[-1.0, -1.0]),
    ...           SampleLogprobs(prompt_only=[], with_rubric=[])])
    ScoredMean(mean=-1.5, scored=1, unscored=1)
    """
    return scored_mean(
        float(np.mean(np.subtract(sample.prompt_only, sample.with_rubric)))
        if len(sample.prompt_only) and not sample.truncated
        else None
        for sample in samples
    )


def stopping_regret(reference: ArrayLike, criterion: ArrayLike) -> float:
    """`(max ref - ref[argmax criterion]) / max ref` of two series over checkpoints.

    >>> round(stopping_regret([0.30, 0.38, 0.36], [1, 2, 3]), 4)
    0.0526

    Raises:
        InvalidArgument: different lengths, no checkpoint, a value that is not finite, or no
            reference above 0.
    """
    ref, by = np.asarray(reference, dtype=np.float64), np.asarray(criterion, dtype=np.float64)
    if ref.shape != by.shape or not ref.size or not np.isfinite([ref, by]).all() or ref.max() <= 0:
        raise InvalidArgument(
            "a stopping regret needs two finite series over the same checkpoints and a reference "
            "above 0; leave unscored checkpoints out of both"
        )
    return float(_regret(np.stack([ref, by])))


def back_slide(series: Sequence[float]) -> float:
    """Share of the gain from the first checkpoint to the best that is lost by the last.

    >>> round(back_slide([0.2143, 0.2925, 0.2773]), 3)
    0.194

    Raises:
        InvalidArgument: the series never exceeds its first value.
    """
    if not series or max(series) <= series[0]:
        raise InvalidArgument("the series never gains on its first value, so it cannot slide back")
    return (max(series) - series[-1]) / (max(series) - series[0])


def audit_stopping(rows: Sequence[RewardRow]) -> Finding:
    """Whether stopping at the largest training reward loses reference reward.

    Rows need a reward and a reference; the gap, where all of them have one, is evidence beside.
    """
    has_gap = all(row.self_gap is not None for row in rows)
    scored = [
        (row, (row.reference, row.reward, row.self_gap or 0.0, 1.0))
        for row in rows
        if row.reward is not None and row.reference is not None
    ]
    steps = sorted({row.step for row, _ in scored})
    column = {step: position for position, step in enumerate(steps)}
    prompts: dict[Key, NDArray[np.float64]] = {}
    for row, values in scored:
        sums = prompts.setdefault(row.prompt, np.zeros((4, len(steps))))
        sums[:, column[row.step]] += values
    totals = np.array([sums.ravel() for sums in prompts.values()])
    interval = None
    evidence = f"{len(rows) - len(scored)} rows without reward or reference"
    if len(steps) == 1:
        evidence += "; one checkpoint only, and stopping is a choice among several"
    if len(steps) > 1:
        interval = cluster_interval(
            totals, lambda resampled: _regret(_means(resampled)[..., :2, :])
        )
        evidence += _describe(_means(totals.sum(axis=0)), steps, has_gap)
    return decide(STOPPING_REGRET, interval, prompts=len(prompts), evidence=evidence)


def _means(totals: Totals) -> NDArray[np.float64]:
    """Reference, reward and gap per checkpoint, shape (..., 3, steps), from flat sums."""
    sums = totals.reshape(*totals.shape[:-1], 4, -1)
    means: NDArray[np.float64] = sums[..., :3, :] / sums[..., 3:, :]
    return means


def _regret(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Stopping regret of series of shape (..., 2, steps), the reference first; NaN if undefined."""
    reference, criterion = series[..., 0, :], series[..., 1, :]
    best = reference.max(axis=-1)
    chosen = criterion.argmax(axis=-1)[..., None]
    kept = np.take_along_axis(reference, chosen, axis=-1)[..., 0]
    return np.where(best > 0, (best - kept) / best, np.nan)


def _describe(means: NDArray[np.float64], steps: Sequence[int], has_gap: bool) -> str:
    reference, reward, gap = means
    text = f"; reward peaks at step {steps[int(reward.argmax())]}, reference at "
    text += f"{steps[int(reference.argmax())]}"
    if not has_gap:
        return text + "; no self-gap recorded"
    text += f"; self-gap peaks at {steps[int(gap.argmax())]} with regret "
    text += f"{float(_regret(np.stack([reference, gap]))):.4f}"
    if len(steps) > 2 and np.ptp(gap) > 0 and np.ptp(reference) > 0:
        text += f", r with the reference {pearsonr(gap, reference).statistic:+.3f}"
    return text
