"""The invented literature: what it may depend on, and that it says what it should."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.designs import DESIGNS
from clinical_envs.factcheck.examples import EXAMPLE_ARTICLES, EXAMPLE_CLAIMS
from clinical_envs.factcheck.library import (
    Miss,
    Missed,
    canonical_query,
    retrieve,
    retrieved,
)
from clinical_envs.factcheck.quote_audit import Distortion, audit_quote
from clinical_envs.factcheck.reporting import altered
from clinical_envs.factcheck.rewards import MIN_PRECISION
from clinical_envs.factcheck.search import LocalSearch, SearchResult
from clinical_envs.factcheck.studies import (
    DISSENTING,
    MAX_STUDY_CHARS,
    STUDIES,
    alphabet,
    finding_sentence,
    finds,
    listings,
    pmid,
    study,
    study_text,
)
from clinical_envs.factcheck.topics import LONGEST_CLAIM, VERBS, other_topics, topic

identities = st.integers(0, 10**6).map(lambda index: f"ClinicalFactCheck-v0@1.0.0/train/3/{index}")
families, bodies = st.sampled_from(list(VERBS)), st.sampled_from(list(DESIGNS))
indices = st.integers(0, STUDIES - 1)


def sections(article: Article) -> dict[str, str]:
    assert not isinstance(article.abstract, str)
    return {part.label: part.text for part in article.abstract}


@given(identities, families, bodies, indices)
def test_the_lean_of_a_body_changes_results_and_conclusion_and_nothing_else(
    identity: str, family: str, body: str, index: int
) -> None:
    one, other = (study(identity, family, body, index, lean) for lean in (True, False))
    assert one.model_copy(update={"abstract": ""}) == other.model_copy(update={"abstract": ""})
    differs = {label for label, text in sections(one).items() if sections(other)[label] != text}
    assert differs == {"RESULTS", "CONCLUSION"}


@given(identities, families)
def test_what_a_search_can_match_is_the_study_without_what_it_found(
    identity: str, family: str
) -> None:
    entries = listings(identity, family)
    assert len(entries) == 64
    for body in DESIGNS:
        for index in range(STUDIES):
            entry, owner = entries[pmid(identity, body, index)]
            full = study(identity, family, body, index, True)
            assert owner == body
            assert entry.model_copy(update={"abstract": full.abstract}) == full
            assert sections(entry).keys() == {"BACKGROUND", "METHODS"}
            assert sections(entry).items() <= sections(full).items()
    assert sum(owner is None for _, owner in entries.values()) == 24


@given(identities, families, bodies, indices, st.booleans())
def test_a_study_fits_its_bounds_and_states_its_finding_first(
    identity: str, family: str, body: str, index: int, lean: bool
) -> None:
    article = study(identity, family, body, index, lean)
    sentence = finding_sentence(identity, family, body, index, lean)
    shown = study_text(article)
    assert len(shown) <= MAX_STUDY_CHARS
    assert all(char.isascii() or char in alphabet() for char in shown)
    assert sections(article)["RESULTS"].startswith(f"{sentence} ")
    assert (" not " in sentence) == (not finds(index, lean))
    assert "{" not in shown
    assert int(article.pmid) >= 900_000_000
    assert len(topic(identity, family).claim) <= len(LONGEST_CLAIM)


@given(identities, families, st.booleans())
def test_four_studies_say_what_the_body_says_and_the_small_one_dissents(
    identity: str, family: str, lean: bool
) -> None:
    for index in range(STUDIES):
        assert finds(index, lean) == (lean if index != DISSENTING else not lean)
    text = study(identity, family, "rct", DISSENTING, lean)
    assert text.title.endswith("small single-centre report")


@given(identities, families, st.sampled_from(["meta_analysis", "rct", "cohort"]), indices)
def test_ratio_interval_and_p_value_agree(
    identity: str, family: str, body: str, index: int
) -> None:
    for lean in (True, False):
        sentence = finding_sentence(identity, family, body, index, lean)
        numbers = re.search(r"R ([\d.]+), 95% CI ([\d.]+)-([\d.]+); P ([<=]) ([\d.]+)", sentence)
        assert numbers is not None
        ratio, low, high, p = (float(numbers[i]) for i in (1, 2, 3, 5))
        assert low < ratio < high
        assert (low < 1.0 < high) == (not finds(index, lean))
        assert (p < 0.05) == finds(index, lean)
        if finds(index, lean):
            assert (ratio < 1.0) == (family == "benefit")
        if numbers[4] == "=":
            s = math.log(high / low) / 3.92
            assert math.erfc(abs(math.log(ratio)) / s / math.sqrt(2)) == pytest.approx(p, abs=0.12)


@given(identities, families, bodies, indices, st.booleans())
def test_an_altered_quote_passes_the_published_rule_and_not_the_audit(
    identity: str, family: str, body: str, index: int, lean: bool
) -> None:
    source = study(identity, family, body, index, lean).text
    sentence = finding_sentence(identity, family, body, index, lean)
    assert not audit_quote(sentence, source).quote_distorted
    audit = audit_quote(altered(sentence), source)
    assert audit.precision >= MIN_PRECISION
    expected = Distortion.NUMBER if finds(index, lean) else Distortion.NEGATION
    assert {Distortion.EDITED, expected} <= set(audit.distortions)


@given(identities, families, bodies)
def test_the_canonical_query_retrieves_its_body(identity: str, family: str, body: str) -> None:
    assert retrieve(identity, family, canonical_query(identity, family, body)) == body


@given(identities, families)
def test_neighbouring_claims_differ_and_are_off_the_topic(identity: str, family: str) -> None:
    ours, others = topic(identity, family), other_topics(identity, family)
    assert len({ours, *others}) == 4
    stranger = others[2]
    found = retrieve(identity, family, f'{stranger.drug.name} AND "{stranger.outcome}"')
    assert isinstance(found, Missed)
    assert found.miss is Miss.OFF_TOPIC
    assert stranger.drug.name in found.detail["best"].lower()


@pytest.mark.parametrize(
    ("query", "miss"),
    [
        ("", Miss.BAD_QUERY),
        ("AND", Miss.BAD_QUERY),
        ("(asthma AND", Miss.BAD_QUERY),
        ("qwertz", Miss.NO_HITS),
        ("lowered", Miss.NO_HITS),
        ("confidence interval", Miss.NO_HITS),
        (" OR ".join(["qwertz"] * 1_000), Miss.BAD_QUERY),
    ],
)
def test_a_search_that_retrieves_nothing_says_why(query: str, miss: Miss) -> None:
    found = retrieve("a case", "benefit", query)
    assert isinstance(found, Missed)
    assert found.miss is miss


@given(identities, families, st.text(max_size=60))
def test_any_text_is_a_body_or_a_named_miss(identity: str, family: str, query: str) -> None:
    found = retrieve(identity, family, query)
    assert found in DESIGNS if isinstance(found, str) else found.miss in Miss


def test_greek_letters_and_mesh_terms_are_searched() -> None:
    identity = next(
        name
        for name in map(str, range(1_000))
        if topic(name, "harm").drug.kind == "an antibody against TNF-α"
    )
    assert retrieve(identity, "harm", "TNF-alpha AND Rats[mesh]") == "animal"


@given(identities, families, st.dictionaries(bodies, st.booleans()))
def test_what_is_retrieved_is_five_studies_a_body(
    identity: str, family: str, seen: dict[str, bool]
) -> None:
    found = retrieved(identity, family, seen)
    assert len(found) == STUDIES * len(seen)
    assert {body for body, _ in found.values()} == set(seen)


def test_the_examples_are_found_by_the_words_of_their_claims() -> None:
    known = {article.pmid for article in EXAMPLE_ARTICLES}
    index = LocalSearch.build(EXAMPLE_ARTICLES)
    for claim in EXAMPLE_CLAIMS:
        result = index.search(claim.text, match="any", limit=len(claim.pmids))
        assert isinstance(result, SearchResult)
        assert set(result.pmids) == set(claim.pmids) <= known
    assert len({claim.verdict for claim in EXAMPLE_CLAIMS}) == 3
    index.close()
