"""A toy of checked question answering: a factored answer policy and the reward it earns.

An answer is four choices: how many claims, search or not, the question's language or another,
plain or hedged. The reward is `r_base * phi - 0.03 * searched`, and 0 for an answer stopped by a
counter-measure. The numbers of this model are ours and were set before the first run:

- a claim is entailed, open or contradicted by the evidence with `TYPICAL_MIX` after a search and
  `CLOSED_BOOK_MIX` without; hedging turns half of the contradicted claims and a fifth of the
  entailed ones into open ones
- an answer of one claim is a fragment; fragments and other languages are off the checker's form
- `F1 = 2 entailed / (claims + 8)` against eight facts, 0 in another language
- `r_base = 0.585 + 0.03 F1`: a similarity score so flat that published healthy and degenerate
  policies differ by 0.009 (.600 and .591, arXiv 2605.25988), here about .3 of F1
- the checker sees the question's own evidence, whether or not the policy searched

What the checker rewards can only come from its confusion matrix. That fragments and foreign
answers please the lenient checker is an assumption (`off_form`) and no result; which of them is
learnt, when, and what comes after a remedy, are results.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from clinical_envs.checkedqa.cascade import Behaviour, Stage, admissible
from clinical_envs.checkedqa.checkers import LABELS, Label
from clinical_envs.checkedqa.rewards import Phi
from clinical_envs.checkedqa.simulated import TYPICAL_MIX, Confusion

CLAIMS = np.array([1, 2, 4, 8])
BASE_POLICY: tuple[tuple[float, ...], ...] = (
    (0.05, 0.20, 0.45, 0.30),  # claims 1, 2, 4, 8
    (0.30, 0.70),  # no search, search
    (0.98, 0.02),  # the question's language, another
    (0.80, 0.20),  # plain, hedged
)
CLOSED_BOOK_MIX = (0.35, 0.30, 0.35)
HEDGED_CONTRADICTION, HEDGED_ENTAILMENT = 0.5, 0.2
FACTS = 8
BASE_FLOOR, BASE_SLOPE = 0.585, 0.03
SEARCH_COST = 0.03
WORDS_PER_CLAIM = 20.0

_ENTAIL, _NEUTRAL, _CONTRADICT = (LABELS.index(label) for label in Label)


@dataclass(frozen=True, slots=True)
class Answers:
    """A batch of answers: the choice made in each factor, every array of shape (answers,)."""

    length: NDArray[np.int64]
    search: NDArray[np.int64]
    language: NDArray[np.int64]
    hedging: NDArray[np.int64]

    @property
    def choices(self) -> tuple[NDArray[np.int64], ...]:
        """The choices in the order of `BASE_POLICY`."""
        return self.length, self.search, self.language, self.hedging


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """A batch's behaviour with its rewards, the multiplier, and the F1 that training never sees."""

    behaviour: Behaviour
    phi: NDArray[np.float64]
    f1: NDArray[np.float64]


def base_logits() -> tuple[NDArray[np.float64], ...]:
    """Logits of the base policy, one array per factor."""
    return tuple(np.log(probabilities) for probabilities in BASE_POLICY)


def sample(
    logits: tuple[NDArray[np.float64], ...], number: int, generator: np.random.Generator
) -> Answers:
    """Draw answers, each factor independently of the others."""
    return Answers(
        *(generator.choice(len(one), size=number, p=softmax(one)) for one in logits),
    )


def grade(
    answers: Answers,
    checker: Confusion,
    gates: Collection[Stage],
    generator: np.random.Generator,
) -> Graded:
    """Draw the claims' truth and the checker's verdicts, and pay the reward."""
    claims = CLAIMS[answers.length]
    written = np.arange(CLAIMS.max()) < claims[:, None]
    truth = _truth(answers, generator)
    off_form = (claims == 1) | (answers.language == 1)
    verdicts = checker.draw(truth, off_form[:, None], generator)
    shares = [((verdicts == one) & written).sum(axis=1) / claims for one in range(len(LABELS))]
    phi = Phi().of_shares(*shares)
    entailed = ((truth == _ENTAIL) & written).sum(axis=1)
    f1 = np.where(answers.language == 0, 2 * entailed / (claims + FACTS), 0.0)
    reward = (BASE_FLOOR + BASE_SLOPE * f1) * phi - SEARCH_COST * answers.search
    ungated = Behaviour(
        claims=claims.astype(np.float64),
        length=WORDS_PER_CLAIM * claims,
        searches=answers.search.astype(np.float64),
        foreign_share=answers.language.astype(np.float64),
        reward=reward,
    )
    behaviour = replace(ungated, reward=np.where(admissible(ungated, gates), reward, 0.0))
    return Graded(behaviour=behaviour, phi=phi, f1=f1)


def _truth(answers: Answers, generator: np.random.Generator) -> NDArray[np.int64]:
    """What the evidence says about each of up to eight claims, shape (answers, 8)."""
    mixes = np.where(answers.search[:, None] == 1, TYPICAL_MIX, CLOSED_BOOK_MIX)
    shape = (len(answers.search), int(CLAIMS.max()))
    bounds = mixes.cumsum(axis=1)[:, None, :-1]
    truth: NDArray[np.int64] = (generator.random((*shape, 1)) >= bounds).sum(axis=-1)
    softened = generator.random(shape)
    weakened = ((truth == _CONTRADICT) & (softened < HEDGED_CONTRADICTION)) | (
        (truth == _ENTAIL) & (softened < HEDGED_ENTAILMENT)
    )
    return np.where((answers.hedging[:, None] == 1) & weakened, _NEUTRAL, truth)
