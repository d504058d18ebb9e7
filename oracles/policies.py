"""Reference policies, and one scripted policy for each way to fail.

All but `random` are deterministic in the information state, so that their exact values are
enumerated (`oracles.exact`). Names: `oracle`, `best_constant`, `random`, `ask_all`, `1_ask`,
`2_ask`, ..., `myopic`, `infomax`, `infomax:NATS`, `checklist`, and those in `FAILURES`.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from types import MappingProxyType

from clinical_envs.belief import InfoState, entropy, posterior, predictive
from clinical_envs.errors import InvalidArgument, did_you_mean
from clinical_envs.simulator import Action, Ask, Commit, Invalid
from clinical_envs.task import FloatArray, Task
from clinical_envs.task_parts import ChecklistAsk
from oracles.oracle import TOLERANCE, Oracle
from oracles.policy import Deterministic, FunctionPolicy, Policy, Rule, UniformRandom

INFOMAX_STOP_NATS = 0.5
REFERENCES = (
    "oracle",
    "best_constant",
    "random",
    "1_ask",
    "3_ask",
    "ask_all",
    "myopic",
    "infomax",
    "checklist",
)
FAILURES = MappingProxyType(
    {
        "blind_commitment": "best_constant",
        "one_question_collapse": "1_ask",
        "premature_commitment": "premature",
        "unsupported_escalation": "escalate_all",
        "hedging": "hedge_all",
        "over_gathering": "ask_all",
        "high_risk_regression": "never_escalate",
    }
)
"""Flag -> the scripted policy that must raise it."""


def make_policy(name: str, oracle: Oracle) -> Policy:
    """A policy by name, or a user's function as `module:function`.

    The function gets a `View` and a numpy Generator and returns an action or text.

    Raises:
        InvalidArgument: no such policy, module or function, or the task lacks what it needs.
    """
    rules = _Rules(oracle)
    if name == "random":
        return UniformRandom(oracle.task)
    if name in rules.by_name:
        return Deterministic(name, rules.by_name[name]())
    if match := re.fullmatch(r"(\d+)_ask", name):
        return Deterministic(name, rules.k_ask(int(match[1])))
    if match := re.fullmatch(r"infomax:(\d+(?:\.\d+)?)", name):
        return Deterministic(name, rules.infomax(float(match[1])))
    if ":" in name:
        return FunctionPolicy(name, _import(name))
    known = [*rules.by_name, "random", "1_ask", "2_ask", "module:function"]
    raise InvalidArgument(f"no policy {name!r}; {did_you_mean(name, known)}")


class _Rules:
    """The rules of one task, each a function from an information state to an action."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.task: Task = oracle.task
        self.by_name: dict[str, Callable[[], Rule]] = {
            "oracle": lambda: self.oracle.act,
            "best_constant": lambda: lambda info: Commit(self.oracle.best_constant[0]),
            "ask_all": lambda: self.ask_all,
            "myopic": lambda: self.myopic,
            "infomax": lambda: self.infomax(INFOMAX_STOP_NATS),
            "checklist": self.checklist,
            "premature": lambda: self.premature,
            "escalate_all": self.escalate_all,
            "hedge_all": self.hedge_all,
            "never_escalate": self.never_escalate,
            "garbage": lambda: lambda info: Invalid("not_json"),
        }

    def best_commit(self, info: InfoState) -> Commit:
        """The decision of highest posterior expected utility; ties in file order."""
        return Commit(_first_best(posterior(self.task, info) @ self.task.utility_matrix))

    def ask_all(self, info: InfoState) -> Action:
        """Every informative finding while a turn to commit is left."""
        unseen = self._unseen(info)
        return Ask(unseen[0]) if unseen and info.turns_left > 1 else self.best_commit(info)

    def k_ask(self, k: int) -> Rule:
        """K asks of highest one-step value of information, then the best commit."""

        def rule(info: InfoState) -> Action:
            voi = self._myopic_voi(info)
            if not voi or info.asked.bit_count() >= k or info.turns_left <= 1:
                return self.best_commit(info)
            return Ask(_first_max(voi))

        return rule

    def myopic(self, info: InfoState) -> Action:
        """Ask while one question pays for itself: E[max_a U after q] - max_a E[U] > c."""
        voi = self._myopic_voi(info)
        if not voi or info.turns_left <= 1 or max(voi.values()) <= TOLERANCE:
            return self.best_commit(info)
        return Ask(_first_max(voi))

    def infomax(self, stop_nats: float) -> Rule:
        """Ask for the largest expected entropy drop until H(b) <= stop_nats."""

        def rule(info: InfoState) -> Action:
            now = entropy(posterior(self.task, info))
            unseen = self._unseen(info)
            if not unseen or info.turns_left <= 1 or now <= stop_nats:
                return self.best_commit(info)
            return Ask(_first_max({q: now - self._expect(info, q, entropy) for q in unseen}))

        return rule

    def checklist(self) -> Rule:
        """The task's own protocol, a walk down its flow chart."""
        roots = self.task.checklist
        if not roots:
            raise InvalidArgument(f"task {self.task.name} has no checklist; add one to its file")

        def rule(info: InfoState) -> Action:
            node = roots[self.task.family_ids[info.family]]
            while isinstance(node, ChecklistAsk):
                finding = self.task.finding(node.ask)
                if not info.knows(finding):
                    return Ask(finding)
                node = node.yes if info.answer(finding) else node.no
            return Commit(self.task.decision(node.commit))

        return rule

    def premature(self, info: InfoState) -> Action:
        """The two questions of least one-step value, then the best commit."""
        voi = self._myopic_voi(info)
        if not voi or info.asked.bit_count() >= 2 or info.turns_left <= 1:
            return self.best_commit(info)
        return Ask(min(voi, key=lambda q: voi[q]))

    def escalate_all(self) -> Rule:
        """The most acute decision that needs evidence, at once."""
        if not self.task.high_acuity_decisions:
            raise InvalidArgument(f"task {self.task.name} has no high_acuity decision")
        decision = max(self.task.high_acuity_decisions)
        return lambda info: Commit(decision)

    def hedge_all(self) -> Rule:
        """The oracle's questions, then the hedge whatever they say."""
        if not self.task.hedge_decisions:
            raise InvalidArgument(f"task {self.task.name} has no hedge decision")
        decision = min(self.task.hedge_decisions)

        def rule(info: InfoState) -> Action:
            action = self.oracle.act(info)
            return action if isinstance(action, Ask) else Commit(decision)

        return rule

    def never_escalate(self) -> Rule:
        """The oracle, but never a decision that needs evidence."""
        if not self.task.high_acuity_decisions:
            raise InvalidArgument(f"task {self.task.name} has no high_acuity decision")

        def rule(info: InfoState) -> Action:
            action = self.oracle.act(info)
            if isinstance(action, Commit) and action.decision in self.task.high_acuity_decisions:
                utility = posterior(self.task, info) @ self.task.utility_matrix
                utility[list(self.task.high_acuity_decisions)] = float("-inf")
                return Commit(_first_best(utility))
            return action

        return rule

    def _unseen(self, info: InfoState) -> list[int]:
        return [q for q in self.task.informative[info.family] if not info.knows(q)]

    def _myopic_voi(self, info: InfoState) -> dict[int, float]:
        """E[max_a U after q] - max_a E[U] - c of each unseen informative finding."""

        def best(belief: FloatArray) -> float:
            return float((belief @ self.task.utility_matrix).max())

        spent = best(posterior(self.task, info)) + self.task.question_cost
        return {q: self._expect(info, q, best) - spent for q in self._unseen(info)}

    def _expect(self, info: InfoState, q: int, worth: Callable[[FloatArray], float]) -> float:
        """E[worth(b after q)]."""
        chance = predictive(self.task, info)[q]
        return sum(
            float(weight) * worth(posterior(self.task, info.see(q, present, turns=0)))
            for present, weight in ((True, chance), (False, 1.0 - chance))
            if weight > 0.0
        )


def _first_best(utility: FloatArray) -> int:
    return int((utility >= utility.max() - TOLERANCE).argmax())


def _first_max(worth: dict[int, float]) -> int:
    best = max(worth.values())
    return next(q for q, value in worth.items() if value >= best - TOLERANCE)


def _import(name: str) -> Callable[..., object]:
    module_name, _, function_name = name.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError) as error:
        raise InvalidArgument(f"policy {name!r}: {error}; give module:function") from None
    if not callable(function):
        raise InvalidArgument(f"policy {name!r} is not a function")
    try:
        inspect.signature(function).bind("view", "rng")
    except TypeError as error:
        raise InvalidArgument(
            f"policy {name!r} is called with a view and a generator, as (view, rng): {error}"
        ) from None
    except ValueError:
        pass  # written in C, without a signature
    return function  # type: ignore[no-any-return]
