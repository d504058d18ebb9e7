"""Policies of a user, as `module:function`."""

from __future__ import annotations

import time

import numpy as np

from oracles import View


def sometimes(view: View, rng: np.random.Generator) -> object:
    """Draws its actions, so that a rollout played twice or not at all would be seen."""
    unseen = [name for name in view.task.finding_ids if name not in view.seen]
    if unseen and view.turns_left > 1 and rng.random() < 0.6:
        return view.ask(str(rng.choice(unseen)))
    return view.commit(str(rng.choice(view.task.decision_ids)))


def slow(view: View, rng: np.random.Generator) -> object:
    """The same, slowly enough to be killed."""
    time.sleep(0.004)
    return sometimes(view, rng)


def text(view: View, rng: np.random.Generator) -> str:
    """Speaks the protocol, badly at first."""
    if len(view.messages) == 1:
        return "I would rather not."
    return '{"action": "commit", "decision": "no_therapy"}'


def number(view: View, rng: np.random.Generator) -> int:
    """Returns no action."""
    return 3


def broken(view: View, rng: np.random.Generator) -> object:
    """Has a bug."""
    return view.seen["not asked"]


def of_a_view(view: View) -> object:
    """Takes no generator."""
    return view.commit("no_therapy")
