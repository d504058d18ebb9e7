"""Decision trees as SVG, laid out here: no plotting library, no fonts, no scripts.

Colours are attributes, so that a file stands alone; the classes let a page restyle them.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from clinical_envs.simulator import Commit
from clinical_envs.task import Task

if TYPE_CHECKING:
    from oracles.tree import Node

_RAMP = ((47, 127, 134), (137, 181, 160), (230, 201, 110), (221, 141, 69), (163, 56, 60))
_COLUMN, _ROW, _BOX, _HEIGHT, _TOP, _MARGIN = 224, 34, 174, 24, 66, 16
_LONGEST_NAME = 21
_FONTS = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"


class Panel(NamedTuple):
    """One tree of a drawing."""

    heading: str
    subtitle: str
    root: Node


def acuity_colours(n: int) -> tuple[str, ...]:
    """One colour a decision, from the least to the most acute, as `#rrggbb`."""
    ramp, stops = np.array(_RAMP), np.linspace(0.0, 1.0, len(_RAMP))
    places = np.linspace(0.0, 1.0, n)
    channels = np.stack([np.interp(places, stops, ramp[:, i]) for i in range(3)], axis=1)
    return tuple("#" + "".join(f"{round(channel):02x}" for channel in rgb) for rgb in channels)


def ink_on(colour: str) -> str:
    """Black or white, whichever stands out more on a `#rrggbb` colour (WCAG luminance)."""
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255.0
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return "#ffffff" if linear @ np.array([0.2126, 0.7152, 0.0722]) < 0.179 else "#000000"


def draw(task: Task, title: str, panels: Sequence[Panel]) -> str:
    """The panels one under another: time runs to the right, edge width is probability."""
    parts: list[str] = []
    top, width = 30, 640
    for panel in panels:
        layout = _Layout(task, panel.root)
        parts += [
            f'<g transform="translate({_MARGIN},{top})">',
            _text(0, 20, panel.heading, size=15, weight=600),
            _text(0, 39, panel.subtitle, size=12, css="t2"),
            f'<g transform="translate(0,{_TOP})">',
            *layout.edges,
            *layout.boxes,
            "</g></g>",
        ]
        top += _TOP + layout.rows * _ROW + 24
        width = max(width, layout.deepest * _COLUMN + _BOX)
    width += 2 * _MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" '
            f'width="{width}" height="{top}" role="img" aria-label="{_xml(title)}" '
            f'font-family="{_FONTS}">',
            f'<rect class="t-paper" width="{width}" height="{top}" fill="#ffffff"/>',
            *_legend(task),
            *parts,
            "</svg>\n",
        ]
    )


class _Layout:
    """One tree placed: leaves one under another, parents midway between their children.

    rows: leaves. deepest: depth of the deepest node. edges, boxes: in pixels, from (0, 0).
    """

    def __init__(self, task: Task, root: Node) -> None:
        self.rows = self.deepest = 0
        self.edges: list[str] = []
        self.boxes: list[str] = []
        self._task = task
        self._colours = acuity_colours(len(task.decisions))
        self._place(root, 0)

    def _place(self, node: Node, depth: int) -> float:
        """Draw a node and all below it; returns the height of its middle."""
        self.deepest = max(self.deepest, depth)
        below = [(answer, child, self._place(child, depth + 1)) for answer, child in node.children]
        if below:
            y = (below[0][2] + below[-1][2]) / 2
        else:
            y = (self.rows + 0.5) * _ROW
            self.rows += 1
        for answer, child, child_y in below:
            self._edge(depth * _COLUMN + _BOX, y, child_y, answer, child.probability)
        self._box(node, depth * _COLUMN, y)
        return y

    def _edge(self, x: int, y: float, child_y: float, answer: bool | None, chance: float) -> None:
        end, bend = x + _COLUMN - _BOX, x + (_COLUMN - _BOX) / 2
        self.edges.append(
            f'<path class="t-edge" d="M{x},{y:g}C{bend:g},{y:g} {bend:g},{child_y:g} '
            f'{end},{child_y:g}" fill="none" stroke="#b4bcc6" stroke-width="{1 + 9 * chance:.2f}"/>'
        )
        if answer is not None:
            label, lift = ("yes", -7) if answer else ("no", 15)
            self.boxes.append(
                _text(end - 4, child_y + lift, label, size=10, css="t2", anchor="end")
            )

    def _box(self, node: Node, x: int, y: float) -> None:
        shape, ink, quiet = 'class="t-ask" rx="11" fill="#f3f5f8"', "", "t2"
        name = node.label
        if node.action is not None:
            name = name.partition(" ")[2]
        if isinstance(node.action, Commit):
            colour = self._colours[node.action.decision]
            shape, ink, quiet = f'rx="3" fill="{colour}"', ink_on(colour), ""
        states = zip(self._task.state_ids, node.belief, strict=True)
        belief = ", ".join(f"{state} {p:.3f}" for state, p in states)
        hint = f"{node.label}: V {node.value:+.4f}, H {node.entropy:.3f} nats; {belief}"
        if len(name) > _LONGEST_NAME:
            name = name[: _LONGEST_NAME - 1] + "…"
        share = _percent(node.probability)
        self.boxes += [
            f"<g><title>{_xml(hint)}</title>",
            f'<rect {shape} x="{x}" y="{y - _HEIGHT / 2:g}" width="{_BOX}" height="{_HEIGHT}" '
            'stroke="#8a94a0" stroke-width="0.6"/>',
            _text(x + 8, y + 4, name, size=11, ink=ink),
            _text(x + _BOX - 7, y + 4, share, size=9, css=quiet, ink=ink, anchor="end"),
            "</g>",
        ]


def _legend(task: Task) -> list[str]:
    parts, x = [], _MARGIN
    for name, colour in zip(task.decision_ids, acuity_colours(len(task.decisions)), strict=True):
        parts.append(f'<rect x="{x}" y="12" width="11" height="11" rx="2" fill="{colour}"/>')
        parts.append(_text(x + 16, 22, name, size=11))
        x += 34 + 7 * len(name)
    return parts


def _text(
    x: float,
    y: float,
    words: str,
    *,
    size: int,
    weight: int = 400,
    anchor: str = "start",
    css: str = "t1",
    ink: str = "",
) -> str:
    """A line of text; `ink` overrules what the class says."""
    colour = ink or ("#5c6773" if css == "t2" else "#14181d")
    style = "" if ink else f' class="{css}"'
    return (
        f'<text{style} x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}" fill="{colour}">{_xml(words)}</text>'
    )


def _xml(text: str) -> str:
    """Escaped, and without the control characters that XML forbids."""
    return escape("".join(c if c.isprintable() else " " for c in text))


def _percent(share: float) -> str:
    if share >= 0.0095:
        return f"{100 * share:.0f} %"
    return f"{100 * share:.1f} %" if share >= 0.0005 else "<0.1 %"
