"""Why a text is not a query."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class QueryProblem(StrEnum):
    """Why a text is not a query."""

    EMPTY = "empty"
    TOO_LONG = "too_long"
    TOO_DEEP = "too_deep"
    UNCLOSED_QUOTE = "unclosed_quote"
    UNCLOSED_TAG = "unclosed_tag"
    UNBALANCED_PARENTHESIS = "unbalanced_parenthesis"
    MISSING_OPERAND = "missing_operand"
    TAG_WITHOUT_TERM = "tag_without_term"
    UNKNOWN_FIELD = "unknown_field"
    BAD_TRUNCATION = "bad_truncation"
    BAD_PMID = "bad_pmid"
    BAD_YEAR = "bad_year"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryError:
    """A text that is not a query: what is wrong, where (0-based character), what to do."""

    problem: QueryProblem
    position: int
    message: str


class RejectedQuery(Exception):
    """Carries an error out of the parser's recursion; ``parse_query`` returns it as a value."""

    def __init__(self, problem: QueryProblem, position: int, message: str) -> None:
        super().__init__(message)
        self.error = QueryError(problem=problem, position=position, message=message)
