"""The course of a run as one SVG: what was measured on the validation set, and what was logged."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clinical_envs.errors import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MEASURED = {
    "value": "value",
    "mean_asks": "mean asks",
    "one_ask_rate": "one-ask rate",
    "parse_failure_rate": "parse-failure rate",
}
_LOGGED = {"rollout/entropy_estimate": "entropy, nats a token", "rollout/kl_per_turn": "KL a turn"}


def draw_curves(validation: Sequence[dict[str, Any]], metrics: Sequence[dict[str, Any]]) -> str:
    """Four panels by risk group from the validation rows, two from the logged steps.

    The same rows give the same bytes.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require("matplotlib", "plots")
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "svg.hashsalt": "curves",
                "svg.fonttype": "none",
                "text.parse_math": False,
                "font.size": 9,
            }
        )
        figure = Figure(figsize=(11.0, 5.6), dpi=72, layout="constrained")
        panels = list(figure.subplots(2, 3).flat)
        for axes, (name, label) in zip(panels[:4], _MEASURED.items(), strict=True):
            _measured(axes, validation, name, label)
        for axes, (name, label) in zip(panels[4:], _LOGGED.items(), strict=True):
            known = [row for row in metrics if row.get(name) is not None]
            axes.plot([row["update"] for row in known], [row[name] for row in known], color="0.3")
            axes.set_title(f"{label} (training)")
        for axes in figure.axes:
            axes.set_xlabel("update")
            axes.spines[["top", "right"]].set_visible(False)
        figure.axes[0].legend(frameon=False)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def _measured(axes: Axes, rows: Sequence[dict[str, Any]], name: str, label: str) -> None:
    """Overall with its 95 % interval, and each risk group."""
    known = [row for row in rows if row[name]["value"] is not None]
    steps = [row["update"] for row in known]
    axes.plot(steps, [row[name]["value"] for row in known], color="black", label="overall")
    bounded = [row for row in known if row[name]["low"] is not None]
    axes.fill_between(
        [row["update"] for row in bounded],
        [row[name]["low"] for row in bounded],
        [row[name]["high"] for row in bounded],
        color="black",
        alpha=0.12,
        linewidth=0,
    )
    for number, group in enumerate(rows[0]["groups"] if rows else ()):
        points = [(row["update"], row["groups"][group][name]["value"]) for row in rows]
        points = [(step, value) for step, value in points if value is not None]
        axes.plot(
            [step for step, _ in points],
            [value for _, value in points],
            color=f"C{number}",
            linewidth=1.0,
            label=group,
        )
    axes.set_title(f"{label} (validation)")
