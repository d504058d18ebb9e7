"""The plots of a task: what each policy's questions bought, and what it decided."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from markupsafe import Markup

from clinical_envs.errors import MissingExtra, require
from oracles.flags import MIN_CASES
from oracles.report.content import Entry, SplitPart, TaskPart
from oracles.report.drawing import ACCENT, INK, MUTED, RULE, page_style, page_svg
from oracles.report.marks import shown, signed
from oracles.tree_drawing import acuity_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NO_DECISION = "#9aa3ad"
_LONGEST_NAME = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class Plots:
    """Drawings of a task; None where there is nothing to draw."""

    value_against_asks: Markup | None
    decisions_by_group: Markup | None


def missing_plots() -> str | None:
    """What to install for plots; None where nothing is missing."""
    try:
        require("matplotlib", "plots")
    except MissingExtra as error:
        return str(error)
    return None


def draw_plots(part: TaskPart) -> Plots:
    """The plots of the split that verdicts are read from."""
    with page_style(part.anchor):
        return Plots(
            value_against_asks=_value_against_asks(part),
            decisions_by_group=_decisions_by_group(part, part.splits[0]),
        )


def _value_against_asks(part: TaskPart) -> Markup | None:
    from matplotlib.figure import Figure

    entries = [e for e in part.splits[0].entries if e.overall["n_cases"] >= MIN_CASES]
    if not entries:
        return None
    figure = Figure(figsize=(12.6, 4.7), dpi=72)
    axes = figure.add_axes((0.065, 0.11, 0.8, 0.86))
    axes.set_xlabel("mean asks")
    axes.set_ylabel("value")
    axes.grid(color=RULE, linewidth=0.6)
    axes.margins(x=0.12, y=0.1)
    references = zip(("oracle V*", "best constant"), ("bottom", "top"), part.ticks, strict=False)
    for name, side, level in references:
        axes.axhline(level, color=ACCENT, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        axes.annotate(
            f"{name} {signed(level)}",
            (1.0, level),
            xycoords=("axes fraction", "data"),
            xytext=(5, 0),
            textcoords="offset points",
            va=side,
            size=8.5,
            color=ACCENT,
        )
    points = [_point(axes, entry) for entry in entries]
    star = _oracle_point(entries[0])
    if star is not None:
        axes.plot(*star, marker="*", markersize=15, color=ACCENT, zorder=2, linestyle="none")
    _name_points(axes, points)
    return page_svg(
        figure,
        "Value against mean asks of each policy with 95 % intervals; the star is the oracle on the "
        "same cases",
    )


def _point(axes: Axes, entry: Entry) -> tuple[float, float, str]:
    value, asks = (entry.overall["intervals"][name] for name in ("value", "mean_asks"))
    spans = []
    for estimate in (asks, value):
        low, high = estimate["low"], estimate["high"]
        middle = estimate["value"]
        spans.append([[max(0.0, middle - low)], [max(0.0, high - middle)]])
    axes.errorbar(
        asks["value"],
        value["value"],
        xerr=spans[0],
        yerr=spans[1],
        fmt="o",
        markersize=5.5,
        color=INK,
        ecolor=MUTED,
        elinewidth=0.9,
        zorder=3,
    )
    return asks["value"], value["value"], shown(entry.policy.policy, _LONGEST_NAME)


def _oracle_point(entry: Entry) -> tuple[float, float] | None:
    """Mean asks and reward of the oracle on the cases of a policy."""
    sampled = entry.policy.sample.where(lambda row: not row.greedy)
    asks = sampled.mean(lambda row: row.oracle_asks)
    reward = sampled.mean(lambda row: row.oracle_reward)
    return None if asks.value is None or reward.value is None else (asks.value, reward.value)


def _name_points(axes: Axes, points: list[tuple[float, float, str]]) -> None:
    """Names beside their points, each at the nearest place that is still free."""
    axes.autoscale_view()
    at = [tuple(axes.transData.transform(point[:2])) for point in points]
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in at]
    for (x, y), (asks, value, name) in zip(at, points, strict=True):
        width = 5.4 * len(name)
        for reach, side, lift in product((9, 24, 40), (1, -1), (-4, 8, -16)):
            left = x + reach if side > 0 else x - reach - width
            base = y + lift * (reach / 9)
            box = (left, base - 2, left + width, base + 10)
            if not any(_overlap(box, other) for other in taken):
                break
        taken.append(box)
        axes.annotate(
            name,
            (asks, value),
            xytext=(left - x, base - y),
            textcoords="offset points",
            size=9,
            arrowprops={"arrowstyle": "-", "color": MUTED, "linewidth": 0.5} if reach > 9 else None,
        )


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _decisions_by_group(part: TaskPart, split: SplitPart) -> Markup | None:
    from matplotlib.figure import Figure

    entries = split.entries
    at = {
        group: [i for i, e in enumerate(entries) if _cases(e, group) >= MIN_CASES]
        for group in part.world.prevalence
    }
    groups = [group for group, rows in at.items() if rows]
    if not groups:
        return None
    figure = Figure(figsize=(12.6, 0.9 + 0.27 * len(entries)), layout="constrained")
    panels = figure.subplots(1, len(groups), sharey=True, squeeze=False)[0]
    names = [*part.world.decisions, "no_decision"]
    colours = [*acuity_colours(len(part.world.decisions)), _NO_DECISION]
    for axes, group in zip(panels, groups, strict=True):
        axes.set_title(group, size=10, loc="left", color=INK)
        axes.set_xlim(0.0, 1.0)
        axes.set_xticks([0.0, 0.5, 1.0], ["0", "50", "100 %"], size=8.5)
        axes.tick_params(length=0)
        axes.spines[["left", "bottom"]].set_visible(False)
        left = [0.0] * len(at[group])
        for name, colour in zip(names, colours, strict=True):
            shares = [entries[i].overall["groups"][group]["decisions"][name] for i in at[group]]
            axes.barh(at[group], shares, left=left, height=0.74, color=colour)
            left = [a + b for a, b in zip(left, shares, strict=True)]
    labels = [shown(entry.policy.policy, _LONGEST_NAME) for entry in entries]
    panels[0].set_yticks(range(len(entries)), labels, size=9)
    panels[0].invert_yaxis()
    for label in panels[0].get_yticklabels():
        label.set_color(INK)
    return page_svg(figure, "Share of each decision by policy, one panel a risk group")


def _cases(entry: Entry, group: str) -> int:
    return int(entry.overall["groups"][group]["n_cases"])
