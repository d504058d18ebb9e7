"""The BioCheck agent as a LangGraph state graph: the same nodes, wired; extra `agents`."""

from __future__ import annotations

from typing import Any

from clinical_envs.errors import require
from training.agents.biocheck import Agent, State


def agent_graph(agent: Agent) -> Any:
    """The compiled graph; invoke it with a `State`.

    Raises:
        MissingExtra: langgraph is not installed.
    """
    graphs = require("langgraph.graph", "agents")
    graph = graphs.StateGraph(State)
    graph.add_node("ask", agent.ask)
    graph.add_node("search", agent.search)
    graph.add_node("intervene", agent.intervene)
    graph.add_edge(graphs.START, "ask")
    graph.add_conditional_edges("ask", agent.after_ask, {"search": "search", "end": graphs.END})
    graph.add_conditional_edges("search", agent.after_search, ["ask", "intervene"])
    graph.add_edge("intervene", "ask")
    return graph.compile()


def run_langgraph(agent: Agent, state: State) -> State:
    """Run the graph to its end; its limit counts nodes, of which a reply takes three at most."""
    limit = {"recursion_limit": 3 * (agent.desk.cap + 2)}
    return State(**agent_graph(agent).invoke(state, limit))
