"""The guarded report: one HTML page that opens from disk, verdict first, evidence beside it."""

from oracles.report.drawing import Figure
from oracles.report.page import render_report

__all__ = ["Figure", "render_report"]
