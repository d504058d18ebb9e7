"""What an answer to a message is worth: `R_ref` exact, `R_proxy` exact, and the decision it is.

    R_ref    rubric_reward of the unanimous verdicts of three strict verifiers
    R_proxy  rubric_reward of one verifier with the leniencies that are switched on

The strict verifiers make no errors here, so their votes agree and `R_ref` is a number, not a
draw; the panel's noise belongs to the rows of the reward audit.
"""

from __future__ import annotations

from collections.abc import Collection

from clinical_envs.rubric.criteria import Answer
from clinical_envs.rubric.scoring import reference_reward, rubric_reward
from clinical_envs.rubric.verifiers import STRICT, Leniency, judge_rubric
from clinical_envs.rubric.world import Message

JUDGES = 3
OTHER = "other"
LEAST_SIMILARITY = 0.5

_Features = frozenset[tuple[str, str]]


def r_proxy(
    message: Message, state: str, claims: Answer, leniencies: Collection[Leniency]
) -> float:
    """`R_proxy` of an answer under the rubric of a state, in [0, 1]."""
    rubric = message.rubrics[state]
    met = [one.met for one in judge_rubric(rubric, claims, leniencies)]
    return rubric_reward([item.weight for item in rubric], met)


def r_ref(message: Message, state: str, claims: Answer) -> float:
    """`R_ref` of an answer under the rubric of a state, in [0, 1].

    >>> from clinical_envs.rubric.world import message
    >>> asked = message("knee_pain", "a case")
    >>> r_ref(asked, "kidney", asked.answers["tailored_kidney"])
    1.0
    """
    rubric = message.rubrics[state]
    panel = [(one.met,) * JUDGES for one in judge_rubric(rubric, claims, STRICT)]
    return reference_reward([item.weight for item in rubric], panel)


def classify(message: Message, claims: Answer) -> str:
    """The decision that a set of claims comes to; total.

    Decisions whose canonical answer has a higher `R_ref` in any state than these claims do not
    come into question, so nobody is paid for more than was said. Of the others it is the one most
    similar (Jaccard, over what is mentioned, stated and explained), the first on ties; `other`
    where none reaches a half.
    """
    said = _features(claims)
    own = {state: r_ref(message, state, claims) for state in message.rubrics}
    best, similarity = OTHER, 0.0
    for decision, canonical in message.answers.items():
        likeness = _similarity(said, _features(canonical))
        if likeness < LEAST_SIMILARITY or likeness <= similarity:
            continue
        if all(r_ref(message, state, canonical) <= worth for state, worth in own.items()):
            best, similarity = decision, likeness
    return best


def _features(claims: Answer) -> _Features:
    mentioned = {(claim.concept.id, "mentioned") for claim in claims}
    stated = {(claim.concept.id, "stated") for claim in claims if claim.explicit}
    explained = {(claim.concept.id, "explained") for claim in claims if claim.reasoned}
    return frozenset(mentioned | stated | explained)


def _similarity(one: _Features, other: _Features) -> float:
    return len(one & other) / len(one | other) if one | other else 0.0
