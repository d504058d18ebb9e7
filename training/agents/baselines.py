"""Baselines that decide and cite nothing: No Retrieval, CER and FIRE.

Decided: cosines of word counts, weighted by rarity among the sentences at hand for CER and plain
for FIRE, stand in for sentence embeddings, so that no model beside the policy is needed.

Sources: CER (Barone et al. 2025), FIRE (Xie et al. 2025), as BioCheck (arXiv 2608.23811) runs
them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.report import Report, Summary
from clinical_envs.factcheck.report_parser import read_answer
from clinical_envs.factcheck.rouge import words
from clinical_envs.factcheck.verdict import Verdict
from training.agents.checked import Checked
from training.agents.desk import AgentProblem, Desk, Message, Search, result_text
from training.agents.prompts import (
    CER_DECISION,
    FIRE_RETRY,
    cer_prompt,
    fire_prompt,
    no_retrieval_prompt,
)
from training.agents.reply import read_object, said

CER_ARTICLES, CER_SENTENCES = 20, 3
FIRE_ARTICLES, FIRE_RETRIES, FIRE_SIMILARITY = 3, 10, 0.9
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9(\[\"'])|\n")


def no_retrieval(claim: str, desk: Desk) -> Checked:
    """Ask the model, and search nothing."""
    talk = _Talk(desk)
    return _decided(claim, desk, talk, talk.say(no_retrieval_prompt(claim)))


def cer(claim: str, desk: Desk) -> Checked:
    """Search once with the words of the claim; explain its closest sentences; then decide."""
    search, articles = desk.search(" ".join(words(claim)), limit=CER_ARTICLES, match="any")
    talk = _Talk(desk)
    talk.say(cer_prompt(claim, closest_sentences(claim, articles)))
    answer = talk.say(CER_DECISION)
    return _decided(claim, desk, talk, answer, searches=(search,), articles=articles)


def fire(claim: str, desk: Desk) -> Checked:
    """Let the model answer or search on, step by step; a search like the last one ends it.

    A retry shows the model its reply and what was wrong with it: at temperature 0 the same prompt
    would give the same reply.
    """
    knowledge: list[str] = []
    searches: list[Search] = []
    articles: dict[str, Article] = {}
    transcript: list[Message] = []
    step: _Step | None = None
    for must_answer in (*[False] * desk.cap, True):
        prompt = fire_prompt(claim, knowledge, must_answer=must_answer)
        step = _fire_step(desk, prompt, must_answer, transcript)
        if step is None or step.verdict is not None:
            break
        if _repeats(step.query, searches, knowledge):
            prompt = fire_prompt(claim, knowledge, must_answer=True)
            step = _fire_step(desk, prompt, True, transcript)
            break
        search, found = desk.search(step.query, limit=FIRE_ARTICLES, match="any")
        searches.append(search)
        articles |= found
        knowledge.append(result_text(search, found))
    if step is None:
        desk.problems[AgentProblem.BAD_FORMAT] = None
    report = Report(verdict=None)
    if step is not None:
        report = Report(verdict=step.verdict, summary=Summary(justification=step.reasoning))
    return Checked(
        claim=claim,
        report=report,
        searches=tuple(searches),
        articles=articles,
        problems=tuple(desk.problems),
        messages=tuple(transcript),
        spent=desk.spent,
    )


def closest_sentences(
    claim: str, articles: Mapping[str, Article], each: int = CER_SENTENCES
) -> list[tuple[str, str]]:
    """The sentences of every article that are closest to the claim, as (PMID, sentence).

    Cosine of word counts times `log((1 + n) / (1 + n_word)) + 1`, over the n sentences at hand;
    equal ones keep their order.

    >>> text = "We followed 90 adults. Aspirin prevented stroke. Funding: none."
    >>> closest_sentences("aspirin and stroke", {"7": Article(pmid="7", abstract=text)}, each=1)
    [('7', 'Aspirin prevented stroke.')]
    """
    sentences = {
        pmid: [part for part in _SENTENCE_END.split(article.text) if words(part)]
        for pmid, article in articles.items()
    }
    bags = [Counter(words(part)) for parts in sentences.values() for part in parts]
    occurs = Counter(word for bag in bags for word in bag)
    weight = {word: math.log((1 + len(bags)) / (1 + n)) + 1 for word, n in occurs.items()}
    return [
        (pmid, part)
        for pmid, parts in sentences.items()
        for part in sorted(parts, key=lambda part: -cosine(claim, part, weight))[:each]
    ]


def cosine(a: str, b: str, weight: Mapping[str, float] | None = None) -> float:
    """Cosine of the word counts of two texts; a word without a weight weighs 1.

    >>> round(cosine("aspirin stroke", "stroke aspirin trial"), 4)
    0.8165
    """
    left, right = (
        {word: n * (weight or {}).get(word, 1.0) for word, n in Counter(words(text)).items()}
        for text in (a, b)
    )
    norm = math.hypot(*left.values()) * math.hypot(*right.values())
    return sum(n * right.get(word, 0.0) for word, n in left.items()) / norm if norm else 0.0


class _Talk:
    """A dialogue with the model."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.messages: list[Message] = []
        self.replies: list[str] = []

    def say(self, text: str) -> str:
        """Say something; the reply, without its reasoning."""
        self.messages.append({"role": "user", "content": text})
        reply = said(self.desk.ask(self.messages))
        self.replies.append(reply)
        # servers refuse an empty turn, which is what is left of a reply cut in its reasoning
        self.messages.append({"role": "assistant", "content": reply or "(nothing)"})
        return reply


def _decided(
    claim: str,
    desk: Desk,
    talk: _Talk,
    answer: str,
    *,
    searches: tuple[Search, ...] = (),
    articles: Mapping[str, Article] | None = None,
) -> Checked:
    verdict, errors = read_answer(answer)
    return Checked(
        claim=claim,
        report=Report(verdict=verdict, summary=Summary(justification=" ".join(talk.replies))),
        searches=searches,
        articles=articles or {},
        problems=(*(error.problem.value for error in errors), *desk.problems),
        messages=tuple(talk.messages),
        spent=desk.spent,
    )


@dataclass(frozen=True, slots=True)
class _Step:
    """A step of FIRE: a verdict, or else the next query."""

    reasoning: str
    verdict: Verdict | None = None
    query: str = ""


_FIRE_VERDICTS = {verdict.value: verdict for verdict in (Verdict.SUPPORTED, Verdict.REFUTED)}


def _fire_step(
    desk: Desk, prompt: str, must_answer: bool, transcript: list[Message]
) -> _Step | None:
    """One step; None when the first reply and every retry are in no required form."""
    talk = _Talk(desk)
    text, step = prompt, None
    for _ in range(1 + FIRE_RETRIES):
        read = _read_step(talk.say(text), must_answer)
        if isinstance(read, _Step):
            step = read
        if step is not None or AgentProblem.CONTEXT_EXCEEDED in desk.problems:
            break
        text = FIRE_RETRY.format(reason=read)
    transcript += talk.messages
    return step


def _read_step(reply: str, must_answer: bool) -> _Step | str:
    """The step that a reply ends with, or what is wrong with it."""
    found = read_object(reply)
    if found is None:
        return "no JSON object starts a line"
    if "final_answer" in found:
        verdict = _FIRE_VERDICTS.get(str(found["final_answer"]).strip().upper())
        if verdict is None:
            return "final_answer is neither SUPPORTED nor REFUTED"
        return _Step(reasoning=reply, verdict=verdict)
    query = found.get("search_query")
    if must_answer or not isinstance(query, str) or not query.strip():
        return (
            "final_answer is missing" if must_answer else "it has no final_answer or search_query"
        )
    return _Step(reasoning=reply, query=query)


def _repeats(query: str, searches: Sequence[Search], knowledge: Sequence[str]) -> bool:
    """Whether a query is like the last one, or the last two results are alike.

    What a refused query was told is no result.
    """
    same_query = bool(searches) and cosine(query, searches[-1].query) > FIRE_SIMILARITY
    searched = len(searches) > 1 and not any(search.problem for search in searches[-2:])
    same_result = searched and cosine(knowledge[-2], knowledge[-1]) > FIRE_SIMILARITY
    return same_query or same_result
