"""The curves of the reward study, drawn."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING

from clinical_envs.errors import require
from oracles.report.drawing import page_style
from training.reward_findings import Runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DRAWN = {
    "rubric": ("proxy", "reference", "exploitation"),
    "factcheck": ("hallucination", "fabricated", "sound_evidence"),
}
_COLOURS = ("#c9601f", "#2b83b8")


def draw(runs: Mapping[str, Runs]) -> str:
    """The curves of every run, one panel a measure, one colour an arm, one line a seed; as SVG."""
    require("matplotlib", "plots")
    from matplotlib.figure import Figure

    panels = [(world, name) for world, names in _DRAWN.items() if runs.get(world) for name in names]
    with page_style("reward study"):
        figure = Figure(figsize=(12.6, 6.0), dpi=72, layout="constrained")
        axes = figure.subplots(2, 3, squeeze=False).ravel()
        for panel, (world, name) in zip(axes, panels, strict=False):
            _draw_panel(panel, runs[world], name)
            panel.set_title(f"{world}: {name.replace('_', ' ')}", size=10, loc="left")
        for panel in axes[len(panels) :]:
            panel.axis("off")
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def _draw_panel(panel: Axes, runs: Runs, name: str) -> None:
    arms = sorted({arm for arm, _ in runs})
    for (arm, seed), curves in sorted(runs.items()):
        values = curves[name]
        at = curves["update"][-len(values) :]  # a window is drawn where it ends
        label = arm if seed == min(s for a, s in runs if a == arm) else None
        panel.plot(at, values, color=_COLOURS[arms.index(arm)], label=label, linewidth=1.2)
    panel.set_xlabel("update")
    panel.legend(frameon=False)
