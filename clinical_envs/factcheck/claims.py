"""Claims and their labels, read from a user's file or from SciFact and HealthFC as published.

A user's file is JSON Lines, one claim a line; label and evidence may be left out::

    {"id": "c1", "claim": "...", "label": "REFUTED", "evidence": ["101", "102"]}

SciFact (``claims_train.jsonl``, ``claims_dev.jsonl``, ``claims_test.jsonl``) has the same keys,
with the label inside an evidence object, and HealthFC is a CSV file with ``en_claim`` and
``label``. None of them is shipped.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Annotated

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
)

from clinical_envs.errors import InvalidArgument, did_you_mean
from clinical_envs.factcheck.corpus import Article, Pmid, read_corpus
from clinical_envs.factcheck.verdict import Verdict, read_verdict

_WORDS = {
    "SUPPORT": Verdict.SUPPORTED,
    "SUPPORTS": Verdict.SUPPORTED,
    "CONTRADICT": Verdict.REFUTED,
    "CONTRADICTED": Verdict.REFUTED,
    "REFUTE": Verdict.REFUTED,  # copies of SciFact write it for CONTRADICT
    "REFUTES": Verdict.REFUTED,
    "NEI": Verdict.NOT_ENOUGH_INFO,
}
_HEALTHFC = {"0": Verdict.SUPPORTED, "1": Verdict.NOT_ENOUGH_INFO, "2": Verdict.REFUTED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A statement to check; ``label`` is None where the file gives none.

    ``evidence`` are the documents that the label rests on: PMIDs, or for SciFact the ids of its
    own corpus.
    """

    id: str
    text: str
    label: Verdict | None = None
    evidence: tuple[str, ...] = ()


def read_label(text: str) -> Verdict:
    """The verdict that a label spells: the project's words, SciFact's, and short forms of both.

    Raises:
        ValueError: no label; the message names the known ones.

    >>> read_label("contradict")
    <Verdict.REFUTED: 'REFUTED'>
    """
    verdict = read_verdict(text) or _WORDS.get(text.strip().upper())
    if verdict is None:
        known = [verdict.value for verdict in Verdict] + [*_WORDS]
        raise ValueError(f"unknown label {text[:40]!r}; {did_you_mean(text.upper(), known)}")
    return verdict


def read_claims(path: Path) -> tuple[Claim, ...]:
    """The claims of a file: HealthFC if its name ends in ``.csv``, else JSON Lines.

    Raises:
        InvalidArgument: the file cannot be read, or a line is no claim, has an unknown label or
            repeats an id; the message names the file and the line.
    """
    rows = _healthfc(path) if path.suffix.lower() == ".csv" else _claim_lines(path)
    lines: dict[str, int] = {}
    claims = []
    for number, claim in rows:
        _once(path, lines, claim.id, number)
        claims.append(claim)
    return tuple(claims)


def _text(value: object) -> object:
    """Ids are numbers in SciFact and texts elsewhere."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class _Rationale(BaseModel):
    label: Annotated[Verdict, BeforeValidator(lambda v: read_label(str(v)))]
    sentences: list[int]


_Evidence = Annotated[
    Annotated[list[Pmid], Tag("list")] | Annotated[dict[Pmid, list[_Rationale]], Tag("object")],
    Discriminator(lambda value: "object" if isinstance(value, dict) else "list"),
]


class _Line(BaseModel):
    """A line of a user's file or of SciFact."""

    model_config = ConfigDict(extra="forbid")

    id: Annotated[str, BeforeValidator(_text), Field(min_length=1)]
    claim: Annotated[str, Field(min_length=1)]
    label: Annotated[
        Verdict | None, BeforeValidator(lambda v: v if v is None else read_label(str(v)))
    ] = None
    evidence: _Evidence | None = None
    cited_doc_ids: list[int] | None = None

    def record(self) -> Claim:
        evidence = self.evidence or ()
        label = self.label
        if isinstance(self.evidence, dict):
            labels = {r.label for rationales in self.evidence.values() for r in rationales}
            if label is not None or len(labels) > 1:
                raise ValueError("label and evidence give more than one label; keep one")
            label = labels.pop() if labels else Verdict.NOT_ENOUGH_INFO
        return Claim(id=self.id, text=self.claim, label=label, evidence=tuple(evidence))


def _claim_lines(path: Path) -> Iterator[tuple[int, Claim]]:
    for number, line in _lines(path):
        try:
            yield number, _Line.model_validate_json(line).record()
        except ValueError as error:
            raise _bad(path, number, error, "a claim as JSON") from None


def _healthfc(path: Path) -> Iterator[tuple[int, Claim]]:
    try:
        text = _bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidArgument(f"{path} is not UTF-8; save it so") from None
    table = csv.DictReader(StringIO(text, newline=""))
    try:
        rows = [(table.line_num, row) for row in table]
    except csv.Error as error:
        raise _bad(path, table.line_num, error, "HealthFC as published") from None
    missing = {"en_claim", "label"} - {*(table.fieldnames or ())}
    if missing:
        raise InvalidArgument(
            f"{path} has no column {', '.join(sorted(missing))}; expected HealthFC as published, "
            "or a name that ends in .jsonl"
        )
    for number, (line, row) in enumerate(rows, start=1):
        try:
            yield line, _healthfc_claim(number, row["en_claim"], row["label"])
        except ValueError as error:
            raise _bad(path, line, error, "HealthFC as published") from None


def _healthfc_claim(number: int, text: str | None, label: str | None) -> Claim:
    verdict = _HEALTHFC.get((label or "").strip())
    if verdict is None:
        known = "0 supported, 1 not enough information, 2 refuted"
        raise ValueError(f"unknown label {label!r}; known: {known}")
    if not (text or "").strip():
        raise ValueError("the claim is empty")
    return Claim(id=str(number), text=" ".join((text or "").split()), label=verdict)


class _ScifactArticle(BaseModel):
    """A line of SciFact's ``corpus.jsonl``."""

    doc_id: Annotated[Pmid, BeforeValidator(_text)]
    title: str
    abstract: list[str]
    structured: bool


def read_articles(path: Path) -> tuple[Article, ...]:
    """The articles of a corpus file: the project's JSON Lines, or SciFact's ``corpus.jsonl``.

    SciFact's documents have numbers of Semantic Scholar (S2ORC), which stand in ``pmid`` and are
    no PMIDs of PubMed. Their sentences are joined by spaces.

    Raises:
        InvalidArgument: the file cannot be read, or a line is no article; the message names the
            file and the line.
    """
    first = next(_lines(path), (0, b""))[1]
    if b'"doc_id"' not in first:
        return read_corpus(path)
    seen: dict[str, int] = {}
    articles = []
    for number, line in _lines(path):
        try:
            read = _ScifactArticle.model_validate_json(line)
        except ValidationError as error:
            raise _bad(path, number, error, "a document of SciFact's corpus") from None
        _once(path, seen, read.doc_id, number)
        articles.append(
            Article(pmid=read.doc_id, title=read.title, abstract=" ".join(read.abstract))
        )
    return tuple(articles)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(_bytes(path).split(b"\n"), start=1):
        if line.strip():
            yield number, line


def _once(path: Path, seen: dict[str, int], name: str, number: int) -> None:
    first = seen.setdefault(name, number)
    if first != number:
        raise InvalidArgument(
            f"{path} line {number}: id {name!r} is already on line {first}; keep one of them"
        )


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from None


def _bad(path: Path, number: int, error: Exception, expected: str) -> InvalidArgument:
    reason = str(error)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the line"
        reason = f"{where}: {first['msg']}"
    return InvalidArgument(f"{path} line {number}: {reason[:300]}; expected {expected}")
