"""Any text as tokens of PubMed query syntax, and the one question R_search asks of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

OPERATORS = frozenset({"AND", "OR", "NOT"})


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a query: its kind, its text without delimiters, its 0-based position."""

    kind: str
    text: str
    position: int


_TOKEN = re.compile(
    r'"(?P<phrase>[^"]*)"|\[(?P<tag>[^\[\]]*)\]|(?P<open>\()|(?P<close>\))'
    r'|(?P<word>[^\s"()\[\]]+)|(?P<quote>")|(?P<bracket>[\[\]])'
)
_CURLY_QUOTES = dict.fromkeys(map(ord, "“”„‟"), '"')


def tokens(text: str) -> Iterator[Token]:
    """The tokens of any text; what fits no rule comes out as kind ``quote`` or ``bracket``."""
    # One character for one, so positions hold; SQLite takes neither NUL nor a lone surrogate.
    printable = "".join(c if c.isprintable() else " " for c in text.translate(_CURLY_QUOTES))
    for found in _TOKEN.finditer(printable):
        kind = found.lastgroup or ""
        yield Token(kind, found.group(kind), found.start())


def uses_boolean(text: str) -> bool:
    """Whether an uppercase AND or OR stands as a token of its own outside quotes.

    NOT alone does not count, nor do lowercase words; a malformed query can count, and a quote
    that is never closed quotes nothing.

    >>> [uses_boolean(q) for q in ("a AND b", "a and b", '"a AND b"', "a NOT b", "(a OR")]
    [True, False, False, False, True]
    """
    return any(token.kind == "word" and token.text in ("AND", "OR") for token in tokens(text))
