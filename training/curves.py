"""The course of runs as figures of a report: what validation measured, what training logged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clinical_envs.errors import require
from oracles.report.drawing import INK, MUTED, RULE, Figure, page_style, page_svg

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes

Row = dict[str, Any]

_PER_CENT = 100.0
# name in a row -> label, factor
_MEASURED = {
    "value": ("value", 1.0),
    "mean_asks": ("mean asks", 1.0),
    "one_ask_rate": ("one-ask rate, %", _PER_CENT),
    "entropy": ("entropy,\nnats a token", 1.0),
    "parse_failure_rate": ("parse failures,\n% of turns", _PER_CENT),
}
_LOGGED = {
    "rollout/kl_per_turn": ("KL a turn from the start, nats", 1.0),
    "rollout/entropy_estimate": ("entropy, nats a token", 1.0),
    "rollout/same_utility_groups": ("groups that end alike, %", _PER_CENT),
    "rollout/parse_failure_rate": ("parse failures, % of turns", _PER_CENT),
}
_COLOURS, _MARKERS = ("#c9601f", "#2b83b8", "#8465b5", "#4f8f4a"), "osD^"


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What a run wrote on its way: rows of `validation.jsonl` and `metrics.jsonl`."""

    name: str
    validation: Sequence[Row]
    metrics: Sequence[Row]


def draw_curves(courses: Sequence[Course]) -> tuple[Figure, Figure]:
    """One figure by measure and risk group, with 95 % intervals; one of every training step.

    The same rows give the same bytes.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require("matplotlib", "plots")
    names = " and ".join(course.name for course in courses)
    with page_style("curves"):
        measured = page_svg(_by_group(courses), f"Validation by update and risk group: {names}")
    with page_style("steps"):
        logged = page_svg(_by_step(courses), f"What training logged at every step: {names}")
    return (
        Figure(
            title="Training curves",
            svg=measured,
            caption="The validation set by update and risk group, judged by the terminal verifier "
            "alone; update 0 is the start. Bands are 95 % intervals over cases; all cases are "
            "re-weighted to prevalence. Entropy is the mean surprise of a sampled token.",
        ),
        Figure(
            title="Training steps",
            svg=logged,
            caption="What each step saw in its own rollouts, on training cases. KL is from the "
            "start of training. A group ends alike when all its rollouts earn the same utility: "
            "then only the price of questions is left to learn from.",
        ),
    )


def _by_group(courses: Sequence[Course]) -> matplotlib.figure.Figure:
    """Measures down, risk groups across; panels of one row share their axis."""
    from matplotlib.figure import Figure as Canvas

    groups = list(courses[0].validation[0]["groups"]) if courses[0].validation else []
    figure = Canvas(figsize=(12.6, 9.2), dpi=72, layout="constrained")
    panels = figure.subplots(
        len(_MEASURED), 1 + len(groups), sharex=True, sharey="row", squeeze=False
    )
    for row, (name, (label, factor)) in zip(panels, _MEASURED.items(), strict=True):
        row[0].set_ylabel(label)
        for axes, group in zip(row, (None, *groups), strict=True):
            for number, course in enumerate(courses):
                points = [(at["update"], _part(at, group)[name]) for at in course.validation]
                _estimates(axes, number, course.name, points, factor)
            axes.grid(color=RULE, linewidth=0.6)
    for axes, group in zip(panels[0], (None, *groups), strict=True):
        axes.set_title(group or "all cases", size=10, loc="left", color=INK)
    for axes in panels[-1]:
        _count_updates(axes)
    figure.align_ylabels(panels[:, 0])
    _legend(figure, panels[0][0])
    return figure


def _by_step(courses: Sequence[Course]) -> matplotlib.figure.Figure:
    from matplotlib.figure import Figure as Canvas

    figure = Canvas(figsize=(12.6, 2.9), dpi=72, layout="constrained")
    panels = figure.subplots(1, len(_LOGGED))
    for axes, (name, (label, factor)) in zip(panels, _LOGGED.items(), strict=True):
        for number, course in enumerate(courses):
            known = [row for row in course.metrics if row.get(name) is not None]
            axes.plot(
                [row["update"] for row in known],
                [factor * row[name] for row in known],
                color=_COLOURS[number % len(_COLOURS)],
                linewidth=1.2,
                label=course.name,
            )
        axes.set_title(label, size=10, loc="left", color=INK)
        _count_updates(axes)
        axes.grid(color=RULE, linewidth=0.6)
    _legend(figure, panels[0])
    return figure


def _part(row: Row, group: str | None) -> Row:
    found: Row = row if group is None else row["groups"][group]
    return found


def _estimates(
    axes: Axes, number: int, name: str, points: list[tuple[int, Row]], factor: float
) -> None:
    """A line with its band; a point without a value is left out."""
    colour = _COLOURS[number % len(_COLOURS)]
    known = [(at, e) for at, e in points if e["value"] is not None]
    axes.plot(
        [at for at, _ in known],
        [factor * e["value"] for _, e in known],
        color=colour,
        marker=_MARKERS[number % len(_MARKERS)],
        markersize=4,
        linewidth=1.4,
        label=name,
    )
    bounded = [(at, e) for at, e in known if e["low"] is not None]
    axes.fill_between(
        [at for at, _ in bounded],
        [factor * e["low"] for _, e in bounded],
        [factor * e["high"] for _, e in bounded],
        color=colour,
        alpha=0.14,
        linewidth=0,
    )


def _count_updates(axes: Axes) -> None:
    axes.set_xlabel("update")
    axes.locator_params(axis="x", nbins=6, integer=True)


def _legend(figure: matplotlib.figure.Figure, axes: Axes) -> None:
    handles, names = axes.get_legend_handles_labels()
    figure.legend(
        handles, names, loc="outside upper right", ncols=len(names), frameon=False, labelcolor=MUTED
    )
