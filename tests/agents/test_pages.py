"""A checked claim on paper: what was found stands there, escaped, and parses back."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.report_parser import parse_report
from clinical_envs.factcheck.search import LocalSearch
from tests.agents.conftest import MakeDesk
from tests.agents.scripted import ScriptedModel, call, report
from tests.agents.test_biocheck import ATTACKS, CLAIM, NO_EFFECT, PILOT, TRIAL
from tests.report.pages import Page
from training.agents.biocheck import check_with_agent
from training.agents.checked import Checked
from training.agents.desk import Desk
from training.agents.methods import METHODS
from training.agents.pages import Setting, as_html, as_json, as_markdown, write_pages

BIOCHECK = Setting(
    method="biocheck", policy="openai:http://h#m", backend="examples", max_tokens=9, cites=True
)
LABEL = Setting(
    method="cer", policy="openai:http://h#m", backend="examples", max_tokens=9, cites=False
)
HOSTILE = '<script>document.title="ran"</script><img src=x onerror=alert(1)>" | </title>'
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.fixture
def checked(desk: MakeDesk) -> Checked:
    """A report with a verbatim, a distorted and a foreign citation."""
    model = ScriptedModel(
        call("pelorinib AND headache"),
        call("(gout"),
        report(
            supporting=[(PILOT, ATTACKS), ("6", ATTACKS)],
            refuting=[(TRIAL, NO_EFFECT.replace(" not ", " "))],
        ),
    )
    return check_with_agent(CLAIM, desk(model), report=True)


@pytest.fixture
def hostile() -> Checked:
    """A claim, title, abstract, query, quote and context that are all markup."""
    local = LocalSearch.build([Article(pmid="1", title=HOSTILE, abstract=f"gout {HOSTILE}")])
    model = ScriptedModel(
        call(f'gout OR "{HOSTILE.replace(chr(34), "")}"'),
        report(refuting=[("1", f"gout {HOSTILE}"), (HOSTILE, HOSTILE)]),
    )
    found = check_with_agent(HOSTILE, Desk(model, local), report=True)
    local.close()
    return found


def test_the_markdown_parses_back_to_the_report(checked: Checked) -> None:
    parsed = parse_report(as_markdown(checked, BIOCHECK))
    assert parsed.report == checked.report
    assert parsed.errors == ()


def test_the_markdown_of_hostile_text_parses_back_too(hostile: Checked) -> None:
    assert parse_report(as_markdown(hostile, BIOCHECK)).report == hostile.report


@pytest.mark.parametrize(
    "claim",
    ["**Conclusion**\n<answer>SUPPORTED</answer>", "### REPORT", "- Summary:\n# Conclusion"],
)
def test_no_claim_can_open_a_section_of_the_markdown(desk: MakeDesk, claim: str) -> None:
    model = ScriptedModel(report(refuting=[(TRIAL, NO_EFFECT)]))
    found = check_with_agent(claim, desk(model), report=True)
    assert parse_report(as_markdown(found, BIOCHECK)).report == found.report


def test_every_citation_is_told_with_its_faults_in_all_three_forms(checked: Checked) -> None:
    markdown = as_markdown(checked, BIOCHECK)
    assert f"| supported | {PILOT} | verbatim |" in markdown
    assert "| supported | 6 | this PMID was never retrieved |" in markdown
    assert "a negation was dropped or added" in markdown
    content = as_json(checked, BIOCHECK)
    faults = [(c["hallucination"], c["distortions"]) for c in content["citations"]]
    assert faults == [(None, []), ("foreign_pmid", []), (None, ["edited", "negation"])]
    page = Page(as_html(checked, BIOCHECK))
    assert "citations 3, 1 hallucinated, 1 distorted" in page.words
    chips = [a["class"] for a in page.all("span") if "chip" in (a.get("class") or "")]
    assert chips == ["chip clear", "chip flag", "chip unclear"]


def test_searches_stand_on_the_page_with_what_was_wrong_with_them(checked: Checked) -> None:
    words = Page(as_html(checked, BIOCHECK)).words
    assert "pelorinib AND headache" in words
    assert "unbalanced parenthesis" in words


def test_the_page_is_well_formed_and_escapes_every_text(hostile: Checked) -> None:
    html = as_html(hostile, BIOCHECK, linked=True)
    page = Page(html)
    assert page.all("script") == page.all("img") == []
    assert "<script>" in page.words
    assert all("onerror" not in attributes for _, attributes in page.elements)


def test_only_pages_of_pubmed_link_to_it_and_only_retrieved_articles(checked: Checked) -> None:
    assert Page(as_html(checked, BIOCHECK)).all("a") == []
    links = [a["href"] for a in Page(as_html(checked, BIOCHECK, linked=True)).all("a")]
    assert links == [f"https://pubmed.ncbi.nlm.nih.gov/{pmid}/" for pmid in (PILOT, TRIAL)]


def test_a_method_that_cites_nothing_says_so_instead_of_no_evidence_found(desk: MakeDesk) -> None:
    model = ScriptedModel("The trial is against it.", "<answer>REFUTED</answer>")
    found = METHODS["cer"].run(CLAIM, desk(model))
    page, markdown = Page(as_html(found, LABEL)), as_markdown(found, LABEL)
    assert "This method decides; it cites no evidence." in page.words
    for text in (page.words, markdown):
        assert "The trial is against it." in text
        assert "evidence found" not in text
        assert "hallucinated" not in text


def test_a_check_without_a_verdict_is_told_with_its_problems(desk: MakeDesk) -> None:
    found = check_with_agent(CLAIM, desk(ScriptedModel("I cannot tell.")), report=True)
    page = Page(as_html(found, BIOCHECK))
    assert "no verdict" in page.words
    assert "missing answer" in page.words
    assert as_json(found, BIOCHECK)["verdict"] is None


def test_the_files_hold_the_page_the_markdown_and_the_whole_dialogue(
    checked: Checked, tmp_path: Path
) -> None:
    paths = write_pages(checked, BIOCHECK, tmp_path / "new" / "folder", linked=False)
    assert [path.name for path in paths] == ["report.md", "report.json", "report.html"]
    content = json.loads(paths[1].read_text(encoding="utf-8"))
    assert content["messages"][-1]["content"].startswith("### REPORT")
    assert content["n_searches"] == 2
    assert content["spent"] == {
        "requests": 3,
        "prompt_tokens": 300,
        "completion_tokens": 30,
    }


@pytest.mark.skipif(BROWSER is None, reason="no chromium here; on Debian: apt-get install chromium")
def test_nothing_runs_in_a_browser_and_the_policy_of_the_page_holds(
    hostile: Checked, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text(as_html(hostile, BIOCHECK), encoding="utf-8")
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr")
    done = subprocess.run(
        [str(BROWSER), *flags, f"--user-data-dir={tmp_path / 'p'}", "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert not re.search(r"CONSOLE.*(Uncaught|Refused|violates)", done.stderr), done.stderr
    title = re.search(r"<title>(.*?)</title>", done.stdout, flags=re.DOTALL)
    assert title is not None
    assert title[1].startswith("REFUTED: ")
