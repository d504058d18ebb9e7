"""Self-internalization gaps over the checkpoints of a run, and whether they can be trusted.

The gap compares the policy with itself in view of the rubric. That is a yardstick only if the mark
stands still while training goes on, lies above the policy, and if the gap does not merely follow
the length of the answers. Checks of arXiv 2605.12474, which found a reward with the rubric in view
of .813 (sd .024 over checkpoints) and .674 (.014), at least .45 and .32 above the one without, and
answers that grew 4.1 and 2.4 times under weak verifiers, 2.8 and 1.6 times under strong ones. The
limits are ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
from scipy.stats import pearsonr

from clinical_envs.errors import InvalidArgument
from clinical_envs.rubric.scoring import ScoredMean, scored_mean
from oracles.reward_audit.effects import FixedEffects, fixed_effects
from oracles.reward_audit.records import Key, RewardRow

STEADY = 0.05
LEAST_MARGIN = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sampled answer; gap and reward are None where unscored or not asked for."""

    prompt: Key
    tokens: int
    gap: float | None
    reward: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was sampled at one checkpoint, with the rubric in view and without.

    unfit: prompts whose rubric leaves no room for an answer in the context; they have no samples.
    """

    step: int
    conditioned: tuple[Sample, ...]
    plain: tuple[Sample, ...]
    unfit: tuple[Key, ...] = ()

    @property
    def gaps(self) -> Mapping[Key, float | None]:
        """By prompt, the mean over its samples that are scored."""
        samples: dict[Key, list[float | None]] = {prompt: [] for prompt in self.unfit}
        for sample in self.conditioned:
            samples.setdefault(sample.prompt, []).append(sample.gap)
        return {prompt: scored_mean(gaps).mean for prompt, gaps in samples.items()}

    @property
    def gap(self) -> ScoredMean:
        """Mean over prompts, each of one weight; the counts are of prompts."""
        return scored_mean(self.gaps.values())

    @property
    def length_effect(self) -> FixedEffects:
        """Correlation of gap and length over the answers to one prompt, about 0 if none matters.

        A gap per token may shrink merely because answers grow; then its rise over training is not
        what it seems.
        """
        return fixed_effects(
            (one.prompt, float(one.tokens), one.gap)
            for one in self.conditioned
            if one.gap is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GapValidation:
    """Over the checkpoints of a run; None where nothing is scored or too few can be compared.

    conditioned: mean reward with the rubric in view; sd: of it, over checkpoints (n - 1). margin:
    the least, over checkpoints, that it is above the reward without, on the prompts scored in both
    ways. growth, conditioned_growth:
    mean length of the answers, last checkpoint over first, without the rubric and with it.
    length_r: correlation over checkpoints of gap and mean length of the answers it is of.
    problems: why the series should not be trusted; empty if it may. Lengths are for the reader to
    judge: they grow where answers get better, too.
    """

    conditioned: float | None
    sd: float | None
    margin: float | None
    growth: float | None
    conditioned_growth: float | None
    length_r: float | None
    problems: tuple[str, ...]


def validate(checkpoints: Sequence[Measured]) -> GapValidation:
    """Check a series of checkpoints, given in any order.

    Raises:
        InvalidArgument: there are none, or one step twice.
    """
    series = sorted(checkpoints, key=lambda one: one.step)
    if not series or len({one.step for one in series}) < len(series):
        raise InvalidArgument("a series of gaps needs checkpoints, each step once")
    in_view = [_reward(one.conditioned) for one in series]
    margins = [margin for margin in map(_margin, series) if margin is not None]
    rewards = [reward for reward in in_view if reward is not None]
    sd = stdev(rewards) if len(rewards) > 1 else None
    margin = min(margins, default=None)
    lengths = [_length(one.conditioned) for one in series]
    return GapValidation(
        conditioned=fmean(rewards) if rewards else None,
        sd=sd,
        margin=margin,
        growth=_growth([_length(one.plain) for one in series]),
        conditioned_growth=_growth(lengths),
        length_r=_correlation([one.gap.mean for one in series], lengths),
        problems=tuple(_problems(sd, margin)),
    )


def with_self_gap(rows: Iterable[RewardRow], checkpoints: Iterable[Measured]) -> list[RewardRow]:
    """The rows of a run with the gap of their step and prompt, for the reward audit.

    Rows of a step or prompt that was not measured keep what they have.
    """
    gaps = {
        (one.step, repr(prompt)): gap for one in checkpoints for prompt, gap in one.gaps.items()
    }
    return [
        row.model_copy(update={"self_gap": gaps.get((row.step, repr(row.prompt)), row.self_gap)})
        for row in rows
    ]


def _problems(sd: float | None, margin: float | None) -> Iterable[str]:
    if sd is None:
        yield "the reward with the rubric in view is scored at fewer than two checkpoints"
    elif sd > STEADY:
        yield f"that reward moves (sd {sd:.3f} over checkpoints, limit {STEADY:g})"
    if margin is None:
        yield "no checkpoint has a reward both with the rubric in view and without"
    elif margin < LEAST_MARGIN:
        yield f"the rubric in view is worth {margin:+.3f} reward only (limit {LEAST_MARGIN:+g})"


def _reward(samples: Iterable[Sample]) -> float | None:
    return scored_mean(sample.reward for sample in samples).mean


def _margin(one: Measured) -> float | None:
    """Mean over the prompts that are scored in both ways, each of one weight."""
    with_it, without = _by_prompt(one.conditioned), _by_prompt(one.plain)
    both = with_it.keys() & without.keys()
    return fmean(with_it[prompt] - without[prompt] for prompt in both) if both else None


def _by_prompt(samples: Iterable[Sample]) -> dict[Key, float]:
    rewards: dict[Key, list[float]] = {}
    for sample in samples:
        if sample.reward is not None:
            rewards.setdefault(sample.prompt, []).append(sample.reward)
    return {prompt: fmean(found) for prompt, found in rewards.items()}


def _length(samples: Sequence[Sample]) -> float | None:
    return fmean(sample.tokens for sample in samples) if samples else None


def _growth(lengths: Sequence[float | None]) -> float | None:
    first, last = lengths[0], lengths[-1]
    return None if first is None or last is None or len(lengths) < 2 else last / first


def _correlation(gaps: Sequence[float | None], lengths: Sequence[float | None]) -> float | None:
    pairs = zip(gaps, lengths, strict=True)
    points = np.array([(a, b) for a, b in pairs if a is not None and b is not None])
    if len(points) < 3 or (np.ptp(points, axis=0) == 0).any():
        return None
    return float(pearsonr(points[:, 0], points[:, 1]).statistic)
