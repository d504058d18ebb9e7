"""The published training reward of an episode, exact, and the metrics of its reports.

`R = R_outcome + 0.5 R_search + R_evidence - R_hall` (`rewards`), on the report an episode ended
with: the policy's own text where it is recorded, else the canonical text of the decision. The
scores s come from a table instead of a judge model: a study's strength is that of its body of
evidence, and the judge half remembers the truth about the claim, so s moves with it.

Nothing here is part of the verifier, which pays the label alone. The published reward charges no
search; what the environment charges comes on top.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from clinical_envs.belief import InfoState
from clinical_envs.episode import AskTurn, CommitTurn, Episode, InvalidTurn
from clinical_envs.errors import InvalidEpisode
from clinical_envs.factcheck.library import Miss, canonical_query, retrieved
from clinical_envs.factcheck.metrics import (
    HallucinationRates,
    LabelMetrics,
    Mean,
    evidence_quality,
    hallucination_rates,
    label_metrics,
)
from clinical_envs.factcheck.report import Report
from clinical_envs.factcheck.report_parser import parse_report
from clinical_envs.factcheck.reporting import (
    canonical_report,
    citations,
    read_decision,
    right_verdict,
    side,
)
from clinical_envs.factcheck.rewards import (
    FactCheckReward,
    JudgedReport,
    TableScorer,
    composite_evidence_reward,
    fact_check_reward,
    judge_report,
)
from clinical_envs.factcheck.studies import DISSENTING, STUDIES, finds, pmid
from clinical_envs.factcheck.topics import topic
from clinical_envs.factcheck.turns import REPORT, read_turn
from clinical_envs.factcheck.verdict import Verdict, read_verdict
from clinical_envs.simulator import Invalid
from clinical_envs.task import FloatArray, Task
from clinical_envs.verifier import verify

STRENGTH: Mapping[str, float] = MappingProxyType(
    {
        "meta_analysis": 0.94,
        "rct": 0.90,
        "guideline": 0.84,
        "cohort": 0.80,
        "case_control": 0.74,
        "case_series": 0.64,
        "animal": 0.52,
        "expert_opinion": 0.58,
    }
)
"""s of a study of the body, for the side that it finds for, when the claim is unsettled."""
WEAK = 0.55
"""The same of a dissenting study, whatever the body."""
RECALL = 0.04
"""How far the judge's memory of the truth moves s, up on the true side and down on the other."""


def evidence_score(
    body: str, index: int, finds_for: bool, verdict: Verdict, truth: Verdict
) -> float:
    """`s = P(verdict | claim, abstract)` of a study; a quarter of the rest goes to the other side.

    >>> evidence_score("rct", 0, True, Verdict.SUPPORTED, Verdict.REFUTED)
    0.86
    """
    finding = side(finds_for)
    s = WEAK if index == DISSENTING else STRENGTH[body]
    if truth is not Verdict.NOT_ENOUGH_INFO:
        s += RECALL if truth is finding else -RECALL
    if verdict is finding:
        return s
    return (1.0 - s) * (0.75 if verdict is Verdict.NOT_ENOUGH_INFO else 0.25)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedClaim:
    """A finished check: the judged report, the right verdict, and the queries that were sent."""

    judged: JudgedReport
    truth: Verdict
    queries: tuple[str, ...]


def checked_claim(task: Task, episode: Episode) -> CheckedClaim:
    """Judge the report of an episode; one that ended without a report has verdict None.

    Raises:
        InvalidEpisode: it contradicts the task or itself, or names no case or state.
    """
    outcome = verify(task, episode)
    if episode.case is None or outcome.state is None:
        raise InvalidEpisode("the training reward needs the case and the state of an episode")
    case, family = episode.case, episode.family
    identity = f"{episode.task}/{case.split}/{case.seed}/{case.index}"
    seen = {task.finding_ids[q]: leans_for for q, leans_for in outcome.final.seen()}
    truth, claim = right_verdict(task, outcome.state), topic(identity, family).claim
    table = {
        (claim, pmid(identity, body, index)): {
            verdict: evidence_score(body, index, finds(index, leans_for), verdict, truth)
            for verdict in Verdict
        }
        for body, leans_for in seen.items()
        for index in range(STUDIES)
    }
    articles = {name: article for name, (_, article) in retrieved(identity, family, seen).items()}
    report = _report(identity, episode, seen)
    return CheckedClaim(
        judged=judge_report(report, claim, articles, TableScorer(table)),
        truth=truth,
        queries=_queries(identity, episode),
    )


def _report(identity: str, episode: Episode, seen: Mapping[str, bool]) -> Report:
    last = episode.turns[-1]
    if not isinstance(last, CommitTurn):
        return Report(verdict=None)
    if episode.raw is None:
        return canonical_report(identity, episode.family, last.commit, seen)
    turn = read_turn(episode.raw[-1] if episode.raw else "")
    if not isinstance(turn, Invalid):
        kind, text = turn
        report = parse_report(text).report if kind == REPORT else Report(verdict=read_verdict(text))
        if report.verdict is read_decision(last.commit)[0]:
            return report
    raise InvalidEpisode(f"the last text of the episode is not its decision {last.commit!r}")


def _queries(identity: str, episode: Episode) -> tuple[str, ...]:
    """What was sent to the search engine: of every ask, and of searches that missed."""
    if episode.raw is None:
        asked = [turn.ask for turn in episode.turns if isinstance(turn, AskTurn)]
        return tuple(canonical_query(identity, episode.family, body) for body in asked)
    if len(episode.raw) != len(episode.turns):
        raise InvalidEpisode(f"{len(episode.raw)} texts for {len(episode.turns)} turns; give each")
    queries = []
    for turn, text in zip(episode.turns, episode.raw, strict=True):
        missed = isinstance(turn, InvalidTurn) and turn.invalid in [*Miss]
        read = read_turn(text)
        if (missed or isinstance(turn, AskTurn)) and not isinstance(read, Invalid):
            queries.append(read[1])
    return tuple(queries)


def training_reward(task: Task, episode: Episode) -> FactCheckReward:
    """The published reward of an episode, part by part; its `outcome` alone is the baseline's.

    Raises:
        InvalidEpisode: as `checked_claim`.
    """
    checked = checked_claim(task, episode)
    return fact_check_reward(checked.judged, truth=checked.truth, queries=checked.queries)


def canonical_reward(task: Task, info: InfoState, decision: int) -> FloatArray:
    """R of the canonical report of a decision after these searches, shape (S,), one a state.

    Exact for every case, as no part of it depends on wording: canonical queries are Boolean, and
    altered quotes pass the published rule. A turn used up counts as a search.
    """
    verdict, way = read_decision(task.decision_ids[decision])
    seen = {task.finding_ids[q]: leans_for for q, leans_for in info.seen()}
    cited = citations(verdict, way, seen)
    search = float(info.turns_left < task.turn_cap)
    rewards = np.empty(len(task.states))
    for state in range(len(task.states)):
        truth = right_verdict(task, state)
        scores: dict[Verdict, list[float]] = {Verdict.SUPPORTED: [], Verdict.REFUTED: []}
        for piece in cited:
            score = 0.0
            if not piece.unseen:
                finding = finds(piece.index, seen[piece.body])
                score = evidence_score(piece.body, piece.index, finding, piece.side, truth)
            scores[piece.side].append(score)
        rewards[state] = FactCheckReward(
            outcome=float(verdict is truth),
            search=search,
            evidence=sum(map(composite_evidence_reward, scores.values())),
            hallucination=sum(piece.unseen for piece in cited) / max(len(cited), 1),
        ).total
    return rewards


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportMetrics:
    """Published metrics over episodes: evidence quality, hallucination rates, labels."""

    evidence_quality: Mean
    hallucination: HallucinationRates
    labels: LabelMetrics


def report_metrics(task: Task, episodes: Iterable[Episode]) -> ReportMetrics:
    """EQS, EHR and label metrics of the reports of episodes.

    Raises:
        InvalidEpisode: as `checked_claim`.
    """
    checked = [checked_claim(task, episode) for episode in episodes]
    reports = [one.judged for one in checked]
    return ReportMetrics(
        evidence_quality=evidence_quality(reports),
        hallucination=hallucination_rates(reports),
        labels=label_metrics([one.truth for one in checked], [one.verdict for one in reports]),
    )
