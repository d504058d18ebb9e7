"""`factcheck`, and `evaluate --policy METHOD:openai:...`, against a real HTTP server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clinical_envs.factcheck.examples import EXAMPLE_CLAIMS
from clinical_envs.factcheck.report_parser import parse_report
from tests.agents.scripted import call, report
from tests.agents.test_biocheck import ATTACKS, CLAIM, NO_EFFECT, PILOT, TRIAL
from tests.cli.conftest import Run, command, environment, error, run, run_json
from tests.endpoint.fake_server import FakeEndpoint
from tests.report.pages import Page

pytest.importorskip("httpx", reason="pip install 'clinical-envs[agents]'")
__all__ = ["command", "environment", "error", "run", "run_json"]

REPORT = report(
    supporting=[(PILOT, ATTACKS)], refuting=[(TRIAL, NO_EFFECT.replace(" not ", " ")), ("6", "x")]
)


def speak(body: dict[str, Any]) -> str:
    """Search once, then report; label every claim of the other methods as refuted."""
    told = body["messages"][-1]["content"]
    if "search_pubmed" in told:
        return call("pelorinib AND headache")
    return REPORT if "searches_left" in told else "<answer>REFUTED</answer>"


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint(speak) as server:
        yield server


def asked(endpoint: FakeEndpoint, *more: object) -> tuple[object, ...]:
    return ("factcheck", "--policy", endpoint.spec, "--corpus", "examples", *more)


def test_a_claim_gives_three_pages_and_says_what_of_the_report_holds_up(
    run: Run, endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    result = run(*asked(endpoint, CLAIM, "--out", tmp_path))
    assert "REFUTED" in result.stdout
    assert "citations: 3, 1 hallucinated, 1 distorted" in result.stdout
    assert "endpoint: 2 requests in this run, 0 attempts repeated" in result.stdout
    assert "search 1: pelorinib AND headache · 2 found, 2 read" in result.stderr
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert parse_report(markdown).report == parse_report(REPORT).report
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["n_searches"] == 1
    assert CLAIM in Page((tmp_path / "report.html").read_text(encoding="utf-8")).words


def test_every_claim_and_method_has_a_folder_of_its_own(
    run: Run, endpoint: FakeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for claim in (f"Does α/../lower *risk*{' or harm' * 20}{end}?" for end in ("", " not")):
        for method in ("biocheck", "no-retrieval"):
            run(*asked(endpoint, claim, "--method", method))
    names = [path.name for path in (tmp_path / "factcheck").iterdir()]
    assert len(names) == 4
    assert all(re.fullmatch(r"does-α-lower-risk-[a-z-]+-[0-9a-f]{8}", name) for name in names)


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_paid(
    error: Callable[..., str], endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    assert "cannot write" in error(*asked(endpoint, CLAIM, "--out", tmp_path / "file"))
    assert not endpoint.seen


def test_a_claim_that_no_file_can_carry_is_written_with_an_escape(
    run: Run, endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    run(*asked(endpoint, "Caf\udce9 prevents gout.", "--out", tmp_path))
    assert "Caf\\udce9" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_both_engines_print_the_same(
    run_json: Callable[..., Any], endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    pytest.importorskip("langgraph", reason="pip install 'clinical-envs[agents]'")
    arguments = asked(endpoint, CLAIM, "--out", tmp_path)
    plain = run_json(*arguments)
    assert run_json(*arguments, "--engine", "langgraph") == plain
    assert (plain["verdict"], plain["setting"]["method"]) == ("REFUTED", "biocheck")


def test_a_file_of_claims_is_scored_with_intervals(
    run: Run, endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    result = run(*asked(endpoint, "--claims", "examples", "--out", tmp_path))
    assert "7 claims scored, 7 of them with a label; 0 unscored; 21 citations" in result.stdout
    for text in ("accuracy", "42.9 %", "macro F1", "hallucinated citations", "33.3 %", "1.00"):
        assert text in result.stdout
    assert "claim 1 of 7, pelorinib: REFUTED after 1 searches, label REFUTED" in result.stderr
    assert len((tmp_path / "claims.jsonl").read_text(encoding="utf-8").splitlines()) == 7


def test_claims_as_scifact_publishes_them_are_read_and_may_be_binary_only(
    run_json: Callable[..., Any], endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    rationale = {"4983": [{"label": "CONTRADICT", "sentences": [1]}]}
    rows = [
        {"id": 2, "claim": "Zinc cures colds.", "evidence": rationale, "cited_doc_ids": [4983]},
        {"id": 7, "claim": "Tea prevents gout.", "evidence": {}, "cited_doc_ids": [4983]},
    ]
    file = tmp_path / "claims_dev.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    arguments = ("--claims", file, "--method", "no-retrieval")
    everything = run_json(*asked(endpoint, *arguments, "--out", tmp_path / "all"))
    assert (everything["n"], everything["accuracy"]["value"]) == (2, 0.5)
    binary = run_json(*asked(endpoint, *arguments, "--binary", "--out", tmp_path / "binary"))
    assert (binary["n"], binary["accuracy"]["value"]) == (1, 1.0)


@pytest.mark.parametrize("method", ["no-retrieval", "cer", "pmsearch"])
def test_the_baselines_are_scored_the_same_way(
    run_json: Callable[..., Any], endpoint: FakeEndpoint, tmp_path: Path, method: str
) -> None:
    arguments = ("--claims", "examples", "--method", method, "--out", tmp_path)
    found = run_json(*asked(endpoint, *arguments))
    right = sum(claim.verdict == "REFUTED" for claim in EXAMPLE_CLAIMS)
    assert (found["n"], found["setting"]["method"], found["pieces"]) == (7, method, 0)
    if method != "pmsearch":  # it reports, as the script does, and a report is no label
        assert found["accuracy"]["value"] == pytest.approx(right / 7)
    assert found["hallucinated"] is None


def test_an_outage_leaves_claims_unscored_and_the_same_command_goes_on(
    run: Run, endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    arguments = asked(
        endpoint, "--claims", "examples", "--method", "no-retrieval", "--out", tmp_path
    )
    endpoint.faults.extend([None, lambda handler: handler.answer({"error": "gone"}, 404)])
    result = run(*arguments)
    assert "6 claims scored, 6 of them with a label; 1 unscored" in result.stdout
    assert "run the same command to try again" in result.stdout
    before = len(endpoint.seen)
    result = run(*arguments)
    assert "7 claims scored, 7 of them with a label; 0 unscored" in result.stdout
    assert len(endpoint.seen) == before + 1


@pytest.mark.parametrize(
    ("content", "binary", "says"),
    [
        ("", [], "claims.jsonl: no claims; there is nothing to check"),
        (
            '{"id": "1", "claim": "Tea cures gout."}\n',
            ["--binary"],
            "of 1 claims none is labelled SUPPORTED or REFUTED; there is nothing to check",
        ),
    ],
)
def test_a_file_without_a_claim_to_check_is_refused(
    error: Callable[..., str], tmp_path: Path, content: str, binary: list[str], says: str
) -> None:
    file = tmp_path / "claims.jsonl"
    file.write_text(content)
    given = ["--claims", file, "--corpus", "examples", "--out", tmp_path / "out", *binary]
    assert says in error("factcheck", "--policy", "openai:http://127.0.0.1:9#m", *given)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--corpus", "examples"], "give one CLAIM, or --claims FILE"),
        ([CLAIM, "--claims", "examples", "--out", "x"], "give one CLAIM, or --claims FILE"),
        (["--claims", "examples", "--corpus", "examples"], "--claims needs --out FOLDER"),
        ([" ", "--corpus", "examples"], "the claim is empty"),
        ([CLAIM, "--binary", "--corpus", "examples"], "--binary is for --claims FILE"),
        (["--claims", "no.jsonl", "--out", "x", "--corpus", "examples"], "no.jsonl cannot be read"),
        ([CLAIM], "--backend local needs --corpus FILE; or give --backend ncbi"),
        ([CLAIM, "--backend", "ncbi", "--corpus", "examples"], "--corpus is for --backend local"),
        ([CLAIM, "--corpus", "examples", "--offline"], "--offline is for --backend ncbi"),
        ([CLAIM, "--corpus", "nowhere.jsonl"], "no corpus file nowhere.jsonl"),
        ([CLAIM, "--corpus", "examples", "--method", "biochek"], "did you mean 'biocheck'?"),
        (
            [CLAIM, "--corpus", "examples", "--method", "cer", "--engine", "langgraph"],
            "cer is no state graph, as pmsearch, biocheck are; leave out the engine",
        ),
        ([CLAIM, "--backend", "ncbi", "--offline", "--cache", "none.sqlite"], "none.sqlite"),
    ],
)
def test_what_cannot_be_asked_for_is_told_in_one_line(
    error: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in error("factcheck", "--policy", "openai:http://127.0.0.1:9#m", *arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_method_over_an_endpoint_is_a_policy_of_the_fact_checking_worlds(
    run_json: Callable[..., Any], endpoint: FakeEndpoint
) -> None:
    policy = f"no-retrieval:{endpoint.spec}"
    found = run_json("evaluate", "factcheck_label", "--policy", policy, "-k", 1)
    assert found["policy"] == policy
    assert found["mean_asks"] == 0.0
    assert found["decisions"]["refuted"] == 1.0


def test_a_method_plays_no_other_task(error: Callable[..., str], endpoint: FakeEndpoint) -> None:
    says = error("evaluate", "titration", "--policy", f"cer:{endpoint.spec}", "-k", 1)
    assert "titration is no fact-checking world" in says
    says = error("evaluate", "factcheck", "--policy", f"cert:{endpoint.spec}", "-k", 1)
    assert "did you mean 'cer'?" in says
