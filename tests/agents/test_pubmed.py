"""The agent over PubMed, against a server that answers, and fails, as NCBI does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clinical_envs.factcheck.claims import Claim
from clinical_envs.factcheck.ncbi_error import SearchUnavailable
from clinical_envs.factcheck.verdict import Verdict
from tests.agents.scripted import ScriptedModel, call, report, told
from tests.cli.conftest import run as run_fixture
from tests.cli.conftest import run_json
from tests.endpoint.fake_server import FakeEndpoint
from tests.ncbi.conftest import Connect, cache, clock, connect, server, shared_server, unsynced
from tests.ncbi.server import EutilsServer, Failure, search_answer
from training.agents.biocheck import check_with_agent
from training.agents.claims_run import check_claims
from training.agents.desk import Desk
from training.agents.pages import Setting

__all__ = ["cache", "clock", "connect", "run_json", "server", "shared_server", "unsynced"]
run = run_fixture
pytest.importorskip("httpx", reason="pip install 'clinical-envs[agents]'")

CLAIM = "Aspirin reduces mortality after stroke."
QUOTE = "Aspirin did not reduce mortality (HR 0.98, 95% CI 0.91-1.06)."
REPORT = report(refuting=[("101", QUOTE), ("105", "Once believed.")])
OUTAGES = [Failure.ERROR_200, Failure.HTML_200, Failure.TOO_MANY, Failure.RESET]


def test_every_shape_of_record_reaches_the_agent(connect: Connect) -> None:
    model = ScriptedModel(call("aspirin AND stroke"), REPORT)
    checked = check_with_agent(CLAIM, Desk(model, connect()), report=True)
    labelled, plain, letter, book, retracted = told(model, 1)[0]["articles"]
    assert "RESULTS: Aspirin did not reduce mortality" in labelled["abstract"]
    assert plain["abstract"] == "TNF-α rose in 30 of 60 children."
    assert letter["abstract"] is None
    assert book["title"] == "Stroke, a chapter"
    assert retracted["title"].startswith("[Retracted]")
    assert [c.faults for c in checked.citations] == [(), ()]


def test_failures_that_pass_cost_no_hits(connect: Connect, server: EutilsServer) -> None:
    server.failures.extend([Failure.TOO_MANY] * 5)
    model = ScriptedModel(call("aspirin AND stroke"), REPORT)
    checked = check_with_agent(CLAIM, Desk(model, connect()), report=True)
    assert (checked.searches[0].count, len(checked.searches[0].pmids)) == (1477, 5)
    assert checked.searches[0].problem is None


@pytest.mark.parametrize("failure", OUTAGES)
def test_a_failure_that_lasts_raises_and_the_agent_never_hears_of_zero_hits(
    connect: Connect, server: EutilsServer, failure: Failure
) -> None:
    server.forever = failure
    model = ScriptedModel(call("aspirin AND stroke"), REPORT)
    with pytest.raises(SearchUnavailable):
        check_with_agent(CLAIM, Desk(model, connect()), report=True)
    assert len(model.heard) == 1


def test_a_claim_that_an_outage_hit_is_unscored(
    connect: Connect, server: EutilsServer, tmp_path: Path
) -> None:
    setting = Setting(method="biocheck", policy="m", backend="ncbi", max_tokens=9, cites=True)
    claims = [Claim(id=str(n), text=f"{CLAIM} {n}", label=Verdict.REFUTED) for n in range(2)]
    model = ScriptedModel(call("aspirin"), call("stroke"), REPORT)
    backend, checked = connect(), []

    def check(claim: str) -> Any:
        server.forever = None if checked else Failure.BAD_GATEWAY
        checked.append(claim)
        return check_with_agent(claim, Desk(model, backend), report=True)

    rows = check_claims(
        claims, setting, check, tmp_path / "claims.jsonl", outages=(SearchUnavailable,)
    )
    assert [row.unscored is None for row in rows] == [False, True]
    assert rows[1].verdict is Verdict.REFUTED


def test_records_that_ncbi_leaves_out_are_named_to_the_agent(
    connect: Connect, server: EutilsServer
) -> None:
    server.answers["esearch"] = search_answer(idlist=["101", "888", "102", "999", "105"])
    model = ScriptedModel(call("aspirin AND stroke"), report(refuting=[("888", QUOTE)]))
    checked = check_with_agent(CLAIM, Desk(model, connect()), report=True)
    found = told(model, 1)[0]
    assert [article["pmid"] for article in found["articles"]] == ["101", "102", "105"]
    assert found["without_record"] == ["888", "999"]
    assert [c.faults for c in checked.citations] == [("foreign_pmid",)]


def test_a_phrase_that_pubmed_does_not_know_is_told_with_the_hits(
    connect: Connect, server: EutilsServer
) -> None:
    missing = {"phrasesnotfound": ["zelpurinib"], "fieldsnotfound": []}
    server.answers["esearch"] = search_answer(count="117000", errorlist=missing)
    model = ScriptedModel(call("zelpurinib AND stroke"), REPORT)
    check_with_agent(CLAIM, Desk(model, connect()), report=True)
    found = told(model, 1)[0]
    assert found["count"] == 117_000
    assert "zelpurinib" in found["warnings"][0]


def test_the_command_replays_pubmed_from_its_cache(
    connect: Connect, cache: Path, run_json: Callable[..., Any], tmp_path: Path
) -> None:
    backend = connect()
    found = backend.search("aspirin AND stroke", limit=5)
    backend.fetch(found.pmids)  # type: ignore[union-attr]
    backend.close()

    def speak(body: dict[str, Any]) -> str:
        told = body["messages"][-1]["content"]
        return REPORT if "searches_left" in told else call("aspirin AND stroke")

    with FakeEndpoint(speak) as endpoint:
        content = run_json(
            *("factcheck", CLAIM, "--policy", endpoint.spec, "--backend", "ncbi"),
            *("--offline", "--cache", cache, "--out", tmp_path),
        )
    assert (content["verdict"], content["setting"]["backend"]) == ("REFUTED", "ncbi")
    assert content["citations"][0]["journal"] == "Invented Journal of Trials"
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'href="https://pubmed.ncbi.nlm.nih.gov/101/"' in html
    assert "[Retracted] Ein Titel." in html
