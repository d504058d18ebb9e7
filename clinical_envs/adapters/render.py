"""What a person sees of an encounter: what the policy has seen, and the outcome at the end."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clinical_envs.episode import AskTurn, CommitTurn, InvalidTurn, Turn
from clinical_envs.errors import require
from clinical_envs.simulator import Encounter
from clinical_envs.verifier import verify

DOTS_PER_INCH, WIDTH, LINE = 100, 6.4, 0.26  # the latter two in inches
PRESENT, ABSENT, UNKNOWN = ("firebrick",) * 2, ("white", "steelblue"), ("lightgray",) * 2


def transcript(encounter: Encounter) -> str:
    """Title, presentation, findings known at the start, and the turns so far, one a line.

    >>> from clinical_envs import CaseStream, Encounter, load_task
    >>> task = load_task("sore_throat")
    >>> print(transcript(Encounter(task, CaseStream(task, "train", 1)[0])))
    Sore throat: self-care, antibiotics, or a threatened airway?
    A parent brings a six-year-old with a sore throat.
    turns left: 6 of 6
    """
    task, info = encounter.task, encounter.info
    lines = [task.title, task.families[info.family].text]
    known = [f"{task.finding_ids[q]}: {_yes_no(present)}" for q, present in encounter.start.seen()]
    if known:
        lines.append(f"known at the start: {', '.join(known)}")
    lines += [f"{n}. {_line(turn)}" for n, turn in enumerate(encounter.turns(), start=1)]
    lines.append(_closing_line(encounter))
    return "\n".join(lines)


def picture(encounter: Encounter) -> npt.NDArray[np.uint8]:
    """Every finding as a square: grey not known, red present, hollow absent. Shape (H, W, 3).

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    figures = require("matplotlib.figure", "plots")
    agg = require("matplotlib.backends.backend_agg", "plots")
    task, info = encounter.task, encounter.info
    lines = len(task.findings) + 5  # with title, presentation, closing line and two gaps
    figure = figures.Figure(figsize=(WIDTH, lines * LINE), dpi=DOTS_PER_INCH)
    canvas = agg.FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0.0, WIDTH), ylim=(lines - 0.3, -0.7))
    axes.axis("off")
    axes.text(0.2, 0, task.title, fontsize=11, weight="bold", va="center")
    axes.text(0.2, 1, task.families[info.family].text, fontsize=9, va="center")
    for q, finding in enumerate(task.finding_ids):
        known = info.knows(q)
        face, edge = (PRESENT if info.answer(q) else ABSENT) if known else UNKNOWN
        axes.plot(0.3, q + 2.5, marker="s", markersize=9, color=face, markeredgecolor=edge)
        label = f"{finding}: {_yes_no(info.answer(q))}" if known else finding
        ink = "black" if known else "gray"
        axes.text(0.5, q + 2.5, label, fontsize=9, va="center", color=ink)
    axes.text(0.2, lines - 1, _closing_line(encounter), fontsize=9, weight="bold", va="center")
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _line(turn: Turn) -> str:
    match turn:
        case AskTurn(ask=finding, answer=answer):
            return f"ask {finding}: {_yes_no(answer)}"
        case CommitTurn(commit=decision):
            return f"commit {decision}"
        case InvalidTurn(invalid=reason):
            return f"invalid: {reason}"


def _closing_line(encounter: Encounter) -> str:
    task = encounter.task
    if not encounter.over:
        return f"turns left: {encounter.info.turns_left} of {task.turn_cap}"
    episode = encounter.episode()
    outcome = verify(task, episode)
    decision = "no decision" if outcome.decision is None else task.decision_ids[outcome.decision]
    return f"end: {decision}, state {episode.state}, reward {outcome.reward:+.2f}"


def _yes_no(present: bool) -> str:
    return "yes" if present else "no"
