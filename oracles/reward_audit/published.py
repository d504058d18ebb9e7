"""Published tables of three papers, and the figures that follow from them or do not.

[1] arXiv 2605.12474 on reward hacking of rubrics; [2] arXiv 2605.25988 on trainable checkers;
[3] arXiv 2608.23811 on fact-checking agents. Only tables are kept whose cells allow a
recomputation; `NOT_RECOMPUTED` says what has none, and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oracles.reward_audit.stopping import back_slide

VERIFIER_SELECTION: dict[str, dict[str, tuple[float, float, float]]] = {
    "medical": {
        "GPT-5": (92.6, 4.4, 3.0),
        "OSS-120B": (92.1, 4.8, 3.2),
        "GPT-5-mini": (91.0, 7.7, 1.4),
        "OSS-20B": (90.4, 5.0, 4.5),
        "nano": (89.4, 7.7, 2.9),
        "4o-mini": (82.9, 10.3, 6.8),
        "Qwen3-30B-A3B": (61.9, 37.1, 1.0),
    },
    "science": {
        "GPT-5": (93.0, 4.1, 2.9),
        "OSS-120B": (92.1, 5.5, 2.4),
        "GPT-5-mini": (90.4, 8.4, 1.2),
        "OSS-20B": (90.8, 5.7, 3.5),
        "nano": (84.8, 13.0, 2.2),
        "4o-mini": (75.8, 19.8, 4.4),
        "Qwen3-30B-A3B": (67.5, 31.0, 1.5),
    },
}
"""[1] verifier selection: agreement, false positives, false negatives in %, per domain."""

HEALTHBENCH_STEPS = tuple(range(0, 500, 50))
HEALTHBENCH_WEAK = (
    .2143, .2445, .2545, .2752, .2925, .2907, .2820, .2847, .2797, .2773,
)  # fmt: skip
HEALTHBENCH_STRONG = (
    .2143, .2447, .2660, .2851, .3029, .3070, .3173, .3190, .3134, .3159,
)  # fmt: skip
"""[1] table 7: HealthBench score of the policies trained with the weak and the strong verifier."""

PAIRWISE: dict[str, tuple[int, int, int, int]] = {
    "rubric set, majority": (51, 8, 304, 69),
    "rubric set, consensus": (21, 1, 195, 38),
    "HealthBench, majority": (170, 61, 237, 250),
    "HealthBench, consensus": (110, 21, 131, 129),
}
"""[1] table 10: pairs by what the rubric and the judges prefer: (base, base), (base, last),
(last, base), (last, last)."""

FAILURE_CLASSES = {"A": 36.0, "B": 34.6, "C": 29.4}
FAILURE_CLASS_B = (17.9, 16.6)
"""[1] failure taxonomy in % of 53,447 cases; only class B has both of its parts printed."""

PRESENCE = {"rubric set": (3.3, 17.9, 49.4, 8.4, 11.3), "HealthBench": (4.7, 12.6, 31.6, 18.6, 8.6)}
ABSENCE = {"rubric set": (3.6, 5.0), "HealthBench": (7.8, 14.7)}
"""[1] shares in % of criteria that ask for something and that forbid something, by category."""

LENGTHS = {"rubric set": (2086, 5778), "HealthBench": (2067, 3444)}
"""[1] mean characters of an answer, base and last checkpoint."""

EXPLOITATION = {"medical": (39, 65), "science": (63, 75)}
"""[1] exploitation rate in % of the weak verifier, first and last window."""


REFERENCE_REWARD_MEDICAL = {250: 0.3789, 350: 0.3792}
"""[1] table 8: reference reward at its two largest steps."""

CHECKER_SHARES = {"MedNLI-Cls": (0.54, 0.30, 0.16), "GPT-NLI": (0.86, 0.10, 0.04)}
"""[2] shares of support, neutral and contradiction; the collapsed checker has > 97 % neutral."""


ACCURACY: dict[str, tuple[float, ...]] = {
    "SciFact": (
        66.49, 78.53, 82.72, 78.01, 81.15,
        59.16, 75.92, 81.15, 81.15, 80.10, 89.01, 90.05,
    ),
    "HealthFC": (
        60.86, 54.13, 74.01, 70.95, 72.48,
        50.15, 52.60, 71.87, 70.64, 70.34, 72.17, 77.37,
    ),
}  # fmt: skip
"""[3] table 1: accuracy in % of five agents on a large model and seven on a small one. The last
three are the authors' agent on the small model: untrained, after GRPO, after EG-GRPO."""

EVIDENCE_QUALITY = (66.76, 64.01, 70.46)
"""[3] table 2: EQS in % on SciFact by the training judge: untrained, GRPO, EG-GRPO."""

HEALTHFC_CLAIMS = {"supported": 202, "refuted": 125}
"""Claims with a verdict in the public file of HealthFC."""

SCIFACT_TRAINING_CLAIMS = {"supported": 332, "refuted": 173}
"""Claims with a verdict in the public training file of SciFact, all that [3] trains on."""
BATCH, EPOCHS = 64, 10
"""[3] table 3."""

NOT_RECOMPUTED: dict[str, str] = {
    "[1] table 8: standard deviations": "the rewards of the single checkpoints are not at hand",
    "[1] table 19: differences": "the two tables they are differences of are not at hand",
    "[1] satisfaction by category": "prompts that lack a category are left out of its mean",
    "[1] stopping regret": "only bounds are printed; the checkpoints' rewards are not at hand",
    "[2] all of it": "only a summary is at hand, and no table",
    "[3] fall of the hallucination rate, 19.63": "it is read off a figure, which has no numbers",
    "[3] rise of 8.9 points": "two differences of table 1 fit it, and which is meant is not said",
}
"""Printed figures without a row in `recomputations`, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputation:
    """A printed figure beside the same figure from the printed table, in the unit given."""

    what: str
    source: str
    printed: float
    recomputed: float
    tolerance: float

    @property
    def agrees(self) -> bool:
        """Whether the difference is within what rounding of the printed figures explains."""
        return abs(self.printed - self.recomputed) <= self.tolerance + 1e-9


def recomputations() -> tuple[Recomputation, ...]:
    """Every figure of this module that can be recomputed, the disagreeing ones included."""
    return (
        *_verifiers(),
        *_pairwise(),
        *_healthbench(),
        *_taxonomies(),
        *_growth(),
        *_fact_checking(),
    )


def disagreements() -> tuple[Recomputation, ...]:
    """The figures that do not follow from the tables they are said to come from."""
    return tuple(one for one in recomputations() if not one.agrees)


def rubric_prefers_last(pairs: tuple[int, int, int, int]) -> float:
    """Percentage of pairs in which the rubric prefers the last checkpoint."""
    return 100 * (pairs[2] + pairs[3]) / sum(pairs)


def judges_prefer_base(pairs: tuple[int, int, int, int]) -> float:
    """Percentage of pairs in which the judges prefer the base policy."""
    return 100 * (pairs[0] + pairs[2]) / sum(pairs)


def preferences_agree(pairs: tuple[int, int, int, int]) -> float:
    """Percentage of pairs in which rubric and judges prefer the same answer."""
    return 100 * (pairs[0] + pairs[3]) / sum(pairs)


def set_sizes(percentages: Sequence[float], at_most: int) -> tuple[int, ...]:
    """Every n up to `at_most` such that all percentages are `100 k / n`, k whole, at two decimals.

    >>> set_sizes([33.33, 66.67], 10)
    (3, 6, 9)
    """
    return tuple(
        n
        for n in range(1, at_most + 1)
        if all(abs(100 * round(p * n / 100) / n - p) <= 0.005 + 1e-9 for p in percentages)
    )


def _one(
    what: str, source: str, printed: float, recomputed: float, tolerance: float
) -> Recomputation:
    return Recomputation(
        what=what, source=source, printed=printed, recomputed=recomputed, tolerance=tolerance
    )


def _verifiers() -> list[Recomputation]:
    return [
        _one(f"{verifier}, {domain}: agreement + FP + FN, %", "[1] verifier selection", 100.0,
             sum(shares), 0.1)
        for domain, table in VERIFIER_SELECTION.items()
        for verifier, shares in table.items()
    ]  # fmt: skip


def _pairwise() -> list[Recomputation]:
    printed = {
        "rubric set, majority": 27.8,
        "rubric set, consensus": 23.1,
        "HealthBench, majority": 58.5,
        "HealthBench, consensus": 61.1,
    }
    found = [
        _one(f"{name}: rubric and judges agree, %", "[1] table 10", value,
             preferences_agree(PAIRWISE[name]), 0.05)
        for name, value in printed.items()
    ]  # fmt: skip
    for panel in ("majority", "consensus"):
        pairs = PAIRWISE[f"rubric set, {panel}"]
        source = f"[1] text against table 10, {panel}"
        found += [
            _one("rubric prefers last, %", source, 85.8, rubric_prefers_last(pairs), 0.05),
            _one("judges prefer base, %", source, 78.4, judges_prefer_base(pairs), 0.05),
        ]
    return found


def _healthbench() -> list[Recomputation]:
    best = max(HEALTHBENCH_STRONG)
    reference = REFERENCE_REWARD_MEDICAL
    return [
        _one("weak verifier: share of the gain lost again, %", "[1] text against table 7", 25.0,
             100 * back_slide(HEALTHBENCH_WEAK), 0.5),
        _one("strong verifier: best step", "[1] table 7", 350,
             HEALTHBENCH_STEPS[HEALTHBENCH_STRONG.index(best)], 0.0),
        _one("medical: step of the largest reference reward", "[1] appendix C against table 8",
             250, max(reference, key=reference.__getitem__), 0.0),
    ]  # fmt: skip


def _taxonomies() -> list[Recomputation]:
    classes = [
        _one("failure classes, sum, %", "[1] taxonomy", 100.0, sum(FAILURE_CLASSES.values()), 0.15),
        _one("failure class B, sum of its parts, %", "[1] taxonomy", FAILURE_CLASSES["B"],
             sum(FAILURE_CLASS_B), 0.1),
    ]  # fmt: skip
    printed = (
        ("rubric set: presence", 90.2, PRESENCE["rubric set"]),
        ("rubric set: absence", 8.6, ABSENCE["rubric set"]),
        ("HealthBench: presence", 76.1, PRESENCE["HealthBench"]),
        ("HealthBench: absence", 22.5, ABSENCE["HealthBench"]),
    )
    demands = [
        _one(f"{name} criteria, %", "[1] presence and absence", value, sum(shares), 0.25)
        for name, value, shares in printed
    ]
    return [*classes, *demands]


def _growth() -> list[Recomputation]:
    grown = {"rubric set": 2.77, "HealthBench": 1.67}
    gained = {"medical": 26, "science": 12}
    return [
        *(
            _one(f"{name}: length, last over base", "[1] lengths", value,
                 LENGTHS[name][1] / LENGTHS[name][0], 0.005)
            for name, value in grown.items()
        ),
        *(
            _one(f"{name}: rise of exploitation, points", "[1] exploitation", value,
                 EXPLOITATION[name][1] - EXPLOITATION[name][0], 1.0)
            for name, value in gained.items()
        ),
    ]  # fmt: skip


def _fact_checking() -> list[Recomputation]:
    def gain(values: Sequence[float]) -> float:
        return values[-1] - values[-3]

    sizes = set_sizes(ACCURACY["HealthFC"], 600)
    claims = sum(SCIFACT_TRAINING_CLAIMS.values())
    return [
        _one("SciFact: gain in accuracy, points", "[3] table 1", 9.95, gain(ACCURACY["SciFact"]),
             0.01),
        _one("HealthFC: gain in accuracy, points", "[3] table 1", 7.03,
             gain(ACCURACY["HealthFC"]), 0.01),
        _one("SciFact: gain in evidence quality, points", "[3] table 2", 3.70,
             gain(EVIDENCE_QUALITY), 0.01),
        _one("training steps", "[3] table 3", 70, EPOCHS * (claims // BATCH), 0.0),
        _one("HealthFC: claims behind the accuracies", "[3] table 1 against the public file",
             sum(HEALTHFC_CLAIMS.values()), sizes[0], 0.0),
    ]  # fmt: skip
