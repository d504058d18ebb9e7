"""Articles and claims, and the files they are read from.

A corpus is JSON Lines, one article a line::

    {"pmid": "101", "title": "...", "abstract": "...", "mesh": ["Asthma"], "year": 2011}

``abstract`` is a text, or a list of ``{"label": "RESULTS", "text": "..."}``; only ``pmid`` is
required.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from clinical_envs.errors import InvalidArgument
from clinical_envs.factcheck.verdict import Verdict

Pmid = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,8}$")]
Year = Annotated[int, Field(ge=1000, le=9999)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Section(_Record):
    """A labelled part of a structured abstract."""

    label: str
    text: str


class Article(_Record):
    """One record of the corpus; ``pmid`` is 1 to 9 digits without leading zeros."""

    pmid: Pmid
    title: str = ""
    abstract: str | tuple[Section, ...] = ""
    mesh: tuple[str, ...] = ()
    year: Year | None = None
    journal: str = ""

    @property
    def text(self) -> str:
        """The abstract as a reader sees it, one labelled section a line; quotes refer to it."""
        if isinstance(self.abstract, str):
            return self.abstract
        return "\n".join(f"{part.label}: {part.text}" for part in self.abstract)


class LabelledClaim(_Record):
    """A statement or question to check; ``pmids`` are the articles that its verdict rests on."""

    id: str
    text: str
    verdict: Verdict
    pmids: tuple[Pmid, ...]


def read_corpus(path: Path) -> tuple[Article, ...]:
    """Read a JSON Lines corpus; blank lines are skipped.

    Raises:
        InvalidArgument: a line that is no article, or a second article of one PMID; the message
            names the file and the line.
    """
    seen: dict[str, int] = {}
    articles = []
    for number, line in _lines(path):
        try:
            article = Article.model_validate_json(line)
        except ValidationError as error:
            message = f"{path} line {number}: {_first(error)}; expected one article as JSON"
            raise InvalidArgument(message) from None
        first = seen.setdefault(article.pmid, number)
        if first != number:
            message = f"{path} line {number}: PMID {article.pmid} is already on line {first}"
            raise InvalidArgument(f"{message}; keep one of them")
        articles.append(article)
    return tuple(articles)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if line.strip():
            yield number, line


def _first(error: ValidationError) -> str:
    """The first complaint of a validation error, on one line."""
    complaint = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in complaint["loc"]) or "the line"
    return f"{where}: {complaint['msg']}"[:300]


class _PubMedQA(BaseModel):
    """One entry of PubMedQA PQA-L; the keys that are not read are left out."""

    QUESTION: str
    CONTEXTS: list[str]
    LABELS: list[str]
    MESHES: list[str]
    YEAR: Year | None = None
    final_decision: Literal["yes", "no", "maybe"]

    @model_validator(mode="after")
    def _one_label_a_context(self) -> Self:
        if len(self.LABELS) != len(self.CONTEXTS):
            raise ValueError("LABELS and CONTEXTS differ in length")
        return self


_DECISIONS = {
    "yes": Verdict.SUPPORTED,
    "no": Verdict.REFUTED,
    "maybe": Verdict.NOT_ENOUGH_INFO,
}


def read_pubmedqa(path: Path) -> tuple[tuple[Article, ...], tuple[LabelledClaim, ...]]:
    """Read PubMedQA's ``ori_pqal.json``: one article and one claim (its question) an entry.

    The set has no titles and its questions are made from them, so titles stay empty. The
    conclusion of each abstract, which gives the answer away, is left out, as in the set's own
    contexts. The decisions yes, no, maybe become supported, refuted, not enough information.

    Raises:
        InvalidArgument: the file has another layout.
    """
    try:
        entries = TypeAdapter(dict[Pmid, _PubMedQA]).validate_json(path.read_bytes())
    except ValidationError as error:
        raise InvalidArgument(f"{path} is not PubMedQA PQA-L: {_first(error)}") from None
    articles = tuple(
        Article(
            pmid=pmid,
            abstract=tuple(
                Section(label=label, text=text)
                for label, text in zip(entry.LABELS, entry.CONTEXTS, strict=True)
            ),
            mesh=tuple(entry.MESHES),
            year=entry.YEAR,
        )
        for pmid, entry in entries.items()
    )
    claims = tuple(
        LabelledClaim(
            id=pmid, text=entry.QUESTION, verdict=_DECISIONS[entry.final_decision], pmids=(pmid,)
        )
        for pmid, entry in entries.items()
    )
    return articles, claims
