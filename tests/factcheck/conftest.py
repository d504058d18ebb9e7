from __future__ import annotations

import os
from pathlib import Path

import pytest

from clinical_envs.factcheck.corpus import Article, LabelledClaim, Section, read_pubmedqa


@pytest.fixture(scope="session")
def pubmedqa() -> tuple[tuple[Article, ...], tuple[LabelledClaim, ...]]:
    default = Path(__file__).parents[2] / "../shared/data"
    path = Path(os.environ.get("CLINICAL_ENVS_DATA", default)) / "pubmedqa" / "ori_pqal.json"
    if not path.is_file():
        pytest.skip("PubMedQA is absent: set CLINICAL_ENVS_DATA to a folder with pubmedqa in it")
    return read_pubmedqa(path)


@pytest.fixture(scope="session")
def articles() -> tuple[Article, ...]:
    """A corpus small enough to be read."""
    return (
        Article(
            pmid="101",
            title="Aspirin after stroke",
            abstract=(
                Section(label="METHODS", text="We followed 412 adults with IL-6 above 2.5 pg/mL."),
                Section(
                    label="RESULTS",
                    text="Aspirin did not reduce mortality (HR 0.98, 95% CI 0.91-1.06). "
                    "Bleeding was more frequent with aspirin than with placebo.",
                ),
            ),
            mesh=("Aspirin", "Stroke"),
            year=2011,
        ),
        Article(
            pmid="102",
            title="TNF-α in children with covid-19",
            abstract="TNF-α and CO₂ rose in 30 of 60 children. Vitamin D deficiency was common.",
            mesh=("Child", "COVID-19"),
            year=2021,
        ),
        Article(
            pmid="103",
            title="Infants, asthma and vitamin D",
            abstract="Vitamin D supplements prevented wheeze in infants with asthma.",
            mesh=("Asthma", "Infant", "Vitamin D"),
            year=2015,
        ),
        Article(pmid="104", title="A letter about asthma in adults", year=1987),
    )
