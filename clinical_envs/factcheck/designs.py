"""Designs of studies: eight bodies of evidence from meta-analysis to expert opinion, in words."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """How the studies of one body of evidence are made and worded.

    phrase: what their titles call them. publication_type: the MeSH heading. The texts are
    templates that `studies` fills.
    """

    phrase: str
    publication_type: str
    methods: str
    finds_for: str
    finds_against: str
    aside: str = "Serum {marker} was {level} ± {spread} pg/mL at the end. "
    caveat: str = "In the subgroup {subgroup} the interval was wide."


DESIGNS = MappingProxyType(
    {
        "meta_analysis": Design(
            phrase="meta-analysis",
            publication_type="Meta-Analysis",
            methods="We pooled {trials} trials with {patients} participants ({population}).",
            finds_for="{Drug} {past} the risk of {outcome} compared with control "
            "(RR {ratio}, 95% CI {low}-{high}; {p}; I² = {percent}%).",
            finds_against="{Drug} did not {verb} the risk of {outcome} compared with control "
            "(RR {ratio}, 95% CI {low}-{high}; {p}; I² = {percent}%).",
        ),
        "rct": Design(
            phrase="randomised controlled trial",
            publication_type="Randomized Controlled Trial",
            methods="We randomised {patients} {population} to {drug} or placebo for {months} "
            "months.",
            finds_for="{Drug} {past} the risk of {outcome} compared with placebo "
            "(HR {ratio}, 95% CI {low}-{high}; {p}).",
            finds_against="{Drug} did not {verb} the risk of {outcome} compared with placebo "
            "(HR {ratio}, 95% CI {low}-{high}; {p}).",
        ),
        "guideline": Design(
            phrase="clinical practice guideline",
            publication_type="Practice Guideline",
            methods="A panel of {panel} reviewed the literature on {population} up to {year}.",
            finds_for="The panel accepts by {votes} of {panel} votes that {drug} {verb}s the risk "
            "of {outcome} in {population}.",
            finds_against="The panel does not accept, by {votes} of {panel} votes, that {drug} "
            "{verb}s the risk of {outcome} in {population}.",
            aside="",
            caveat="The statement leaves out the subgroup {subgroup}.",
        ),
        "cohort": Design(
            phrase="cohort study",
            publication_type="Cohort Studies",
            methods="We followed {patients} {population}, users and non-users of {drug}, for "
            "{months} months.",
            finds_for="Use of {drug} {past} the risk of {outcome} after adjustment for "
            "{confounders} confounders (HR {ratio}, 95% CI {low}-{high}; {p}).",
            finds_against="Use of {drug} did not {verb} the risk of {outcome} after adjustment for "
            "{confounders} confounders (HR {ratio}, 95% CI {low}-{high}; {p}).",
        ),
        "case_control": Design(
            phrase="case-control study",
            publication_type="Case-Control Studies",
            methods="We compared {patients} {population} with and without {outcome} for earlier "
            "use of {drug}.",
            finds_for="Earlier use of {drug} {past} the odds of {outcome} among matched pairs "
            "(OR {ratio}, 95% CI {low}-{high}; {p}).",
            finds_against="Earlier use of {drug} did not {verb} the odds of {outcome} among "
            "matched pairs (OR {ratio}, 95% CI {low}-{high}; {p}).",
        ),
        "case_series": Design(
            phrase="case series",
            publication_type="Case Reports",
            methods="We describe {series} consecutive {population} treated with {drug}.",
            finds_for="We saw {outcome} in {changed} of {series} patients on {drug}, where "
            "{expected} were expected from earlier years.",
            finds_against="We saw {outcome} in {expected} of {series} patients on {drug}, which "
            "does not differ from earlier years.",
            caveat="Few patients belonged to the subgroup {subgroup}.",
        ),
        "animal": Design(
            phrase="study in rats",
            publication_type="Rats",
            methods="We gave {series} rats {drug} or vehicle in a model of {outcome}.",
            finds_for="In rats {drug} {past} the severity score of the model of {outcome} "
            "compared with vehicle ({treated} ± {spread} against {untreated} ± {spread}).",
            finds_against="In rats {drug} did not {verb} the severity score of the model of "
            "{outcome} compared with vehicle ({untreated} ± {spread} in both).",
            caveat="Whether this holds in people {subgroup} is unknown.",
        ),
        "expert_opinion": Design(
            phrase="expert opinion",
            publication_type="Editorial",
            methods="We comment on {drug} from {years} years of practice with {population}.",
            finds_for="In our view {drug} {verb}s the risk of {outcome}, as {expected} of our "
            "{series} patients have taught us.",
            finds_against="In our view {drug} does not {verb} the risk of {outcome}, as {expected} "
            "of our {series} patients have taught us.",
            aside="",
            caveat="We have no experience with the subgroup {subgroup}.",
        ),
    }
)
REPORTS = (
    "main report",
    "second report",
    "long-term report",
    "independent report",
    "small single-centre report",
)
MARKERS = ("TNF-α", "IL-1β", "IFN-γ", "TGF-β")
SUBGROUPS = ("with eGFR < 45 mL/min", "over 80 years", "on ≥ 3 other drugs", "with low weight")
