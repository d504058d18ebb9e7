from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clinical_envs.errors import InvalidArgument
from clinical_envs.factcheck.corpus import (
    Article,
    LabelledClaim,
    Section,
    read_corpus,
    read_pubmedqa,
)
from clinical_envs.factcheck.verdict import Verdict

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_articles = st.builds(
    Article,
    pmid=st.integers(1, 999_999_999).map(str),
    title=_text,
    abstract=_text | st.lists(st.builds(Section, label=_text, text=_text), max_size=3).map(tuple),
    mesh=st.lists(_text, max_size=2).map(tuple),
    year=st.none() | st.integers(1000, 9999),
)


@given(st.lists(_articles, max_size=4, unique_by=lambda article: article.pmid))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_corpus_written_as_json_lines_reads_back(tmp_path: Path, corpus: list[Article]) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text("\n\n".join(article.model_dump_json() for article in corpus), "utf-8")
    assert read_corpus(path) == tuple(corpus)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b'{"pmid": "1"}', "already on line 1"),
        (b'{"pmid": 2}', "pmid"),
        (b'{"pmid": "PMC123"}', "pmid"),
        (b'{"pmid": "0012"}', "pmid"),
        (b'{"title": "x"}', "pmid"),
        (b'{"pmid": "2", "titel": "x"}', "titel"),
        (b'{"pmid": "2", "year": 99}', "year"),
        (b'{"pmid": "2", "abstract": [{"label": "RESULTS"}]}', "abstract"),
        (b'{"pmid": "2"', "Invalid JSON"),
        (b"[" * 100_000, "the line"),
        (b'{"pmid": "2", "title": "\xff"}', "the line"),
        (b"version https://git-lfs.github.com/spec/v1", "Invalid JSON"),
    ],
)
def test_a_bad_line_is_named_by_its_number(tmp_path: Path, line: bytes, complaint: str) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(b'{"pmid": "1"}\n\n' + line + b"\n")
    with pytest.raises(InvalidArgument, match=f"line 3: .*{complaint}") as caught:
        read_corpus(path)
    assert len(str(caught.value).splitlines()) == 1


def test_an_abstract_is_read_with_its_labels(articles: tuple[Article, ...]) -> None:
    assert articles[0].text.startswith("METHODS: We followed 412 adults")
    assert "\nRESULTS: Aspirin did not" in articles[0].text
    assert Article(pmid="1").text == ""


ENTRY = {
    "QUESTION": "Does it help?",
    "CONTEXTS": ["We looked.", "It did."],
    "LABELS": ["METHODS", "RESULTS"],
    "MESHES": ["Humans"],
    "LONG_ANSWER": "It helps.",
    "final_decision": "maybe",
}


def test_a_pubmedqa_entry_becomes_an_article_and_a_claim(tmp_path: Path) -> None:
    path = tmp_path / "ori_pqal.json"
    path.write_text(json.dumps({"21645374": {**ENTRY, "YEAR": "2011"}, "7": ENTRY}))
    corpus, claims = read_pubmedqa(path)
    assert corpus[0].text == "METHODS: We looked.\nRESULTS: It did."
    assert [article.year for article in corpus] == [2011, None]
    assert claims[1] == LabelledClaim(
        id="7", text="Does it help?", verdict=Verdict.NOT_ENOUGH_INFO, pmids=("7",)
    )


@pytest.mark.parametrize(
    "content",
    [[], {"x": ENTRY}, {"7": {**ENTRY, "LABELS": []}}, {"7": {**ENTRY, "final_decision": "?"}}],
)
def test_another_layout_than_pubmedqa_is_refused(tmp_path: Path, content: object) -> None:
    path = tmp_path / "ori_pqal.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidArgument, match="is not PubMedQA"):
        read_pubmedqa(path)


def test_pubmedqa_has_the_published_size_and_labels(
    pubmedqa: tuple[tuple[Article, ...], tuple[LabelledClaim, ...]],
) -> None:
    corpus, claims = pubmedqa
    assert len(corpus) == 1_000
    assert sum(article.year is None for article in corpus) == 58
    assert Counter(claim.verdict for claim in claims) == {
        Verdict.SUPPORTED: 552,
        Verdict.REFUTED: 338,
        Verdict.NOT_ENOUGH_INFO: 110,
    }
