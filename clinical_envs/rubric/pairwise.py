"""Pairwise judging without a rubric: two answers, several judges, both orders of showing.

A judge rates both answers on six dimensions from 1 to 7, once with each answer shown first. The
two orders are averaged, so a judge that only likes the first place ends in a tie. Design of
arXiv 2605.12474; order-swapping against position bias is common practice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from clinical_envs.errors import InvalidArgument

Dimension = Literal[
    "completeness", "factual_correctness", "conciseness", "relevance", "safety", "overall"
]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
LOWEST, HIGHEST = 1.0, 7.0
_ROUNDING = 1e-9

Side = Literal["left", "right"]
Preference = Literal["left", "right", "tie"]
Ratings = Mapping[Dimension, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Showing:
    """What one judge said when one of the two answers came first.

    Ratings may be fractions (a judge may average); each must lie in [1, 7].

    Raises:
        InvalidArgument: a dimension is missing or a rating lies outside [1, 7].
    """

    judge: str
    shown_first: Side
    left: Ratings
    right: Ratings

    def __post_init__(self) -> None:
        for side, ratings in (("left", self.left), ("right", self.right)):
            for dimension in DIMENSIONS:
                rating = ratings.get(dimension)
                if rating is None or not LOWEST <= rating <= HIGHEST:
                    raise InvalidArgument(
                        f"judge {self.judge!r} rates {dimension} of the {side} answer {rating}; "
                        f"give a number from {LOWEST:g} to {HIGHEST:g}"
                    )


def margins(showings: Iterable[Showing], dimension: Dimension) -> dict[str, float | None]:
    """Per judge, the rating of left minus right, each order's mean weighted one half.

    A judge without both orders is unscored (`None`): its position bias could not cancel.

    >>> five, three = (dict.fromkeys(DIMENSIONS, float(rating)) for rating in (5, 3))
    >>> margins([Showing(judge="a", shown_first="left", left=five, right=three),
    ...          Showing(judge="a", shown_first="right", left=three, right=five)], "overall")
    {'a': 0.0}
    """
    differences: dict[str, dict[Side, list[float]]] = {}
    for showing in showings:
        orders = differences.setdefault(showing.judge, {"left": [], "right": []})
        orders[showing.shown_first].append(showing.left[dimension] - showing.right[dimension])
    return {
        judge: _mean_of_orders(orders["left"], orders["right"])
        for judge, orders in differences.items()
    }


def preference(margin: float | None) -> Preference | None:
    """Left for a margin above 0, right below, tie at 0, unscored for an unscored margin.

    Ratings in tenths cancel to within rounding only, so that a margin below 1e-9 is 0.
    """
    if margin is None:
        return None
    if abs(margin) < _ROUNDING:
        return "tie"
    return "left" if margin > 0 else "right"


def majority_preference(preferences: Sequence[Preference | None]) -> Preference | None:
    """What more than half of all judges prefer, unscored ones included in the half; else `None`."""
    for side in ("left", "right", "tie"):
        if 2 * preferences.count(side) > len(preferences):
            return side
    return None


def consensus_preference(preferences: Sequence[Preference | None]) -> Preference | None:
    """What every judge prefers; `None` where they differ, one is unscored, or there are none."""
    found = set(preferences)
    return found.pop() if len(found) == 1 else None


def _mean_of_orders(left_first: list[float], right_first: list[float]) -> float | None:
    if not left_first or not right_first:
        return None
    return (sum(left_first) / len(left_first) + sum(right_first) / len(right_first)) / 2
