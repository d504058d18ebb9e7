"""Cohen's and Fleiss' kappa: worked examples from print, an independent formula, laws."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.errors import InvalidArgument
from training.judges.kappa import cohen_kappa, fleiss_kappa

votes = st.integers(2, 4).flatmap(
    lambda raters: st.lists(
        st.lists(st.sampled_from("abc"), min_size=raters, max_size=raters), min_size=1, max_size=12
    )
)
pairs = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=20)

FLEISS_1971 = """
0 0 0 0 14 / 0 2 6 4 2 / 0 0 3 5 6 / 0 3 9 2 0 / 2 2 8 1 1
7 7 0 0 0 / 3 2 6 3 0 / 2 5 3 2 2 / 6 5 2 1 0 / 0 2 2 3 7
"""


def test_fleiss_worked_example_of_ten_items_and_fourteen_raters() -> None:
    """The table that textbooks print with kappa = .210."""
    rows = [row.split() for line in FLEISS_1971.strip().splitlines() for row in line.split("/")]
    items = [np.repeat(np.arange(5), [int(n) for n in row]).tolist() for row in rows]
    assert fleiss_kappa(items) == pytest.approx(0.210, abs=5e-4)


def test_cohen_worked_example_of_fifty_applications() -> None:
    """20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: observed .7, expected .5."""
    cells = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10
    first, second = zip(*cells, *[(False, False)] * 15, strict=True)
    assert cohen_kappa(first, second) == pytest.approx(0.4)


@given(pairs)
def test_cohens_expectation_is_agreement_with_every_item_of_the_other(
    given_pairs: list[tuple[str, str]],
) -> None:
    first, second = zip(*given_pairs, strict=True)
    n = len(first)
    observed = sum(a == b for a, b in given_pairs) / n
    expected = sum(a == b for a, b in product(first, second)) / n**2
    found = cohen_kappa(first, second)
    if expected == 1:
        assert found is None
    else:
        assert found == pytest.approx((observed - expected) / (1 - expected))


@given(votes)
def test_fleiss_observed_agreement_is_the_share_of_agreeing_pairs_of_raters(
    items: list[list[str]],
) -> None:
    agreeing = np.mean([a == b for item in items for a, b in permutations(item, 2)])
    pool = [vote for item in items for vote in item]
    expected = sum(a == b for a, b in product(pool, pool)) / len(pool) ** 2
    found = fleiss_kappa(items)
    if expected == 1:
        assert found is None
    else:
        assert found == pytest.approx((agreeing - expected) / (1 - expected))


@given(votes, st.permutations("abc"), st.randoms())
def test_names_of_categories_and_order_of_raters_do_not_matter(items, names, shuffler) -> None:
    renamed = [["abc"[names.index(vote)] for vote in item] for item in items]
    for item in renamed:
        shuffler.shuffle(item)
    found, again = fleiss_kappa(items), fleiss_kappa(renamed)
    assert (found is None) == (again is None)
    if found is not None:
        assert again == pytest.approx(found)


@given(pairs)
def test_unscored_items_change_nothing(given_pairs: list[tuple[str, str]]) -> None:
    first, second = map(list, zip(*given_pairs, strict=True))
    found = cohen_kappa(first, second)
    assert cohen_kappa([*first, None, "a"], [*second, "a", None]) == found
    items = [list(pair) for pair in given_pairs]
    assert fleiss_kappa([*items, ["a", None]]) == fleiss_kappa(items)


def test_perfect_and_opposite_agreement() -> None:
    assert cohen_kappa([1, 0, 1], [1, 0, 1]) == 1
    assert cohen_kappa([1, 0], [0, 1]) == -1
    assert fleiss_kappa([[1, 0], [0, 1]]) == -1


def test_without_spread_or_items_there_is_no_kappa() -> None:
    assert cohen_kappa([1, 1], [1, 1]) is None
    assert cohen_kappa([], []) is None
    assert fleiss_kappa([[1, 1], [1, 1]]) is None
    assert fleiss_kappa([[1, None]]) is None
    assert fleiss_kappa([]) is None


def test_raters_of_different_items_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="same items"):
        cohen_kappa([1], [1, 0])
    for items in ([[1, 1], [1]], [[1]], [[]]):
        with pytest.raises(InvalidArgument, match="two or more raters"):
            fleiss_kappa(items)
