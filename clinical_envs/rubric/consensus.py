"""Three rules that turn the votes of a panel of judges into one verdict.

A vote is `True` (met), `False` (not met) or `None` (the judge failed). One principle settles
failed votes in all three rules: **a rule states a verdict only if every way of filling in the
failed votes gives that verdict; otherwise the verdict is `None`**, unscored and never "not met".

The reference reward of arXiv 2605.12474 uses `unanimous_met`, its choice of a verifier uses
`majority`, its count of exploits uses `unanimous_not_met`. On a 2-1 split the three differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from clinical_envs.errors import InvalidArgument

Verdict = bool | None
"""Met, not met, or unscored."""


def unanimous_met(votes: Sequence[Verdict]) -> Verdict:
    """Met if and only if every judge says met.

    >>> unanimous_met([True, True, False]), unanimous_met([True, None, True])
    (False, None)

    Raises:
        InvalidArgument: the panel is empty.
    """
    _require_judges(votes)
    if False in votes:
        return False
    return None if None in votes else True


def majority(votes: Sequence[Verdict]) -> Verdict:
    """The verdict of more than half of the whole panel, failed judges included in the half.

    An even split of an even panel has no majority and is `None`.

    >>> majority([True, True, False]), majority([True, True, None]), majority([True, None, False])
    (True, True, None)

    Raises:
        InvalidArgument: the panel is empty.
    """
    _require_judges(votes)
    if 2 * votes.count(True) > len(votes):
        return True
    return False if 2 * votes.count(False) > len(votes) else None


def unanimous_not_met(votes: Sequence[Verdict]) -> Verdict:
    """True if and only if every judge says not met; the negation of "at least one says met".

    >>> unanimous_not_met([False, False, False]), unanimous_not_met([False, True, None])
    (True, False)

    Raises:
        InvalidArgument: the panel is empty.
    """
    _require_judges(votes)
    if True in votes:
        return False
    return None if None in votes else True


def _require_judges(votes: Sequence[Verdict]) -> None:
    if not votes:
        raise InvalidArgument("a panel has no judges; give at least one vote per criterion")
