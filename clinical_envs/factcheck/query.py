"""PubMed query syntax: any text becomes a query or a named error, never an exception.

```
expression := clause ((AND | OR | NOT) clause)*      left to right, no precedence
clause     := operand+                               adjacent operands: all of them, or any
operand    := ( expression ) | "phrase" [tag] | word+ [tag]
```

- Operators are uppercase; ``and``, ``or`` and ``not`` are plain words.
- A clause is read before the operators around it: ``zinc OR vitamin c`` is
  ``zinc OR (vitamin AND c)``, as in PubMed, where adjacent words form one unit.
- A tag after several plain words makes them one phrase: ``vitamin D[tiab]``; pmid and dp tag one
  word: ``asthma 2015:2020[dp]``.
- ``*`` ends a word of at least four characters; quotes may end in a truncated word.
- Common words (``does``, ``of``) are ignored beside others, as PubMed does; the warnings say so.
- Tags: all, tiab, ti, mesh, pmid, dp and their long names. Any other tag is an error.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Literal

from clinical_envs.factcheck.query_ast import (
    FIELD_NAMES,
    Field,
    Node,
    Not,
    Term,
    Years,
    both,
    depth,
    either,
)
from clinical_envs.factcheck.query_error import QueryError, QueryProblem, RejectedQuery
from clinical_envs.factcheck.query_tokens import OPERATORS, Token, tokens

MAX_CHARACTERS = 4_000
MAX_DEPTH = 20  # the FTS5 parser's own stack gives out at about thirty

Match = Literal["all", "any"]
_JOINED: dict[Match, Callable[[Node, Node], Node]] = {"all": both, "any": either}


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A parsed query and what its reader should know about how it was read."""

    root: Node
    warnings: tuple[str, ...] = ()


def parse_query(text: str, match: Match = "all") -> Query | QueryError:
    """Parse a PubMed query; ``match`` says whether adjacent terms must all occur, or any.

    >>> parse_query("aspirin AND").problem.value
    'missing_operand'
    >>> from clinical_envs.factcheck.query_ast import to_pubmed
    >>> to_pubmed(parse_query("asthma OR copd AND child*").root)
    '("asthma" OR "copd") AND "child*"'
    """
    try:
        return _Parser(text, match).query()
    except RejectedQuery as rejected:
        return rejected.error


_PUNCTUATION = string.punctuation.replace("*", "") + "¿¡…–—«»· "
_YEARS = re.compile(r"([0-9]{4})(?:/[0-9]{1,2}){0,2}(?::([0-9]{4})(?:/[0-9]{1,2}){0,2})?")
_PMID = re.compile(r"[0-9]{1,9}")
_STAR_INSIDE = re.compile(r"\*(?![0-9])")  # alleles are names: CYP2D6*4, HLA-B*27
_COMMON_WORDS = """
    a about all also an and any are as at be been between both but by can could did do does done
    due during each for from had has have having how if in into is it its may more most not of on
    or our should so than that the their them then there these they this those to was we were
    what when where which while who whom whose why will with within would
"""
_COMMON = frozenset(_COMMON_WORDS.split())


class _Parser:
    """Recursive descent over the tokens of one query."""

    def __init__(self, text: str, match: Match) -> None:
        if len(text) > MAX_CHARACTERS:
            message = f"a query has at most {MAX_CHARACTERS} characters, this one has {len(text)}"
            raise RejectedQuery(QueryProblem.TOO_LONG, MAX_CHARACTERS, message)
        self.tokens = list(tokens(text))
        self.end = Token("end", "", len(text))
        self.at = 0
        self.match = match
        self.warnings: list[str] = []

    def query(self) -> Query:
        if not self.tokens:
            message = "the query is empty; give at least one term"
            raise RejectedQuery(QueryProblem.EMPTY, 0, message)
        root = self.expression(level=1)
        if self.next.kind == "close":
            message = "this ')' closes nothing; remove it or open it"
            raise RejectedQuery(QueryProblem.UNBALANCED_PARENTHESIS, self.next.position, message)
        if depth(root) > MAX_DEPTH:
            raise _too_deep(0)
        return Query(root=root, warnings=tuple(dict.fromkeys(self.warnings)))

    @property
    def next(self) -> Token:
        return self.tokens[self.at] if self.at < len(self.tokens) else self.end

    @property
    def next_is_operator(self) -> bool:
        return self.next.kind == "word" and self.next.text in OPERATORS

    def take(self) -> Token:
        token = self.next
        self.at += 1
        return token

    def expression(self, level: int) -> Node:
        if level > MAX_DEPTH:
            raise _too_deep(self.next.position)
        node = self.clause(level)
        while self.next_is_operator:
            operator = self.take().text
            right = self.clause(level)
            if operator == "NOT":
                node = Not(keep=node, drop=right)
            else:
                node = both(node, right) if operator == "AND" else either(node, right)
        return node

    def clause(self, level: int) -> Node:
        start = self.next
        operands: list[Node] = []
        common: list[Term] = []
        while self.next.kind not in ("close", "end") and not self.next_is_operator:
            match self.next.kind:
                case "open":
                    operands.append(self.group(level))
                case "phrase":
                    phrase = self.take()
                    operands += self.leaf(phrase, self.tag() or Field.ALL)
                case "word":
                    self.words(operands, common)
                case _:
                    raise _misplaced(self.next)
        if self.next is start:
            message = "a term is missing here; write: term AND term, term OR term, term NOT term"
            raise RejectedQuery(QueryProblem.MISSING_OPERAND, start.position, message)
        if not operands and not common:
            message = "nothing to search for here: no letter or digit"
            raise RejectedQuery(QueryProblem.EMPTY, start.position, message)
        if operands and common:
            self.warnings.append(f"common words ignored: {', '.join(t.text for t in common)}")
        parts = operands or common
        if len(parts) > 1 and self.match == "any":
            self.warnings.append("relaxed: adjacent terms match any of them, not all")
        return reduce(_JOINED[self.match], parts)

    def group(self, level: int) -> Node:
        opening = self.take()
        node = self.expression(level + 1)
        if self.next.kind != "close":
            message = "this '(' is never closed"
            raise RejectedQuery(QueryProblem.UNBALANCED_PARENTHESIS, opening.position, message)
        self.take()
        return node

    def words(self, operands: list[Node], common: list[Term]) -> None:
        run = [self.take()]
        if run[0].text == ":" and operands and isinstance(operands[-1], Years):
            message = "write a range of years as 2015:2020[dp]"
            raise RejectedQuery(QueryProblem.BAD_YEAR, run[0].position, message)
        while self.next.kind == "word" and not self.next_is_operator:
            if run[-1].text.endswith("*"):
                break  # a truncated word ends its phrase
            run.append(self.take())
        field = self.tag()
        if field is None:
            self.plain_words(run, operands, common)
            return
        if field in (Field.PMID, Field.YEAR):  # one word long, unlike a title phrase
            self.plain_words(run[:-1], operands, common)
            run = run[-1:]
        phrase = " ".join(word.text for word in run)
        if len(run) > 1:
            self.warnings.append(f'[{field.value}] read as covering the phrase "{phrase}"')
        operands += self.leaf(Token("phrase", phrase, run[0].position), field)

    def plain_words(self, run: list[Token], operands: list[Node], common: list[Term]) -> None:
        for word in run:
            for leaf in self.leaf(word, Field.ALL):
                match leaf:
                    # uppercase is kept: "A" is a vitamin and a hepatitis virus
                    case Term(text=text, prefix=False) if _is_common(text):
                        common.append(leaf)
                    case _:
                        operands.append(leaf)

    def tag(self) -> Field | None:
        """Take the tag that comes next, if one does."""
        if self.next.kind != "tag":
            return None
        tag = self.take()
        name = " ".join(tag.text.casefold().split())
        if name not in FIELD_NAMES:
            known = ", ".join(field.value for field in Field)
            message = f"no field '{tag.text[:40]}'; known: {known}"
            raise RejectedQuery(QueryProblem.UNKNOWN_FIELD, tag.position, message)
        return FIELD_NAMES[name]

    def leaf(self, token: Token, field: Field) -> list[Node]:
        """The token as a term of the field; nothing, with a warning, if it has no letter."""
        text = " ".join(token.text.split()).strip(_PUNCTUATION)
        word = text.rstrip("*").strip(_PUNCTUATION)
        if not any(character.isalnum() for character in word):
            self.warnings.append(f"ignored, no letter or digit: {token.text[:40]}")
            return []
        match field:
            case Field.YEAR:
                return [self.years(text, token.position)]
            case Field.PMID if not _PMID.fullmatch(text):
                message = "a PMID is 1 to 9 digits, one PMID to a tag: 12345[pmid]"
                raise RejectedQuery(QueryProblem.BAD_PMID, token.position, message)
            case _:
                truncated = text.endswith("*")
                if _STAR_INSIDE.search(word) or (truncated and len(word.split()[-1]) < 4):
                    message = "'*' ends a word of at least four characters, as in infant*"
                    raise RejectedQuery(QueryProblem.BAD_TRUNCATION, token.position, message)
                return [Term(text=word, field=field, prefix=truncated)]

    def years(self, text: str, position: int) -> Years:
        found = _YEARS.fullmatch(text)
        first, last = (found[1], found[2] or found[1]) if found else ("1", "0")
        if int(first) > int(last):
            message = "write a year or a range of years: 2015[dp], 2015:2020[dp]"
            raise RejectedQuery(QueryProblem.BAD_YEAR, position, message)
        if "/" in text:
            self.warnings.append("[dp] is compared by year; month and day are ignored")
        return Years(first=int(first), last=int(last))


def _is_common(word: str) -> bool:
    return word.lower() in _COMMON and not word.isupper()


def _too_deep(position: int) -> RejectedQuery:
    message = f"a query nests at most {MAX_DEPTH} levels; use fewer parentheses and alternations"
    return RejectedQuery(QueryProblem.TOO_DEEP, position, message)


def _misplaced(token: Token) -> RejectedQuery:
    match token.kind:
        case "tag":
            problem = QueryProblem.TAG_WITHOUT_TERM
            message = "this tag follows no term; put a tag behind each term"
        case "quote":
            problem = QueryProblem.UNCLOSED_QUOTE
            message = 'this " is never closed'
        case _:
            problem = QueryProblem.UNCLOSED_TAG
            message = "this bracket has no partner; write a tag as term[tiab]"
    return RejectedQuery(problem, token.position, message)
