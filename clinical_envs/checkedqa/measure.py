"""What the verifier of `ClinicalCheckedQA-v0` pays for an answer: the published measures, exact.

    U = (F1 + support - contradict) / 2

F1 is of tokens against the gold answer. Support and contradict are shares of the answer's claims
under the gold checker, which is the rule checker reading the gold answer; an answer without
claims has neither. Published are F1 and support (arXiv 2605.25988); taking contradiction off and
the equal weights are ours. `other`, an answer that comes to nothing, is paid the worst utility
of its state.
"""

from __future__ import annotations

from collections.abc import Sequence

from clinical_envs.checkedqa.checkers import Label, RuleChecker, check_claims
from clinical_envs.checkedqa.claims import claims
from clinical_envs.checkedqa.rewards import token_f1
from clinical_envs.checkedqa.world import Question


def rule_labels(stated: Sequence[str], passages: Sequence[str]) -> tuple[Label, ...]:
    """What the passages say about each claim, by the rule checker, which never fails."""
    checks = check_claims(RuleChecker(), stated, passages)
    return tuple(check.label for check in checks if check is not None)


def gold_labels(question: Question, state: str, answer: str) -> tuple[Label, ...]:
    """What is true of each claim of the answer, in its order."""
    return rule_labels(claims(answer), [question.gold[state]])


def utility(question: Question, state: str, answer: str) -> float:
    """U of an answer under a state, in [-0.5, 1].

    >>> from clinical_envs.checkedqa.world import question
    >>> asked = question("benefit", "a case")
    >>> utility(asked, "effect", asked.gold["effect"])
    1.0
    """
    found = gold_labels(question, state, answer)
    net = found.count(Label.ENTAIL) - found.count(Label.CONTRADICT)
    f1 = token_f1(answer, question.gold[state])
    return (f1 + (net / len(found) if found else 0.0)) / 2
