"""A checked claim as Markdown, JSON and HTML: what was concluded, and what of it holds up."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from clinical_envs import __version__
from clinical_envs.factcheck.quote_audit import Distortion
from clinical_envs.factcheck.report import SUMMARY_BULLETS, render_report
from clinical_envs.factcheck.rewards import MIN_PRECISION, Hallucination
from training.agents.checked import Checked, Citation

FAULTS = {
    Hallucination.FOREIGN_PMID.value: "this PMID was never retrieved",
    Hallucination.UNFAITHFUL_QUOTE.value: "the abstract does not hold this quote",
    Distortion.EDITED.value: "not one run of the abstract",
    Distortion.NEGATION.value: "a negation was dropped or added",
    Distortion.NUMBER.value: "a number was changed",
    Distortion.GLUED.value: "sentences were joined over a gap",
}
NO_VERDICT = "no verdict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How claims are checked.

    backend: `ncbi`, or the corpus. max_tokens: of one reply. cites: whether the method's reports
    hold evidence.
    """

    method: str
    policy: str
    backend: str
    max_tokens: int
    cites: bool


def as_json(checked: Checked, setting: Setting) -> dict[str, Any]:
    """Everything about a check but the articles and the dialogue, ready for JSON."""
    report = checked.report
    return {
        "claim": checked.claim,
        "setting": asdict(setting),
        "verdict": report.verdict,
        "problems": list(checked.problems),
        "citations": [_citation(citation) for citation in checked.citations],
        "summary": asdict(report.summary),
        "n_searches": checked.n_searches,
        "searches": [asdict(search) for search in checked.searches],
        "spent": asdict(checked.spent),
    }


def as_markdown(checked: Checked, setting: Setting) -> str:
    """The checks of every citation, then the report in the form that agents write it in.

    Parsing the text gives the report back.
    """
    report = checked.report
    lines = [f"> {_line(checked.claim)}", "", f"**{report.verdict or NO_VERDICT}**", ""]
    lines += [f"- {name}: {value}" for name, value in facts(checked, setting).items()]
    if setting.cites:
        lines += ["", "| side | PMID | what the source says of the citation |", "|---|---|---|"]
        lines += [
            f"| {c.side.lower()} | {_cell(c.evidence.pmid)} | {'; '.join(told(c)) or 'verbatim'} |"
            for c in checked.citations
        ]
        lines += ["", render_report(report)]
    else:
        lines += ["", _line(report.summary.justification), ""]
    return "\n".join(lines)


def as_html(checked: Checked, setting: Setting, *, linked: bool = False) -> str:
    """One self-contained page, every text escaped; `linked` links PMIDs to PubMed."""
    page: str = _page().render(
        checked=checked,
        setting=setting,
        linked=linked,
        facts=facts(checked, setting),
        told=told,
        bullets=SUMMARY_BULLETS,
        verdict=checked.report.verdict or NO_VERDICT,
        min_precision=MIN_PRECISION,
        version=__version__,
        style=Markup(files("oracles.report").joinpath("page.css").read_text("utf-8")),  # our own
    )
    return page


def write_pages(checked: Checked, setting: Setting, folder: Path, *, linked: bool) -> list[Path]:
    """Write `report.md`, `report.json` (with the dialogue) and `report.html`; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    content = as_json(checked, setting) | {"messages": checked.messages}
    texts = {
        "report.md": as_markdown(checked, setting),
        "report.json": json.dumps(content, indent=1, ensure_ascii=False) + "\n",
        "report.html": as_html(checked, setting, linked=linked),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def facts(checked: Checked, setting: Setting) -> dict[str, str]:
    """What a reader must know beside the report, by heading."""
    citations, spent = checked.citations, checked.spent
    found = {
        "method": f"{setting.method}, {setting.policy}, literature: {setting.backend}",
        "searches": f"{checked.n_searches}, {len(checked.articles)} articles read",
        "requests": f"{spent.requests} ({tokens(spent.prompt_tokens, spent.completion_tokens)})",
    }
    if setting.cites:
        hallucinated = sum(c.hallucination is not None for c in citations)
        distorted = sum(c.distorted for c in citations)
        found["citations"] = f"{len(citations)}, {hallucinated} hallucinated, {distorted} distorted"
    if checked.problems:
        found["problems"] = ", ".join(checked.problems).replace("_", " ")
    return found


def told(citation: Citation) -> list[str]:
    """The faults of a citation in words."""
    return [FAULTS[fault] for fault in citation.faults]


def tokens(prompt: int | None, completion: int | None) -> str:
    """Token counts in words.

    >>> tokens(1200, 34), tokens(None, 34)
    ('1,200 tokens read, 34 written', 'tokens not counted by the endpoint')
    """
    if prompt is None or completion is None:
        return "tokens not counted by the endpoint"
    return f"{prompt:,} tokens read, {completion:,} written"


def _citation(citation: Citation) -> dict[str, Any]:
    audit, article = citation.audit, citation.article
    return {
        "side": citation.side,
        **asdict(citation.evidence),
        "title": None if article is None else article.title,
        "journal": None if article is None else article.journal,
        "year": None if article is None else article.year,
        "hallucination": citation.hallucination,
        "distortions": [] if audit is None else list(audit.distortions),
        "precision": None if audit is None else round(audit.precision, 4),
    }


@cache
def _page() -> Any:
    environment = Environment(
        loader=PackageLoader("training", "agents"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("report.html.jinja")


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")
