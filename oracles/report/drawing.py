"""Drawings of the page: matplotlib figures as inline SVG in the page's colours and words."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

if TYPE_CHECKING:
    import matplotlib.figure

# Colours that stand for the page's own; see page_svg.
INK, MUTED, RULE, ACCENT = "#010203", "#040506", "#070809", "#0a0b0c"
_VARIABLES = {INK: "ink", MUTED: "muted", RULE: "rule", ACCENT: "accent"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A drawing that is a section of the page. svg: from `page_svg`; any other text is escaped."""

    title: str
    svg: Markup
    caption: str


@contextmanager
def page_style(salt: str) -> Iterator[None]:
    """Matplotlib's own defaults, then the page's; drawings of one page need different salts."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "svg.hashsalt": salt,
                "svg.fonttype": "none",
                "text.parse_math": False,
                "axes.unicode_minus": True,
                "font.size": 10,
                "axes.edgecolor": RULE,
                "axes.labelcolor": MUTED,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "xtick.color": MUTED,
                "ytick.color": MUTED,
                "text.color": INK,
                "axes.facecolor": "none",
                "figure.facecolor": "none",
            }
        )
        yield


def page_svg(figure: matplotlib.figure.Figure, label: str) -> Markup:
    """The drawing as SVG for a page: its colours are the page's, its ids only those in use.

    The same drawing gives the same bytes. label: what it shows, for those who cannot see it.
    """
    buffer = io.StringIO()
    with warnings.catch_warnings():
        # The browser draws the text, so that a glyph that is not in matplotlib's font is no loss.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"\sxmlns(:\w+)?=\"[^\"]*\"", "", svg)
    used = set(re.findall(r"#([A-Za-z][\w.-]*)", svg))
    svg = re.sub(r'\sid="([^"]*)"', lambda m: m[0] if m[1] in used else "", svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var(--{variable})")
    size = re.search(r'width="([\d.]+)pt" height="[\d.]+pt"', svg)
    width = float(size[1]) if size else 600.0
    look = f'aria-label="{escape(label)}" style="width:100%;min-width:{0.8 * width:.0f}pt"'
    return Markup(svg.replace("<svg", f'<svg role="img" {look}', 1))  # matplotlib escapes its text
