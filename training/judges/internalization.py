"""The self-internalization gap of a policy: does it do unasked what the rubric asks for?

Answers are sampled with the rubric in view. Over the tokens of one of them

    gap = mean of log p(token | question) - log p(token | rubric, question)

is about minus the KL divergence per token: below 0, and near 0 once the policy answers that way by
itself. No verifier is asked. Both terms come from teacher forcing. The end of the turn counts as a
token; an answer of nothing else is empty and unscored. Source: arXiv 2605.12474, with 10 answers to
each of 300 prompts. `training.judges.gap` says whether a series of gaps can be trusted,
`oracles.reward_audit.stopping` where to stop.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from clinical_envs.errors import InvalidArgument
from oracles.reward_audit.records import Key
from oracles.reward_audit.stopping import SampleLogprobs, self_gap
from training.chat import ChatTokens
from training.engine import Sampling, TokenRecord
from training.inprocess import InProcessEngine
from training.judges.gap import Measured, Sample

SAMPLES = 10

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricPrompt:
    """A question and the criteria that its answers are graded by."""

    prompt: Key
    question: str
    criteria: tuple[str, ...]

    @property
    def conditioned(self) -> str:
        """The user turn with the rubric in view; without criteria the question itself.

        The rubric stands before the question, where Gemma's chat template puts a system text.
        """
        if not self.criteria:
            return self.question
        numbered = "\n".join(f"{i}. {one}" for i, one in enumerate(self.criteria, start=1))
        return f"A good answer meets these criteria:\n{numbered}\n\n{self.question}"


Scorer = Callable[[RubricPrompt, str], float | None]
"""The reward of an answer; None where it is unscored."""


def measure(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[RubricPrompt],
    *,
    step: int,
    samples: int = SAMPLES,
    seed: int = 0,
    answer_tokens: int = 512,
    context_tokens: int = 2048,
    score: Scorer | None = None,
    batch: int = 64,
) -> Measured:
    """Sample answers in both ways and take the gap of those that saw the rubric.

    Args:
        model: a causal language model, or a PEFT model over one.
        tokenizer: with a chat template.
        prompts: each with its rubric.
        step: of the checkpoint.
        samples: a prompt and way.
        seed: with prompt and number it fixes a sample; the same for all checkpoints.
        answer_tokens: of the longest answer; sampling is at temperature 1.
        context_tokens: of prompt and answer together.
        score: gives the rewards that validating the gaps needs.
        batch: answers sampled at once.

    Raises:
        InvalidArgument: no prompts, a prompt twice, or no samples.
    """
    if not prompts or samples < 1 or len({repr(one.prompt) for one in prompts}) < len(prompts):
        raise InvalidArgument(
            f"{samples} samples of {len(prompts)} prompts; give one sample or more, and each "
            "prompt once"
        )
    tokens = ChatTokens(tokenizer)
    room = context_tokens - answer_tokens
    fits = [one for one in prompts if len(tokens.prompt(one.conditioned)) <= room]
    limits = Sampling(max_turn_tokens=answer_tokens, max_context_tokens=context_tokens)
    drawn = [(one, number) for one in fits for number in range(samples)]
    engine = InProcessEngine(model, tokens)
    conditioned, plain = (
        _draw(
            engine,
            [one.conditioned if in_view else one.question for one, _ in drawn],
            [_seed(seed, one.prompt, number, in_view) for one, number in drawn],
            limits,
            batch,
        )
        for in_view in (True, False)
    )
    gaps = _gaps(model, tokens, [one.question for one, _ in drawn], conditioned)
    asked = [one for one, _ in drawn]
    return Measured(
        step=step,
        conditioned=_samples(tokens, asked, conditioned, gaps, score),
        plain=_samples(tokens, asked, plain, [None] * len(plain), score),
        unfit=tuple(one.prompt for one in prompts if one not in fits),
    )


def answer_logprobs(
    model: Any, pad: int, contexts: Sequence[Ids], answers: Sequence[Ids], *, batch: int = 8
) -> list[tuple[float, ...]]:
    """`log p(token | context, earlier tokens)` of every token of every answer, in nats.

    Teacher forcing, no sampling: one forward pass a batch, padded on the left.
    """
    found: list[tuple[float, ...]] = []
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            for start in range(0, len(answers), batch):
                part = slice(start, start + batch)
                found += _forced(model, pad, contexts[part], answers[part])
    finally:
        model.train(training)
    return found


def _forced(
    model: Any, pad: int, contexts: Sequence[Ids], answers: Sequence[Ids]
) -> list[tuple[float, ...]]:
    rows = [context + answer for context, answer in zip(contexts, answers, strict=True)]
    width, kept = max(map(len, rows)), max(map(len, answers)) + 1
    ids = torch.full((len(rows), width), pad, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, width - len(row) :] = torch.tensor(row)
        mask[i, width - len(row) :] = 1
    out = model(
        input_ids=ids.to(model.device),
        attention_mask=mask.to(model.device),
        position_ids=(mask.cumsum(1) - 1).clamp(min=0).to(model.device),
        logits_to_keep=kept,
    )
    found = []
    for answer, logits in zip(answers, out.logits, strict=True):
        before = logits[kept - len(answer) - 1 : kept - 1].float()  # of the token before each
        chosen = before.gather(1, torch.tensor(answer, device=before.device)[:, None])[:, 0]
        found.append(tuple((chosen - before.logsumexp(-1)).tolist()))
    return found


class _OneTurn:
    """A speaker that asks and does not answer back."""

    def __init__(self, opening: str) -> None:
        self.opening = opening

    def answer(self, text: str, *, complete: bool = True) -> str | None:
        """Nothing: the dialogue is over."""
        return None


def _draw(
    engine: InProcessEngine,
    openings: Sequence[str],
    seeds: Sequence[int],
    limits: Sampling,
    batch: int,
) -> list[TokenRecord]:
    records: list[TokenRecord] = []
    for start in range(0, len(openings), batch):
        part = slice(start, start + batch)
        records += engine.play(list(map(_OneTurn, openings[part])), seeds[part], limits)
    return records


def _gaps(
    model: Any, tokens: ChatTokens, questions: Sequence[str], records: Sequence[TokenRecord]
) -> list[float | None]:
    """The gap of each answer, by teacher forcing under both contexts."""
    answers = [record.completion_ids for record in records]
    plain = answer_logprobs(model, tokens.pad, [tokens.prompt(one) for one in questions], answers)
    conditioned = answer_logprobs(
        model, tokens.pad, [record.prompt_ids for record in records], answers
    )
    gaps: list[float | None] = []
    for answer, prompt_only, with_rubric in zip(answers, plain, conditioned, strict=True):
        empty = answer == (tokens.end_of_turn,)
        sample = SampleLogprobs(
            prompt_only=() if empty else prompt_only, with_rubric=() if empty else with_rubric
        )
        gaps.append(self_gap([sample]).mean)
    return gaps


def _samples(
    tokens: ChatTokens,
    asked: Sequence[RubricPrompt],
    records: Sequence[TokenRecord],
    gaps: Sequence[float | None],
    score: Scorer | None,
) -> tuple[Sample, ...]:
    return tuple(
        Sample(
            prompt=one.prompt,
            tokens=len(record.completion_ids),
            gap=gap,
            reward=score(one, tokens.text(list(record.completion_ids))) if score else None,
        )
        for one, record, gap in zip(asked, records, gaps, strict=True)
    )


def _seed(seed: int, prompt: Key, number: int, in_view: bool) -> int:
    identity = json.dumps([seed, prompt, number, in_view])
    return int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8], "big")
