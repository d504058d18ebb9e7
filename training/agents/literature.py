"""The files behind a check: a corpus to search, and claims with their labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clinical_envs.errors import InvalidArgument
from clinical_envs.factcheck.claims import Claim, read_articles, read_claims
from clinical_envs.factcheck.corpus import LabelledClaim, read_pubmedqa
from clinical_envs.factcheck.examples import EXAMPLE_ARTICLES, EXAMPLE_CLAIMS
from clinical_envs.factcheck.search import LocalSearch

EXAMPLES = "examples"
"""Stands for the articles and claims that the suite ships: a few, invented, written by hand."""


def open_corpus(corpus: str) -> LocalSearch:
    """A corpus, indexed or opened; close it.

    corpus: JSON Lines of articles, SciFact's `corpus.jsonl`, PubMedQA's `ori_pqal.json`, an index
    that `LocalSearch.build` wrote (.sqlite), or `examples`.

    Raises:
        InvalidArgument: there is no such file, it is none of these, or it holds no article.
    """
    if corpus == EXAMPLES:
        return LocalSearch.build(EXAMPLE_ARTICLES)
    path = Path(corpus)
    if not path.is_file():
        raise InvalidArgument(f"no corpus file {corpus}; give a file, or {EXAMPLES}")
    if path.suffix == ".sqlite":
        return LocalSearch.open(path)
    articles = read_pubmedqa(path)[0] if path.suffix == ".json" else read_articles(path)
    if not articles:
        raise InvalidArgument(f"{corpus} holds no article; a search would find nothing")
    return LocalSearch.build(articles)


def open_claims(claims: str) -> tuple[Claim, ...]:
    """The claims of a file, or `examples`.

    claims: a user's JSON Lines, SciFact, HealthFC or PubMedQA's `ori_pqal.json`, as published.

    Raises:
        InvalidArgument: there is no such file, or it is none of these.
    """
    if claims == EXAMPLES:
        known: Sequence[LabelledClaim] = EXAMPLE_CLAIMS
    elif Path(claims).suffix == ".json" and Path(claims).is_file():
        known = read_pubmedqa(Path(claims))[1]
    else:
        return read_claims(Path(claims))
    return tuple(Claim(id=c.id, text=c.text, label=c.verdict, evidence=c.pmids) for c in known)
