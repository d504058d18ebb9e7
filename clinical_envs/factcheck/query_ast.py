"""A parsed PubMed query, and the two texts it is written back to.

A query is a closed union of frozen nodes: ``Term | Years | And | Or | Not``. ``And`` and ``Or``
hold two or more parts and never a part of their own kind, so one meaning has one tree.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never


class Field(StrEnum):
    """Where a term must occur; the value is the PubMed tag."""

    ALL = "all"
    TITLE_ABSTRACT = "tiab"
    TITLE = "ti"
    MESH = "mesh"
    PMID = "pmid"
    YEAR = "dp"


FIELD_NAMES = {
    "all": Field.ALL,
    "all fields": Field.ALL,
    "tiab": Field.TITLE_ABSTRACT,
    "title/abstract": Field.TITLE_ABSTRACT,
    "ti": Field.TITLE,
    "title": Field.TITLE,
    "mesh": Field.MESH,
    "mh": Field.MESH,
    "mesh terms": Field.MESH,
    "pmid": Field.PMID,
    "uid": Field.PMID,
    "dp": Field.YEAR,
    "pdat": Field.YEAR,
    "date - publication": Field.YEAR,
    "publication date": Field.YEAR,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A word or phrase in a field; ``prefix`` means that its last word is truncated (``*``)."""

    text: str
    field: Field = Field.ALL
    prefix: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Years:
    """Publication year from ``first`` to ``last``, both included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class And:
    """Every part matches."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Some part matches."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """``keep`` matches and ``drop`` does not."""

    keep: Node
    drop: Node


Node = Term | Years | And | Or | Not


def both(left: Node, right: Node) -> Node:
    """``left AND right``, flattened."""
    return And(_parts(And, left) + _parts(And, right))


def either(left: Node, right: Node) -> Node:
    """``left OR right``, flattened."""
    return Or(_parts(Or, left) + _parts(Or, right))


def _parts(kind: type[And] | type[Or], node: Node) -> tuple[Node, ...]:
    return node.parts if isinstance(node, And | Or) and isinstance(node, kind) else (node,)


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below a node."""
    match node:
        case Term() | Years():
            return ()
        case And(parts=parts) | Or(parts=parts):
            return parts
        case Not(keep=keep, drop=drop):
            return (keep, drop)
        case _:
            assert_never(node)


def depth(root: Node) -> int:
    """Number of layers of a query; a single term has one. Not recursive: any tree is safe."""
    layers, layer = 0, [root]
    while layer:
        layers += 1
        layer = [child for node in layer for child in children(node)]
    return layers


def terms(root: Node) -> Iterator[Term]:
    """Every term of a query, from left to right."""
    if isinstance(root, Term):
        yield root
    for child in children(root):
        yield from terms(child)


def to_pubmed(root: Node) -> str:
    """The query in canonical PubMed syntax; parsing it gives the same tree again.

    >>> to_pubmed(Not(keep=Term(text="covid-19"), drop=Term(text="infant", prefix=True)))
    '"covid-19" NOT "infant*"'
    """
    match root:
        case Term(text=text, field=field, prefix=prefix):
            tag = "" if field is Field.ALL else f"[{field.value}]"
            return f'"{text}{"*" if prefix else ""}"{tag}'
        case Years(first=first, last=last):
            return f"{first:04d}:{last:04d}[{Field.YEAR.value}]"
        case And(parts=parts):
            return " AND ".join(map(_grouped, parts))
        case Or(parts=parts):
            return " OR ".join(map(_grouped, parts))
        case Not(keep=keep, drop=drop):
            return f"{_grouped(keep)} NOT {_grouped(drop)}"
        case _:
            assert_never(root)


def _grouped(node: Node) -> str:
    return f"({to_pubmed(node)})" if children(node) else to_pubmed(node)


_COLUMNS = {
    Field.ALL: "{title abstract mesh}",
    Field.TITLE_ABSTRACT: "{title abstract}",
    Field.TITLE: "{title}",
    Field.MESH: "{mesh}",
    Field.PMID: "{pmid}",
    Field.YEAR: "{year}",
}


def to_fts5(root: Node) -> str:
    """The query as an SQLite FTS5 expression over the columns title, abstract, mesh, pmid, year.

    Every term is quoted and every node parenthesised, so no text of a user is FTS5 syntax.

    >>> to_fts5(Term(text="TNF-α", field=Field.TITLE))
    '({title} : "TNF-alpha")'
    """
    match root:
        case Term(text=text, field=field, prefix=prefix):
            quoted = index_text(text).replace('"', '""')
            return f'({_COLUMNS[field]} : "{quoted}"{" *" if prefix else ""})'
        case Years(first=first, last=last):
            starts = (f'"{start}" *' for start in _year_prefixes(first, last))
            return f"({_COLUMNS[Field.YEAR]} : ({' OR '.join(starts)}))"
        case And(parts=parts):
            return f"({' AND '.join(map(to_fts5, parts))})"
        case Or(parts=parts):
            return f"({' OR '.join(map(to_fts5, parts))})"
        case Not(keep=keep, drop=drop):
            return f"({to_fts5(keep)} NOT {to_fts5(drop)})"
        case _:
            assert_never(root)


def _year_prefixes(first: int, last: int, start: str = "") -> list[str]:
    """The fewest digit prefixes that cover the four-digit years from first to last."""
    found: list[str] = []
    for prefix in (start + digit for digit in "0123456789"):
        low, high = int(prefix.ljust(4, "0")), int(prefix.ljust(4, "9"))
        if first <= low and high <= last:
            found.append(prefix)
        elif low <= last and first <= high:
            found += _year_prefixes(first, last, prefix)
    return found


_GREEK = """
    alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho
    sigma sigma tau upsilon phi chi psi omega
"""
_GREEK_NAMES = {base + i: name for base in (0x391, 0x3B1) for i, name in enumerate(_GREEK.split())}


def index_text(text: str) -> str:
    """The form in which texts are indexed and terms are looked up: NFKC, Greek letters by name.

    PubMed spells Greek letters out too, so ``TNF-α`` and ``TNF-alpha`` find each other.

    >>> index_text("IFN-γ, CO₂")
    'IFN-gamma, CO2'
    """
    return unicodedata.normalize("NFKC", text).translate(_GREEK_NAMES)
