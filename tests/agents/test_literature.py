from __future__ import annotations

import json
from pathlib import Path

import pytest

from clinical_envs.errors import InvalidArgument
from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.search import LocalSearch, SearchResult
from clinical_envs.factcheck.verdict import Verdict
from training.agents.literature import open_claims, open_corpus

PUBMEDQA = {
    "101": {
        "QUESTION": "Does tea prevent gout?",
        "CONTEXTS": ["Tea did not prevent gout."],
        "LABELS": ["RESULTS"],
        "MESHES": ["Gout"],
        "final_decision": "no",
    }
}


def pmids(corpus: str, query: str) -> tuple[str, ...]:
    local = open_corpus(corpus)
    found = local.search(query)
    local.close()
    assert isinstance(found, SearchResult)
    return found.pmids


def test_the_examples_are_a_corpus_and_claims() -> None:
    assert pmids("examples", "pelorinib AND pilot") == ("999000101",)
    claims = open_claims("examples")
    assert claims[0].label is Verdict.REFUTED
    assert claims[0].evidence == ("999000101", "999000102")


def test_articles_are_read_by_their_form(tmp_path: Path) -> None:
    lines, scifact = tmp_path / "a.jsonl", tmp_path / "corpus.jsonl"
    lines.write_text('{"pmid": "7", "title": "gout"}\n', encoding="utf-8")
    document = {"doc_id": 8, "title": "t", "abstract": ["On gout."], "structured": False}
    scifact.write_text(json.dumps(document) + "\n", encoding="utf-8")
    pubmedqa, index = tmp_path / "ori_pqal.json", tmp_path / "index.sqlite"
    pubmedqa.write_text(json.dumps(PUBMEDQA), encoding="utf-8")
    LocalSearch.build([Article(pmid="9", title="gout")], index).close()
    found = [pmids(str(path), "gout") for path in (lines, scifact, pubmedqa, index)]
    assert found == [("7",), ("8",), ("101",), ("9",)]


def test_pubmedqa_is_claims_too(tmp_path: Path) -> None:
    path = tmp_path / "ori_pqal.json"
    path.write_text(json.dumps(PUBMEDQA), encoding="utf-8")
    (claim,) = open_claims(str(path))
    assert (claim.id, claim.label, claim.evidence) == ("101", Verdict.REFUTED, ("101",))


def test_a_corpus_without_an_article_is_refused(tmp_path: Path) -> None:
    """Searched, it would look like a claim without evidence."""
    empty = tmp_path / "corpus.jsonl"
    empty.write_text("\n", encoding="utf-8")
    with pytest.raises(InvalidArgument, match=r"corpus\.jsonl holds no article"):
        open_corpus(str(empty))


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidArgument, match=r"no corpus file nowhere\.jsonl"):
        open_corpus("nowhere.jsonl")
    with pytest.raises(InvalidArgument, match=r"nowhere\.json"):
        open_claims("nowhere.json")
