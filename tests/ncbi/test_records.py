"""PubMed XML: articles of every layout, and documents that are refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.factcheck.ncbi_error import Fault
from clinical_envs.factcheck.ncbi_records import RETRACTED, parse_xml, read_articles
from tests.ncbi.server import ARTICLES, PMIDS, records


def test_articles_are_read_with_sections_mesh_year_and_journal() -> None:
    assert read_articles(records(PMIDS)) == ARTICLES


def test_a_retracted_article_says_so_in_its_title() -> None:
    retracted = [p for p, a in ARTICLES.items() if a.title.startswith(RETRACTED)]
    assert retracted == ["105"]
    assert not read_articles(records(["102"]))["102"].title.startswith(RETRACTED)


def test_references_of_an_article_are_no_articles() -> None:
    assert set(read_articles(records(["101"]))) == {"101"}


@pytest.mark.parametrize(
    "body",
    [
        b"<?xml version='1.0'?><eFetchResult><ERROR>ID list is empty! Possibly it has no correct "
        b"IDs.</ERROR></eFetchResult>",
        b"ID+list+is+empty!+Possibly+it+has+no+correct+IDs.\n",
        records(()),
    ],
)
def test_unknown_pmids_give_no_articles_and_no_fault(body: bytes) -> None:
    assert read_articles(body) == {}


BOMB = b"""<!DOCTYPE PubmedArticleSet [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>
<PubmedArticleSet>&b;</PubmedArticleSet>"""
OUTSIDE = b"""<!DOCTYPE PubmedArticleSet [<!ENTITY x SYSTEM "file:///etc/passwd">]>
<PubmedArticleSet>&x;</PubmedArticleSet>"""
UNDECLARED = b"""<!DOCTYPE PubmedArticleSet SYSTEM "https://example.org/pubmed.dtd">
<PubmedArticleSet>&alpha;</PubmedArticleSet>"""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "no whole XML"),
        (b"<html><body>Bad gateway</body></html>", "<html> instead of PubMed records"),
        (b"<!DOCTYPE html><html><p>Bad gateway</html>", "no whole XML"),
        (b'{"error": "API rate limit exceeded"}', "no whole XML"),
        (b"<eFetchResult><ERROR>cannot get document</ERROR></eFetchResult>", "cannot get document"),
        (b"<eFetchResult/>", "<eFetchResult> instead of PubMed records"),
        (BOMB, "entities of its own"),
        (OUTSIDE, "entities of its own"),
        (UNDECLARED, "entities of its own"),
    ],
)
def test_what_is_no_set_of_records_is_a_fault(body: bytes, reason: str) -> None:
    with pytest.raises(Fault, match=reason):
        read_articles(body)


@given(st.integers(0, len(records(PMIDS)) - 1))
def test_no_beginning_of_a_set_is_a_set(length: int) -> None:
    with pytest.raises(Fault):
        read_articles(records(PMIDS)[:length])


@given(st.binary(max_size=80))
def test_any_bytes_are_a_document_or_a_fault(body: bytes) -> None:
    with suppress(Fault):
        parse_xml(body)


def test_a_record_without_a_pmid_is_left_out_and_the_others_are_kept() -> None:
    body = records(["102"]).replace(
        b"<PubmedArticleSet>",
        b"<PubmedArticleSet><PubmedArticle><MedlineCitation><Article/></MedlineCitation>"
        b"</PubmedArticle><DeleteCitation><PMID>7</PMID></DeleteCitation>",
    )
    assert set(read_articles(body)) == {"102"}
