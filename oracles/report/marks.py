"""Numbers as text and as small marks: aligned, signed with a true minus, never rounded to a lie."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

_WIDTH, _HEIGHT = 120.0, 14.0
_MINUS = "−"
_LONGEST = 48


class Axis(NamedTuple):
    """The range that the marks of one table share."""

    low: float
    high: float

    def place(self, value: float) -> float:
        """Where a value lies, in pixels; values outside lie on the edge."""
        span = self.high - self.low or 1.0
        inside = min(max((value - self.low) / span, 0.0), 1.0)
        return 3.0 + inside * (_WIDTH - 6.0)


UNIT = Axis(0.0, 1.0)


def signed(value: float, digits: int = 3) -> str:
    """A value with its sign.

    >>> signed(-0.0315)
    '−0.032'
    """
    return f"{value:+z.{digits}f}".replace("-", _MINUS)


def plain(value: float, digits: int = 2) -> str:
    """A value without a plus sign."""
    return f"{value:z.{digits}f}".replace("-", _MINUS)


def percent(share: float, digits: int = 1) -> str:
    """A share in per cent, without the sign; a share that is not 0 or 1 never looks so.

    >>> percent(0.0001), percent(0.5), percent(0.999, 0)
    ('<0.1', '50.0', '>99')
    """
    step = 10.0**-digits
    if 0.0 < 100.0 * share < step / 2:
        return f"<{step:.{digits}f}"
    if 100.0 - step / 2 <= 100.0 * share < 100.0:
        return f">{100.0 - step:.{digits}f}"
    return plain(100.0 * share, digits)


def minus(text: str) -> str:
    """Text with a true minus before its negative numbers.

    >>> minus("best-constant -0.0315")
    'best-constant −0.0315'
    """
    return re.sub(r"(?<![\w-])-(?=\d)", _MINUS, text)


def shown(name: str, limit: int = _LONGEST) -> str:
    """A name on one line, cut in the middle so that what tells two names apart survives.

    >>> shown("run-2026-05/outcome/checkpoint-40", 20)
    'run-2026-0…kpoint-40'
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    if len(line) <= limit:
        return line
    return f"{line[: limit // 2]}…{line[-(limit - limit // 2 - 1) :]}"


def range_mark(
    value: float, low: float | None, high: float | None, axis: Axis, ticks: Sequence[float] = ()
) -> Markup:
    """A dot with its interval on an axis, ticks at reference values; decoration beside the text."""
    middle = _HEIGHT / 2
    parts = [f'<path class="axis" d="M0,{middle:g}H{_WIDTH:g}"/>']
    parts += [
        f'<path class="tick" d="M{axis.place(tick):.1f},1V{_HEIGHT - 1:g}"/>' for tick in ticks
    ]
    if low is not None and high is not None:
        span = f"M{axis.place(low):.1f},{middle:g}H{axis.place(high):.1f}"
        parts.append(f'<path class="span" d="{span}"/>')
    parts.append(f'<circle cx="{axis.place(value):.1f}" cy="{middle:g}" r="3"/>')
    return Markup(  # only numbers were written into it
        f'<svg class="mark" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" aria-hidden="true">'
        + "".join(parts)
        + "</svg>"
    )
