"""Claims and labels from a user's file, from SciFact and from HealthFC as published."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clinical_envs.errors import InvalidArgument
from clinical_envs.factcheck.claims import Claim, read_articles, read_claims, read_label
from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.search import LocalSearch, SearchResult
from clinical_envs.factcheck.verdict import Verdict

SUPPORTED, REFUTED, UNKNOWN = Verdict

_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
_claims = st.builds(
    Claim,
    id=_text,
    text=_text,
    label=st.none() | st.sampled_from(Verdict),
    evidence=st.lists(st.integers(1, 999_999_999).map(str), max_size=2).map(tuple),
)


def jsonl(path: Path, *lines: Any) -> Path:
    path.write_text("\n".join(json.dumps(line) for line in lines), "utf-8")
    return path


@given(st.lists(_claims, max_size=4, unique_by=lambda claim: claim.id))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_claims_written_as_json_lines_read_back(tmp_path: Path, claims: list[Claim]) -> None:
    lines = [
        {"id": c.id, "claim": c.text, "label": c.label, "evidence": c.evidence} for c in claims
    ]
    assert read_claims(jsonl(tmp_path / "claims.jsonl", *lines)) == tuple(claims)


def test_label_and_evidence_may_be_left_out(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "claims.jsonl", {"id": "c1", "claim": "Zinc helps."})
    assert read_claims(path) == (Claim(id="c1", text="Zinc helps."),)


@pytest.mark.parametrize(
    ("label", "verdict"),
    [
        ("SUPPORTED", SUPPORTED),
        ("support", SUPPORTED),
        ("REFUTED", REFUTED),
        ("CONTRADICT", REFUTED),
        ("REFUTE", REFUTED),
        ("not enough info", UNKNOWN),
        ("NOT ENOUGH INFORMATION", UNKNOWN),
        ("NEI", UNKNOWN),
    ],
)
def test_labels_of_the_published_sets_become_the_projects_verdicts(
    label: str, verdict: Verdict
) -> None:
    assert read_label(label) is verdict


# In the shape of SciFact's claims; the claims are invented.
SCIFACT = (
    {"id": 2, "claim": "A lowers B.", "evidence": {}, "cited_doc_ids": [31715818]},
    {
        "id": 3,
        "claim": "C raises D.",
        "evidence": {
            "11328820": [{"sentences": [7, 9], "label": "CONTRADICT"}],
            "30041340": [
                {"sentences": [0, 1], "label": "CONTRADICT"},
                {"sentences": [11], "label": "CONTRADICT"},
            ],
        },
        "cited_doc_ids": [11328820, 30041340, 14853989],
    },
    {
        "id": 5,
        "claim": "E is F.",
        "evidence": {"9": [{"sentences": [4], "label": "SUPPORT"}]},
        "cited_doc_ids": [9],
    },
    {"id": 8, "claim": "The label of the test split is hidden."},
)


def test_scifact_claims_take_their_label_from_their_evidence(tmp_path: Path) -> None:
    assert read_claims(jsonl(tmp_path / "claims_dev.jsonl", *SCIFACT)) == (
        Claim(id="2", text="A lowers B.", label=UNKNOWN),
        Claim(id="3", text="C raises D.", label=REFUTED, evidence=("11328820", "30041340")),
        Claim(id="5", text="E is F.", label=SUPPORTED, evidence=("9",)),
        Claim(id="8", text="The label of the test split is hidden."),
    )


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ({"id": "1", "claim": "x"}, "id '1' is already on line 1"),
        ({"id": "2", "claim": "x", "label": "SUPORTED"}, r"unknown label.*mean 'SUPPORTED'"),
        ({"id": "2", "claim": "x", "label": "maybe"}, "unknown label 'maybe'"),
        ({"id": "2", "claim": "x", "label": 0}, "unknown label '0'"),
        ({"id": "2", "claim": ""}, "claim"),
        ({"id": "", "claim": "x"}, "id"),
        ({"id": True, "claim": "x"}, "id"),
        ({"claim": "x"}, "id: Field required"),
        ({"id": "2", "text": "x"}, "claim: Field required"),
        ({"id": "2", "claim": "x", "labell": "REFUTED"}, "labell"),
        ({"id": "2", "claim": "x", "evidence": ["PMC1"]}, "evidence"),
        (
            {"id": "2", "claim": "x", "evidence": {"9": [{"sentences": [1], "label": "MAYBE"}]}},
            "unknown label 'MAYBE'",
        ),
        (
            {
                "id": "2",
                "claim": "x",
                "evidence": {
                    "9": [{"sentences": [1], "label": "SUPPORT"}],
                    "8": [{"sentences": [1], "label": "CONTRADICT"}],
                },
            },
            "more than one label",
        ),
        ({"id": "2", "claim": "x", "label": "REFUTED", "evidence": {}}, "more than one label"),
        ([], "the line"),
    ],
)
def test_a_bad_claim_is_named_by_its_line(tmp_path: Path, line: Any, complaint: str) -> None:
    path = tmp_path / "claims.jsonl"
    path.write_text(f'{{"id": "1", "claim": "x"}}\n\n{json.dumps(line)}\n')
    with pytest.raises(InvalidArgument, match=f"claims.jsonl line 3: .*{complaint}") as caught:
        read_claims(path)
    assert len(str(caught.value).splitlines()) == 1


# The columns of HealthFC's two published files; the rows are invented.
FIRST = ["en_claim", "en_explanation", "en_top_sentences", "de_claim", "label", "url"]
ANNOTATED = ["en_claim", "en_text", "en_sentences", "en_ids", "verdict", "label"]


def table(path: Path, columns: list[str], *rows: dict[str, str]) -> Path:
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, columns, restval="-")
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize("columns", [FIRST, ANNOTATED])
def test_healthfc_is_read_as_published(tmp_path: Path, columns: list[str]) -> None:
    path = table(
        tmp_path / "healthfc.csv",
        columns,
        {"en_claim": "Do masks, worn by many,\nhelp?", "label": "0"},
        {"en_claim": 'Does the "cure" help?', "label": "1"},
        {"en_claim": "Does sugar help?", "label": "2"},
    )
    assert read_claims(path) == (
        Claim(id="1", text="Do masks, worn by many, help?", label=SUPPORTED),
        Claim(id="2", text='Does the "cure" help?', label=UNKNOWN),
        Claim(id="3", text="Does sugar help?", label=REFUTED),
    )


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"en_claim": "x", "label": "3"}, "line 4: unknown label '3'; known: 0 supported"),
        ({"en_claim": "x", "label": ""}, "line 4: unknown label ''"),
        ({"en_claim": " ", "label": "0"}, "line 4: the claim is empty"),
    ],
)
def test_a_bad_row_is_named_by_its_line(
    tmp_path: Path, row: dict[str, str], complaint: str
) -> None:
    good = {"en_claim": "two\nlines", "label": "0"}
    with pytest.raises(InvalidArgument, match=complaint):
        read_claims(table(tmp_path / "healthfc.csv", FIRST, good, row))


def test_another_table_another_encoding_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no column en_claim, label; expected HealthFC"):
        read_claims(table(tmp_path / "other.csv", ["claim", "verdict"]))
    latin = tmp_path / "latin.csv"
    latin.write_bytes("en_claim,label\nKnäckebrot?,0\n".encode("latin-1"))
    with pytest.raises(InvalidArgument, match="not UTF-8"):
        read_claims(latin)
    for read in (read_claims, read_articles):
        with pytest.raises(InvalidArgument, match="cannot be read"):
            read(tmp_path / "absent.jsonl")


def test_a_scifact_corpus_becomes_articles_that_can_be_searched(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "corpus.jsonl",
        {"doc_id": 4983, "title": "Zinc", "abstract": ["We gave zinc."], "structured": False},
        {
            "doc_id": 198309074,
            "title": "Colds",
            "abstract": ["AIMS Zinc and colds.", "RESULTS None."],
            "structured": True,
        },
    )
    articles = read_articles(path)
    assert articles == (
        Article(pmid="4983", title="Zinc", abstract="We gave zinc."),
        Article(pmid="198309074", title="Colds", abstract="AIMS Zinc and colds. RESULTS None."),
    )
    local = LocalSearch.build(articles)
    found = local.search("zinc AND colds")
    assert isinstance(found, SearchResult)
    assert found.pmids == ("198309074",)
    local.close()


def test_a_corpus_of_the_project_is_read_as_such(tmp_path: Path) -> None:
    article = Article(pmid="7", title="Zinc", year=2011, journal="Letters")
    path = tmp_path / "corpus.jsonl"
    path.write_text(f"\n{article.model_dump_json()}\n")
    assert read_articles(path) == (article,)
    path.write_text("")
    assert read_articles(path) == ()


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ({"doc_id": 1, "title": "t", "abstract": [], "structured": False}, "already on line 1"),
        ({"doc_id": 1234567890, "title": "t", "abstract": [], "structured": False}, "doc_id"),
        ({"doc_id": 2, "title": "t", "abstract": "x", "structured": False}, "abstract"),
        ({"doc_id": 2, "title": "t"}, "abstract"),
    ],
)
def test_a_bad_document_is_named_by_its_line(tmp_path: Path, line: Any, complaint: str) -> None:
    good = {"doc_id": 1, "title": "t", "abstract": ["x"], "structured": False}
    with pytest.raises(InvalidArgument, match=f"line 2: .*{complaint}"):
        read_articles(jsonl(tmp_path / "corpus.jsonl", good, line))


def test_labels_keep_the_shares_of_a_file(tmp_path: Path) -> None:
    labels = ["SUPPORT", "CONTRADICT", "NEI", "NEI"]
    lines = [{"id": n, "claim": "x", "label": label} for n, label in enumerate(labels)]
    found = Counter(claim.label for claim in read_claims(jsonl(tmp_path / "c.jsonl", *lines)))
    assert found == {SUPPORTED: 1, REFUTED: 1, UNKNOWN: 2}
