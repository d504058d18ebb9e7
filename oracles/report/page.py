"""From an audit to one self-contained HTML page: no network, no dates, every text escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from clinical_envs import __version__
from oracles.assessment import EPS
from oracles.audits import Audit
from oracles.flags import MIN_CASES
from oracles.report.content import Exact, arrange
from oracles.report.drawing import Figure
from oracles.report.encounters import choose_encounters
from oracles.report.marks import minus, percent, plain, range_mark, shown, signed
from oracles.report.plots import draw_plots, missing_plots
from oracles.tree_drawing import acuity_colours


def render_report(
    audit: Audit,
    *,
    title: str = "Guarded report",
    exact: Exact | None = None,
    notes: Sequence[str] = (),
    figures: Sequence[Figure] = (),
) -> str:
    """One HTML page about every policy of an audit; the same audit gives the same bytes.

    Without the `plots` extra the page keeps its tables and says what is missing.

    Args:
        audit: what was found; gate 1 of each task is computed from its world.
        title: heading of the page.
        exact: exact values to print beside it, task key -> policy name -> values.
        notes: paragraphs under the heading, as plain text.
        figures: drawings of the caller's own, after the verdicts.
    """
    encounters = choose_encounters(audit)
    parts = arrange(audit, exact or {}, encounters)
    missing = missing_plots()
    script = _asset("viewer.js")
    digest = hashlib.sha256(script.encode()).digest()
    return (
        _templates()
        .get_template("page.html.jinja")
        .render(
            audit=audit,
            title=title,
            notes=notes,
            figures=figures,
            parts=parts,
            plots={} if missing else {part.anchor: draw_plots(part) for part in parts},
            missing=missing,
            encounters=encounters,
            baseline=any(policy.gain is not None for policy in audit.policies),
            style=Markup(_asset("page.css")),  # our own file
            script=Markup(script),  # our own file
            script_hash=base64.b64encode(digest).decode(),
            versions=_versions(),
        )
    )


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("oracles", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "signed": signed,
        "plain": plain,
        "percent": percent,
        "shown": shown,
        "minus": minus,
        "words": lambda name: name.replace("_", " "),
    }
    environment.globals |= {
        "range_mark": range_mark,
        "MIN_CASES": MIN_CASES,
        "EPS": EPS,
        "acuity_colours": acuity_colours,
    }
    return environment


def _asset(name: str) -> str:
    return files("oracles.report").joinpath(name).read_text(encoding="utf-8")


def _versions() -> str:
    others = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy"))
    return f"clinical-envs {__version__}, {others}"
