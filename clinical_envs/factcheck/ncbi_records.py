"""EFetch answers: PubMed XML bytes -> articles by PMID, and anything else a fault.

The DTD that NCBI names is never read and nothing is loaded from anywhere: a document that
declares entities, or uses one that is not declared, is refused.
"""

from __future__ import annotations

import re
from typing import NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from clinical_envs.factcheck.corpus import Article, Section
from clinical_envs.factcheck.ncbi_error import Fault

RETRACTED = "[Retracted] "
"""What the title of a retracted article begins with; PubMed's own titles often keep silent."""

_NO_SUCH_ID = re.compile(rb"ID.list.is.empty", re.IGNORECASE)
_YEAR = re.compile(r"[1-9][0-9]{3}")
_PMID = re.compile(r"[1-9][0-9]{0,8}")
_UNLABELLED = "UNLABELLED"  # NLM's own word


def read_articles(body: bytes) -> dict[str, Article]:
    """The articles in an EFetch answer (``db=pubmed, retmode=xml``); unknown PMIDs are absent.

    Books are read like articles. An abstract in labelled parts keeps its labels; inline markup is
    dropped and its text kept.

    Raises:
        Fault: anything but a whole set of records.
    """
    if _NO_SUCH_ID.search(body[:2000]):
        return {}
    root = parse_xml(body)
    if root.tag != "PubmedArticleSet":
        raise Fault(_text(root.find("ERROR")) or f"<{root.tag[:40]}> instead of PubMed records")
    found = {}
    for record in root:
        article = _article(record)
        if article is not None:
            found[article.pmid] = article
    return found


def parse_xml(body: bytes) -> Element:
    """The root of a document without entity declarations.

    Raises:
        Fault: not well-formed, or with entities of its own.
    """
    builder = TreeBuilder()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = _refuse_entities
    parser.SkippedEntityHandler = _refuse_entities
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        raise Fault(f"no whole XML: {expat.ErrorString(error.code)}") from None
    return builder.close()


def _refuse_entities(*_declaration: object) -> NoReturn:
    raise Fault("XML with entities of its own")


def _article(record: Element) -> Article | None:
    """One record, or None where it has no PMID."""
    citation = record.find("MedlineCitation")
    if citation is not None:
        content, journal = citation.find("Article"), _text(citation.find("Article/Journal/Title"))
    else:
        citation = content = record.find("BookDocument")
        journal = _text(record.find("BookDocument/Book/BookTitle"))
    pmid = "" if citation is None else _text(citation.find("PMID"))
    if citation is None or content is None or not _PMID.fullmatch(pmid):
        return None
    title = _title(content)
    if any(_text(kind) == "Retracted Publication" for kind in content.iter("PublicationType")):
        title = RETRACTED + title
    return Article(
        pmid=pmid,
        title=title,
        abstract=_abstract(content),
        mesh=tuple(filter(None, map(_text, citation.iter("DescriptorName")))),
        year=_year(content),
        journal=journal,
    )


def _title(content: Element) -> str:
    for path in ("ArticleTitle", "VernacularTitle", "Book/BookTitle"):
        if title := _text(content.find(path)):
            return title
    return ""


def _abstract(content: Element) -> str | tuple[Section, ...]:
    parts = [
        (part.get("Label", "").strip() or part.get("NlmCategory", "").strip(), text)
        for part in content.findall("Abstract/AbstractText")
        if (text := _text(part))
    ]
    if not any(label for label, _ in parts):
        return " ".join(text for _, text in parts)
    return tuple(Section(label=label or _UNLABELLED, text=text) for label, text in parts)


def _year(content: Element) -> int | None:
    """Year of publication; a season or a range of dates counts with its first year."""
    for path in (
        "Journal/JournalIssue/PubDate/Year",
        "Journal/JournalIssue/PubDate/MedlineDate",
        "ArticleDate/Year",
        "ContributionDate/Year",
        "Book/PubDate/Year",
    ):
        if year := _YEAR.search(_text(content.find(path))):
            return int(year[0])
    return None


def _text(element: Element | None) -> str:
    return "" if element is None else " ".join("".join(element.itertext()).split())
