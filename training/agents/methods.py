"""The methods by name: one table for the commands, the claims and the worlds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from clinical_envs.errors import InvalidArgument, did_you_mean
from training.agents.baselines import cer, fire, no_retrieval
from training.agents.biocheck import check_with_agent
from training.agents.checked import Checked
from training.agents.desk import Desk
from training.agents.graph import run_langgraph

Run = Callable[[str, Desk], Checked]
"""Checks one claim at a desk."""
Engine = Literal["plain", "langgraph"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A way to check a claim.

    graph: the same run as a LangGraph state graph, for an agent that is one. cites: whether its
    reports hold evidence.
    """

    run: Run
    graph: Run | None = None
    cites: bool = False


_biocheck = partial(check_with_agent, report=True)
_pmsearch = partial(check_with_agent, report=False)

METHODS = {
    "no-retrieval": Method(run=no_retrieval),
    "cer": Method(run=cer),
    "fire": Method(run=fire),
    "pmsearch": Method(run=_pmsearch, graph=partial(_pmsearch, run=run_langgraph)),
    "biocheck": Method(run=_biocheck, graph=partial(_biocheck, run=run_langgraph), cites=True),
}


def find_run(name: str, engine: Engine = "plain") -> Run:
    """What checks a claim by a method, as the plain loop or as a LangGraph state graph.

    Raises:
        InvalidArgument: there is no such method, or it is no agent and has no graph.
    """
    if name not in METHODS:
        raise InvalidArgument(f"no method {name!r}; {did_you_mean(name, METHODS)}")
    method = METHODS[name]
    if engine == "plain":
        return method.run
    if method.graph is None:
        graphs = ", ".join(name for name, method in METHODS.items() if method.graph)
        raise InvalidArgument(f"{name} is no state graph, as {graphs} are; leave out the engine")
    return method.graph
