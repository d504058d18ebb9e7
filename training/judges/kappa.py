"""Agreement beyond chance: `kappa = (observed - expected) / (1 - expected)`.

1 is perfect agreement, 0 that of chance, below 0 less than chance. It is undefined (`None`) where
chance alone agrees always, as when every rater gives every item the same category. Items that a
rater left unscored are left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from clinical_envs.errors import InvalidArgument

Category = Hashable
"""Anything but `None`, which is unscored."""


def cohen_kappa(first: Sequence[Category], second: Sequence[Category]) -> float | None:
    """Two raters; expected = `sum_c p1(c) p2(c)` of their own shares of each category.

    Source: J. Cohen, Educational and Psychological Measurement 20 (1960), 37-46.

    >>> cohen_kappa([1, 1, 0, 0], [1, 0, 0, 0])
    0.5

    Raises:
        InvalidArgument: the raters have different numbers of items.
    """
    if len(first) != len(second):
        raise InvalidArgument(
            f"{len(first)} verdicts against {len(second)}; give both raters the same items"
        )
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    if not pairs:
        return None
    categories = dict.fromkeys(category for pair in pairs for category in pair)
    shares = np.array([[sum(p[i] == c for p in pairs) for c in categories] for i in (0, 1)])
    expected = float(shares[0] @ shares[1]) / len(pairs) ** 2
    return _beyond_chance(sum(a == b for a, b in pairs) / len(pairs), expected)


def fleiss_kappa(votes: Sequence[Sequence[Category]]) -> float | None:
    """Two or more raters, `votes[item][rater]`; expected = `sum_c p(c)^2` of the pooled shares.

    Items that some rater left unscored are left out as a whole.
    Source: J. L. Fleiss, Psychological Bulletin 76 (1971), 378-382.

    >>> fleiss_kappa([[1, 1, 1], [0, 0, 0], [1, None, 0]])
    1.0

    Raises:
        InvalidArgument: items with different numbers of raters, or a single rater.
    """
    raters = {len(item) for item in votes}
    if len(raters) > 1 or raters & {0, 1}:
        raise InvalidArgument(
            f"items with {sorted(raters)} votes; give two or more raters, the same on every item"
        )
    complete = [item for item in votes if None not in item]
    if not complete:
        return None
    categories = dict.fromkeys(category for item in complete for category in item)
    counts = np.array([[list(item).count(c) for c in categories] for item in complete])
    n = counts.sum(axis=1)[0]
    observed = float(((counts * (counts - 1)).sum(axis=1) / (n * (n - 1))).mean())
    return _beyond_chance(observed, float(((counts.sum(axis=0) / counts.sum()) ** 2).sum()))


def _beyond_chance(observed: float, expected: float) -> float | None:
    # shares that are exactly 1 in rational arithmetic may miss it by rounding
    return None if 1 - expected < 1e-12 else (observed - expected) / (1 - expected)
