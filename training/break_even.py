"""The lambda from which credit pays for a question: where the lambda sweep is expected to turn.

    lambda* = c / E[information per oracle ask]
    E[information per oracle ask] = E[H(b_0) - H(b_T)] / E[asks],   nats, under the oracle

Both expectations are exact, over every way the oracle can play. Below lambda* an average question
of the oracle costs more than its credit; above, asking pays even where it changes no decision.
"""

from __future__ import annotations

from clinical_envs.belief import entropy, posterior
from oracles.exact import leaves
from oracles.oracle import Oracle
from oracles.policies import make_policy


def information_per_ask(oracle: Oracle) -> float:
    """E[H(b_0) - H(b_T)] / E[asks] of the oracle, in nats a question.

    >>> from oracles import solve
    >>> round(information_per_ask(solve("titration")), 4)
    0.1715
    """
    task, policy = oracle.task, make_policy("oracle", oracle)
    information = asks = 0.0
    for family in range(len(task.families)):
        for leaf in leaves(task, policy, family):
            chance = float(leaf.reach @ task.prior)
            information += chance * (entropy(task.prior) - entropy(posterior(task, leaf.info)))
            asks += chance * leaf.asks
    return information / asks


def break_even(oracle: Oracle) -> float:
    """Lambda* = c / E[information per oracle ask], utility a nat, the unit of `reward.entropy`.

    >>> from oracles import solve
    >>> round(break_even(solve("titration")), 4)
    0.1749
    """
    return oracle.task.question_cost / information_per_ask(oracle)
