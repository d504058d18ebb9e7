"""Seven claims and their studies, written by hand for the documentation.

Everything here is invented, drugs and results alike; PMIDs have nine digits, which no real one
has. The set shows what makes claims hard: a small trial against a large one, a surrogate against
an outcome, one dose or subgroup against the rest, association against cause, and no evidence.
"""

from __future__ import annotations

from clinical_envs.factcheck.corpus import Article, LabelledClaim, Section
from clinical_envs.factcheck.verdict import Verdict


def _article(pmid: str, year: int, title: str, methods: str, results: str) -> Article:
    return Article(
        pmid=pmid,
        title=title,
        abstract=(Section(label="METHODS", text=methods), Section(label="RESULTS", text=results)),
        year=year,
    )


EXAMPLE_ARTICLES = (
    _article(
        "999000101",
        2009,
        "Pelorinib in cluster headache: a pilot study",
        "Open pilot study of 18 adults over four weeks.",
        "Attacks fell from 9.1 to 4.2 a week. There was no control group.",
    ),
    _article(
        "999000102",
        2016,
        "Pelorinib in cluster headache: a randomised trial",
        "We randomised 604 adults to pelorinib or placebo for 12 weeks.",
        "Pelorinib did not reduce weekly attacks (difference -0.1, 95% CI -0.6 to 0.4).",
    ),
    _article(
        "999000201",
        2012,
        "Osvatalin and bone density after menopause",
        "We measured bone density in 240 women before and after one year of osvatalin.",
        "Density at the hip rose by 3.1% (P < 0.001). Fractures were not counted.",
    ),
    _article(
        "999000202",
        2019,
        "Osvatalin and hip fracture: five-year outcome",
        "We randomised 5,120 women after menopause to osvatalin or placebo.",
        "Hip fracture was as frequent with osvatalin as with placebo (HR 1.02, 95% CI 0.88-1.18).",
    ),
    _article(
        "999000301",
        2014,
        "Fentoprazine and falls in nursing homes",
        "We followed 2,310 residents over 75 years for two years.",
        "Users of fentoprazine fell more often than non-users (rate ratio 1.62, 95% CI 1.41-1.86).",
    ),
    _article(
        "999000302",
        2018,
        "Stopping fentoprazine to prevent falls: a cluster-randomised trial",
        "Forty homes were randomised to a review that stops fentoprazine, or to usual care.",
        "Falls fell by a third where fentoprazine was stopped (rate ratio 0.66, 95% CI 0.55-0.79).",
    ),
    _article(
        "999000401",
        2011,
        "Coffee-leaf extract and gallstones: a cross-sectional survey",
        "A survey of 12,400 adults with ultrasound of the gallbladder.",
        "Those who took the extract had fewer gallstones (OR 0.71, 95% CI 0.58-0.87), and were "
        "younger and leaner.",
    ),
    _article(
        "999000402",
        2020,
        "Genetic evidence on coffee-leaf polyphenols and gallstones",
        "Mendelian randomisation in 380,000 people.",
        "Higher polyphenol levels by genotype did not lower the odds of gallstones (OR 1.01, "
        "95% CI 0.96-1.06).",
    ),
    _article(
        "999000501",
        2017,
        "Trebovastin at 10 mg and 40 mg after stroke",
        "We randomised 1,990 adults to two doses of trebovastin or placebo.",
        "Recurrent stroke fell with 40 mg (HR 0.74, 95% CI 0.60-0.91) but not with 10 mg "
        "(HR 0.97, 95% CI 0.80-1.17).",
    ),
    _article(
        "999000502",
        2021,
        "High-dose trebovastin after stroke: a confirmatory trial",
        "We randomised 3,450 adults to trebovastin 40 mg or placebo.",
        "Recurrent stroke fell from 8.9% to 6.8% (HR 0.76, 95% CI 0.65-0.89).",
    ),
    _article(
        "999000601",
        2015,
        "Anti-IL-1β treatment with zendakimab in gout",
        "Two identical trials with 410 and 395 adults.",
        "Zendakimab shortened attacks in the first trial (P = 0.004) and not in the second "
        "(P = 0.41).",
    ),
    _article(
        "999000602",
        2022,
        "Zendakimab in gout: an individual patient meta-analysis",
        "Four trials, 1,702 adults.",
        "Effects differed between trials (I² = 86%), and no subgroup explained why.",
    ),
    _article(
        "999000701",
        2013,
        "Lumiperidol in rats after traumatic brain injury",
        "Forty rats were given lumiperidol or vehicle after injury.",
        "Lumiperidol halved lesion volume (P = 0.002).",
    ),
)

EXAMPLE_CLAIMS = (
    LabelledClaim(
        id="pelorinib",
        text="Pelorinib reduces attacks of cluster headache.",
        verdict=Verdict.REFUTED,
        pmids=("999000101", "999000102"),
    ),
    LabelledClaim(
        id="osvatalin",
        text="Osvatalin prevents hip fracture after menopause.",
        verdict=Verdict.REFUTED,
        pmids=("999000201", "999000202"),
    ),
    LabelledClaim(
        id="fentoprazine",
        text="Fentoprazine raises the risk of falls in nursing homes.",
        verdict=Verdict.SUPPORTED,
        pmids=("999000301", "999000302"),
    ),
    LabelledClaim(
        id="coffee_leaf",
        text="Coffee-leaf extract prevents gallstones.",
        verdict=Verdict.REFUTED,
        pmids=("999000401", "999000402"),
    ),
    LabelledClaim(
        id="trebovastin",
        text="Trebovastin 40 mg prevents recurrent stroke.",
        verdict=Verdict.SUPPORTED,
        pmids=("999000501", "999000502"),
    ),
    LabelledClaim(
        id="zendakimab",
        text="Zendakimab shortens attacks of gout.",
        verdict=Verdict.NOT_ENOUGH_INFO,
        pmids=("999000601", "999000602"),
    ),
    LabelledClaim(
        id="lumiperidol",
        text="Lumiperidol limits brain damage after head injury in people.",
        verdict=Verdict.NOT_ENOUGH_INFO,
        pmids=("999000701",),
    ),
)
