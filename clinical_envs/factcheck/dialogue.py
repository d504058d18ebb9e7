"""Fact-checking in text: search PubMed, then report (or only answer).

    {"action": "search_pubmed", "query": "..."}
    {"action": "report", "report": "### REPORT ..."}     {"action": "answer", "label": "..."}

A query retrieves one body of evidence (`library.retrieve`); a report is the decision that its
verdict and its citations amount to (`reporting.read_way`). Both readings are total.
"""

from __future__ import annotations

import json
from typing import Any

from clinical_envs.errors import InvalidArgument, InvalidTask
from clinical_envs.factcheck.designs import DESIGNS
from clinical_envs.factcheck.library import Miss, Missed, canonical_query, retrieve, retrieved
from clinical_envs.factcheck.report import Evidence, Report, Summary, render_report
from clinical_envs.factcheck.report_parser import parse_report
from clinical_envs.factcheck.reporting import (
    Way,
    canonical_report,
    decision_id,
    read_way,
)
from clinical_envs.factcheck.studies import (
    MAX_STUDY_CHARS,
    STUDIES,
    alphabet,
    study_text,
)
from clinical_envs.factcheck.topics import LONGEST_CLAIM, topic
from clinical_envs.factcheck.turns import ANSWER, MAX_TURN_CHARS, REPORT, SEARCH, read_turn
from clinical_envs.factcheck.verdict import Verdict, read_verdict
from clinical_envs.protocol import Dialogue
from clinical_envs.simulator import Action, Ask, Commit, Encounter, Invalid
from clinical_envs.task import Task

_SYNTAX = (
    'A search takes PubMed syntax: AND, OR, NOT, parentheses, "phrase", trunc* and the tags [tiab] '
    "[ti] [mesh] [pmid] [dp]. It covers titles, aims, methods, MeSH terms and years, and retrieves "
    f"the {STUDIES} studies of the body of evidence that fits best."
)
_LABELS = ", ".join(verdict.value for verdict in Verdict)


class LabelDialogue(Dialogue):
    """An encounter of `ClinicalFactCheckLabel-v0` in text."""

    __slots__ = ("family",)
    max_action_chars = MAX_TURN_CHARS
    ways: tuple[Way | None, ...] = (None,)
    how_to_end = f'{{"action": "answer", "label": "..."}}\nThe label is one of: {_LABELS}.'

    def __init__(self, encounter: Encounter) -> None:
        self.family = encounter.task.family_ids[encounter.info.family]
        self._check(encounter.task)
        super().__init__(encounter)

    @classmethod
    def _check(cls, task: Task) -> None:
        """Refuse a task that this dialogue cannot word."""
        decisions = {decision_id(verdict, way) for verdict in Verdict for way in cls.ways}
        strange = {*task.finding_ids} - {*DESIGNS} or decisions ^ {*task.decision_ids}
        if strange:
            raise InvalidTask(
                f"{task.key}: {', '.join(sorted(strange))}; a copy of a fact-checking task may "
                "leave out findings, and must keep the decisions"
            )

    @classmethod
    def longest_messages(cls, task: Task) -> list[str]:
        """As long as an opening with everything revealed, and with every character there is."""
        studies = "?" * (len(task.findings) * STUDIES * (MAX_STUDY_CHARS + 2)) + alphabet()
        return [cls._rules(task, f, LONGEST_CLAIM) + studies for f in range(len(task.families))]

    @classmethod
    def _rules(cls, task: Task, family: int, claim: str) -> str:
        lines = [
            task.setting,
            task.families[family].text,
            f"Claim: {claim}",
            _SYNTAX,
            f"Bodies of evidence: {', '.join(DESIGNS[name].phrase for name in task.finding_ids)}.",
            f"Each search costs {task.question_cost:g}. You have {task.turn_cap} turns, and the "
            "last must end the check.",
            "Reply with one JSON object and nothing else:",
            '{"action": "search_pubmed", "query": "..."}',
            "or",
            cls.how_to_end,
        ]
        return "\n".join(lines)

    def opening(self) -> str:
        """The claim, the rules, and the studies known at the start."""
        claim = topic(self.encounter.identity, self.family).claim
        rules = self._rules(self.encounter.task, self.encounter.info.family, claim)
        known = self._studies(self._seen())
        return f"{rules}\nKnown at the start:\n{known}" if known else rules

    def read(self, text: str) -> Action:
        """A turn of text as an action, or the named reason why it is none; total."""
        turn = read_turn(text)
        if isinstance(turn, Invalid):
            return turn
        kind, value = turn
        if kind != SEARCH:
            return self._ending(kind, value)
        found = retrieve(self.encounter.identity, self.family, value)
        if isinstance(found, Missed):
            return Invalid(found.miss.value)
        finding = self.encounter.task.finding_index.get(found)
        return Invalid(Miss.NO_HITS.value) if finding is None else Ask(finding)

    def _ending(self, kind: str, value: str) -> Action:
        if kind != ANSWER:
            return Invalid("unknown_action")
        verdict = read_verdict(value)
        return Invalid("unknown_label") if verdict is None else self._commit(verdict, None)

    def _commit(self, verdict: Verdict, way: Way | None) -> Commit:
        return Commit(self.encounter.task.decision_index[decision_id(verdict, way)])

    def respond(self, action: Ask | Invalid, answer: bool | None) -> str:
        """The studies that were retrieved, or why the turn was invalid."""
        left = self.encounter.info.turns_left
        if isinstance(action, Invalid):
            detail = self._detail(action.reason, self.messages[-1]["content"])
            return json.dumps({"error": action.reason, **detail, "turns_left": left})
        if answer is None:
            raise InvalidArgument("a search has an answer; give it")
        body = self.encounter.task.finding_ids[action.finding]
        head = json.dumps({"retrieved": STUDIES, "turns_left": left})
        return f"{head}\n{self._studies({body: answer})}"

    def _detail(self, reason: str, text: str) -> dict[str, Any]:
        """What the writer of an invalid turn can learn from it."""
        turn = read_turn(text)
        if isinstance(turn, Invalid) or reason not in [*Miss]:
            return {}
        found = retrieve(self.encounter.identity, self.family, turn[1])
        return found.detail if isinstance(found, Missed) else {}

    def write(self, action: Action) -> str:
        """The canonical query of a body of evidence, or the canonical text of a decision.

        `read` gives the action back, with one exception: nothing can be padded before anything is
        retrieved, so such a report reads as the honest one.
        """
        task, identity = self.encounter.task, self.encounter.identity
        match action:
            case Ask(finding):
                query = canonical_query(identity, self.family, task.finding_ids[finding])
                return json.dumps({"action": SEARCH, "query": query})
            case Commit(decision):
                name = task.decision_ids[decision]
                return self._written(canonical_report(identity, self.family, name, self._seen()))
            case Invalid():
                return ""

    def _written(self, report: Report) -> str:
        return json.dumps({"action": ANSWER, "label": report.verdict})

    def _seen(self) -> dict[str, bool]:
        """The bodies of evidence seen, and whether each leans for the claim."""
        names = self.encounter.task.finding_ids
        return {names[q]: leans_for for q, leans_for in self.encounter.info.seen()}

    def _studies(self, seen: dict[str, bool]) -> str:
        found = retrieved(self.encounter.identity, self.family, seen)
        return "\n\n".join(study_text(article) for _, article in found.values())


_FORM = render_report(
    Report(
        verdict=Verdict.SUPPORTED,
        supporting=(
            Evidence(
                pmid="of a study you retrieved",
                quote="one sentence of it, word for word",
                context="what it looked at",
            ),
        ),
        summary=Summary(
            reasons_to_support="...",
            reasons_to_refute="...",
            consensus="...",
            justification="...",
        ),
    )
).replace(Verdict.SUPPORTED.value, f"one of: {_LABELS}")


class FactCheckDialogue(LabelDialogue):
    """An encounter of `ClinicalFactCheck-v0` in text."""

    __slots__ = ()
    ways = tuple(Way)
    how_to_end = f'{{"action": "report", "report": "..."}}\nThe report has this form:\n{_FORM}'

    def _ending(self, kind: str, value: str) -> Action:
        if kind != REPORT:
            return Invalid("unknown_action")
        report, seen = parse_report(value).report, self._seen()
        if report.verdict is None:
            return Invalid("bad_report")
        articles = retrieved(self.encounter.identity, self.family, seen)
        return self._commit(report.verdict, read_way(report, articles, seen))

    def _detail(self, reason: str, text: str) -> dict[str, Any]:
        turn = read_turn(text)
        if reason != "bad_report" or isinstance(turn, Invalid):
            return super()._detail(reason, text)
        problems = (error.problem.value for error in parse_report(turn[1]).errors)
        return {"problems": list(dict.fromkeys(problems))}

    def _written(self, report: Report) -> str:
        return json.dumps({"action": REPORT, "report": render_report(report)}, ensure_ascii=False)
