"""Invented studies: five for each body of evidence of a case, as structured abstracts.

A study's text depends on the public identity of the case, on its body of evidence and on which
way that body leans, and on nothing else. Four of the five say what the body says; the last is
small, comes from a single centre and dissents. Which one it is does not depend on the lean.

The first sentence of the results is the finding of a study. A finding against the claim negates
it; a finding for the claim gives a number.
"""

from __future__ import annotations

import math
from functools import lru_cache

from clinical_envs.factcheck.corpus import Article, Section
from clinical_envs.factcheck.designs import DESIGNS, MARKERS, REPORTS, SUBGROUPS
from clinical_envs.factcheck.topics import DRUGS, PAST, Topic, number, other_topics, topic

STUDIES = 5
MAIN, DISSENTING = 0, STUDIES - 1
MAX_STUDY_CHARS = 1_200
_SIX_DIGITS = 1_000_000
_FIRST_PMID, _BLOCKS, _BLOCK = 900_000_000, 1_500_000, 64


@lru_cache(maxsize=4096)
def study(identity: str, family: str, body: str, index: int, leans_for: bool) -> Article:
    """Study `index` of a body of evidence that leans for the claim, or against it."""
    about, finds_for = topic(identity, family), finds(index, leans_for)
    fields = _fields(identity, about, body, index, finds_for)
    conclusion = (
        "{Drug} may {verb} the risk of {outcome} in {population}."
        if finds_for
        else "We found no good evidence that {drug} {verb}s the risk of {outcome}."
    )
    rest = (DESIGNS[body].aside + DESIGNS[body].caveat).format_map(fields)
    finding = finding_sentence(identity, family, body, index, leans_for)
    return _article(
        pmid(identity, body, index),
        about,
        body,
        index,
        fields,
        Section(label="RESULTS", text=f"{finding} {rest}"),
        Section(label="CONCLUSION", text=conclusion.format_map(fields)),
    )


def finds(index: int, leans_for: bool) -> bool:
    """Whether a study finds for the claim: as its body of evidence leans, unless it dissents."""
    return leans_for != (index == DISSENTING)


def finding_sentence(identity: str, family: str, body: str, index: int, leans_for: bool) -> str:
    """The sentence of a study that says what it found; the first of its results."""
    finds_for, design = finds(index, leans_for), DESIGNS[body]
    fields = _fields(identity, topic(identity, family), body, index, finds_for)
    return (design.finds_for if finds_for else design.finds_against).format_map(fields)


def listings(identity: str, family: str) -> dict[str, tuple[Article, str | None]]:
    """What a search of a case can match, by PMID: the entry, and its body of evidence.

    An entry has title, background, methods, MeSH and year, and no results: with results in it,
    hits and ranks would depend on which way a body leans, and one query over several bodies
    would reveal more than the one answer it pays for. The last 24 entries are on other topics and
    belong to no body of this case (None).
    """
    entries: dict[str, tuple[Article, str | None]] = {}
    about = topic(identity, family)
    for body in DESIGNS:
        for index in range(STUDIES):
            name = pmid(identity, body, index)
            fields = _fields(identity, about, body, index, finds_for=True)
            entries[name] = _article(name, about, body, index, fields), body
    others = [(other, body) for other in other_topics(identity, family) for body in DESIGNS]
    for place, (other, body) in enumerate(others):
        name = _pmid(identity, len(DESIGNS) * STUDIES + place)
        fields = _fields(f"{identity}/{place}", other, body, MAIN, finds_for=True)
        entries[name] = _article(name, other, body, MAIN, fields), None
    return entries


def study_text(article: Article) -> str:
    """A study as a search shows it; at most MAX_STUDY_CHARS characters."""
    return f"PMID: {article.pmid}\nTitle: {article.title}\nYear: {article.year}\n{article.text}"


def alphabet() -> str:
    """Every character beyond ASCII that a study can show."""
    designs = "".join(str(design) for design in DESIGNS.values())
    kinds = "".join(drug.kind for drug in DRUGS)
    return "".join(sorted({*designs, *kinds, *"".join(MARKERS), *"".join(SUBGROUPS)}))


def pmid(identity: str, body: str, index: int) -> str:
    """The PMID of a study: nine digits from 900,000,000 on, which no real one has."""
    return _pmid(identity, list(DESIGNS).index(body) * STUDIES + index)


def _pmid(identity: str, slot: int) -> str:
    """The slots of a case lie in a block of 64, in an order of their own: ties go by PMID."""
    block = number(identity, "pmid", _BLOCKS)
    step, shift = 2 * number(identity, "step", _BLOCK // 2) + 1, number(identity, "shift", _BLOCK)
    return str(_FIRST_PMID + block * _BLOCK + (slot * step + shift) % _BLOCK)


def _article(
    name: str, about: Topic, body: str, index: int, fields: dict[str, str], *results: Section
) -> Article:
    title = f"{{Drug}} and {{outcome}} in {{population}}: {DESIGNS[body].phrase}, {REPORTS[index]}"
    background = "{Drug} is {kind}; whether it {verb}s the risk of {outcome} is disputed."
    return Article(
        pmid=name,
        title=title.format_map(fields),
        abstract=(
            Section(label="BACKGROUND", text=background.format_map(fields)),
            Section(label="METHODS", text=DESIGNS[body].methods.format_map(fields)),
            *results,
        ),
        mesh=(DESIGNS[body].publication_type, fields["Drug"], about.outcome.capitalize()),
        year=int(fields["year"]),
    )


def _fields(identity: str, about: Topic, body: str, index: int, finds_for: bool) -> dict[str, str]:
    """What the templates are filled with; only ratio, limits and p depend on what is found."""
    draw = _Draw(f"{identity}/{body}/{index}")
    small = index == DISSENTING
    series = 12 + draw("series", 6) if small else 30 + draw("series", 20)
    expected = series // 4
    untreated, panel = 50 + draw("untreated", 30), 9 + 2 * draw("panel", 3)
    lowers = about.verb == "lower"
    return {
        "Drug": about.drug.name.capitalize(),
        "drug": about.drug.name,
        "kind": about.drug.kind,
        "verb": about.verb,
        "past": PAST[about.family],
        "outcome": about.outcome,
        "population": about.population,
        "year": str(1996 + draw("year", 29)),
        "trials": str(3 if small else 7 + draw("trials", 20)),
        "patients": str(40 + draw("patients", 40) if small else 400 + draw("patients", 4_000)),
        "months": str(6 + 6 * draw("months", 8)),
        "years": str(5 + draw("years", 25)),
        "panel": str(panel),
        "votes": str(panel // 2 + 2),
        "confounders": str(5 + draw("confounders", 20)),
        "percent": str(10 + draw("percent", 50)),
        "series": str(series),
        "expected": str(expected),
        "changed": str(expected // 3 if lowers else 2 * expected),
        "untreated": f"{untreated / 10:.1f}",
        "treated": f"{untreated * (0.5 if lowers else 1.6) / 10:.1f}",
        "spread": f"{0.3 + draw('spread', 9) / 10:.1f}",
        "level": f"{2.0 + draw('level', 60) / 10:.1f}",
        "marker": MARKERS[draw("marker", len(MARKERS))],
        "subgroup": SUBGROUPS[draw("subgroup", len(SUBGROUPS))],
        **_estimate(draw, lowers, small, finds_for),
    }


class _Draw:
    """Numbers of one study."""

    def __init__(self, study: str) -> None:
        self._study = study

    def __call__(self, key: str, n: int) -> int:
        return number(self._study, key, n)


def _estimate(draw: _Draw, lowers: bool, small: bool, finds_for: bool) -> dict[str, str]:
    """A ratio with its 95 % interval and P value, which agree with one another.

    `log ratio = z s`: |z| is above 2 for a finding and below 1/2 for none.
    """
    share = draw("estimate", _SIX_DIGITS) / _SIX_DIGITS
    s = (0.22 if small else 0.06) + 0.05 * share
    z = (2.1 + 0.3 * share if small else 3.0 + 2.0 * share) if finds_for else share - 0.5
    log_ratio = (-z if lowers else z) * s
    p = math.erfc(abs(z) / math.sqrt(2.0))
    return {
        "ratio": f"{math.exp(log_ratio):.2f}",
        "low": f"{math.exp(log_ratio - 1.96 * s):.2f}",
        "high": f"{math.exp(log_ratio + 1.96 * s):.2f}",
        "p": "P < 0.001" if p < 0.001 else f"P = {p:.3f}",
    }
