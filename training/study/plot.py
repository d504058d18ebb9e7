"""The study as a picture: the arms on diagnostics, the dial on titration."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clinical_envs.errors import require
from training.study.plan import LAMBDAS
from training.study.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ARMS = ("start", "outcome", "credit", "decoupled")
PANELS = {"mean_asks": "mean asks", "value": "value", "high_risk_value": "high-risk value"}


def draw_study(rows: Sequence[Row]) -> str:
    """Diagnostics by arm and titration by lambda, each with its interval over seeds, as one SVG.

    The same rows give the same bytes.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require("matplotlib", "plots")
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "study", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(11.0, 3.2), layout="constrained")
        axes = figure.subplots(1, 4)
        for panel, (metric, label) in zip(axes, PANELS.items(), strict=False):
            _arms(panel, rows, metric)
            panel.set_title(f"diagnostics: {label}", loc="left")
        _dial(axes[3], rows)
        svg = io.StringIO()
        figure.savefig(svg, format="svg", metadata={"Date": None})
    return svg.getvalue()


def _arms(axes: Axes, rows: Sequence[Row], metric: str) -> None:
    for position, arm in enumerate(ARMS):
        row = _find(rows, "diagnostics", arm, metric)
        if row is not None:
            _mark(axes, position, row)
    axes.set_xticks(range(len(ARMS)), ARMS)
    axes.set_xlim(-0.5, len(ARMS) - 0.5)
    axes.spines[["top", "right"]].set_visible(False)


def _dial(axes: Axes, rows: Sequence[Row]) -> None:
    for weight in LAMBDAS:
        row = _find(rows, "titration", f"lambda {weight}", "mean_asks")
        if row is not None:
            _mark(axes, float(weight), row)
    turn = _find(rows, "titration", "oracle", "expected_turning_point")
    if turn is not None and turn.value is not None:
        axes.axvline(turn.value, color="0.6", linestyle="--", linewidth=1.0)
        axes.annotate("break-even", (turn.value, 0.02), xycoords=("data", "axes fraction"))
    axes.set_title("titration: mean asks by lambda", loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def _mark(axes: Axes, position: float, row: Row) -> None:
    if row.value is None:
        return
    axes.plot([position], [row.value], "o", color="C0")
    if row.low is not None and row.high is not None:
        axes.plot([position, position], [row.low, row.high], color="C0", linewidth=1.2)


def _find(rows: Sequence[Row], task: str, arm: str, metric: str) -> Row | None:
    wanted = (task, arm, metric)
    found = (r for r in rows if (r.task, r.arm, r.metric) == wanted and r.value is not None)
    return next(found, None)
