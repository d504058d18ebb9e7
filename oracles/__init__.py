"""How good play can be: exact oracle, reference policies, metrics, gates, audit, report."""

from oracles.audits import Audit, PolicyAudit, audit
from oracles.clinical import ClinicalWorld, make_world
from oracles.evaluation import evaluate
from oracles.exact import ExactValue, exact_value
from oracles.explanation import explain
from oracles.flags import Verdict
from oracles.gates import gate_1, gate_2
from oracles.oracle import ActionValues, Oracle, solve
from oracles.policies import make_policy
from oracles.policy import Policy, View
from oracles.world import World

__all__ = [
    "ActionValues",
    "Audit",
    "ClinicalWorld",
    "ExactValue",
    "Oracle",
    "Policy",
    "PolicyAudit",
    "Verdict",
    "View",
    "World",
    "audit",
    "evaluate",
    "exact_value",
    "explain",
    "gate_1",
    "gate_2",
    "make_policy",
    "make_world",
    "solve",
]
