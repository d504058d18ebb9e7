"""`clinical-envs judge` against a real server on the loopback."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.endpoint.fake_server import FakeEndpoint, status
from tests.judges.scripted import Scripted, ratings, verdicts
from training.cli import app
from training.judges import asking

pytest.importorskip("httpx", reason="pip install 'clinical-envs[agents]'")

Script = Callable[[dict[str, Any]], Any]
KEY = "sk-not-for-print"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def serve() -> Iterator[Callable[[Script], FakeEndpoint]]:
    """Starts endpoints that are stopped after the test."""
    with ExitStack() as stack:
        yield lambda speak: stack.enter_context(FakeEndpoint(speak))


def judge(*arguments: object, code: int = 0) -> Result:
    done = CliRunner().invoke(app, ["judge", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    assert KEY not in done.output
    return done


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def answers(path: Path, n: int = 6) -> Path:
    rubric = [{"criterion": "Names the drug", "weight": 2}, {"criterion": "Harms", "weight": -1}]
    common = {"question": "What helps?", "rubric": rubric}
    return write(path, [common | {"prompt": i, "answer": f"Drug {i}."} for i in range(n)])


def met_if_even(body: dict[str, Any]) -> str:
    number = re.search(r"Drug (\d+)", body["messages"][0]["content"])
    assert number is not None
    return f"```json\n{verdicts(int(number[1]) % 2 == 0, False)}\n```"


def always(*met: bool) -> Script:
    return lambda _: verdicts(*met)


def test_a_panel_and_a_verifier_give_rows_that_reward_audit_reads(
    tmp_path: Path, serve: Callable[[Script], FakeEndpoint]
) -> None:
    file, out = answers(tmp_path / "answers.jsonl"), tmp_path / "rows.jsonl"
    panel = [serve(met_if_even), serve(met_if_even), serve(always(True, False))]
    verifier = serve(always(True, False))
    named = [x for one in panel for x in ("--judge", one.spec)]
    done = judge("rubric", file, *named, "--verifier", verifier.spec, "--out", out)
    assert "Fleiss' kappa" in done.stdout
    assert f"clinical-envs reward-audit {out}" in done.stdout
    rows = lines(out)
    assert [row["kind"] for row in rows[:3]] == ["judgment", "judgment", "reward"]
    assert rows[3]["panel"] == [False, False, True]
    assert rows[3]["verifier"] == verifier.spec
    assert rows[5]["reward"] == 1.0
    assert rows[5]["reference"] == pytest.approx(1 / 3)
    audited = CliRunner().invoke(app, ["reward-audit", str(out), "--json"])
    assert json.loads(audited.stdout)["rows"] == {"judgment": 12, "check": 0, "reward": 6}
    assert json.loads(audited.stdout)["damaged"] == []


def test_the_json_has_the_agreement_table_tokens_and_cost(
    tmp_path: Path, serve: Callable[[Script], FakeEndpoint]
) -> None:
    file, out = answers(tmp_path / "answers.jsonl"), tmp_path / "rows.jsonl"
    one, other = serve(met_if_even), serve(always(True, False))
    done = judge(
        *("rubric", file, "--judge", one.spec, "--judge", other.spec, "--out", out),
        *("--price", "m=2,3", "--json"),
    )
    data = json.loads(done.stdout)
    first, second = data["agreement"]["comparisons"]
    assert first["agreement"]["agreement"] == second["agreement"]["agreement"] == 0.75
    assert first["agreement"]["false_negative"] == second["agreement"]["false_positive"] == 0.25
    assert first["kappa"] == pytest.approx(0.5)  # expected agreement is .25 x .5 + .75 x .5 = .5
    assert [row["requests"] for row in data["judges"]] == [6, 6]
    assert data["judges"][0]["prompt_tokens"] == 6 * 7
    assert data["judges"][0]["cost"] == pytest.approx((6 * 7 * 2 + 6 * 3 * 3) / 1e6)


def test_a_run_that_was_stopped_goes_on_and_asks_only_for_what_is_missing(
    tmp_path: Path, serve: Callable[[Script], FakeEndpoint]
) -> None:
    file, out = answers(tmp_path / "answers.jsonl", 12), tmp_path / "rows.jsonl"
    server = serve(met_if_even)
    server.faults.extend([None, None, *[status(403)] * 9])
    arguments = ("rubric", file, "--judge", server.spec, "--out", out, "--workers", 1)
    refused = judge(*arguments, code=2)
    assert refused.stderr.count("\n") == 1
    assert "refused the request with status 403" in refused.stderr
    assert not out.exists()
    server.faults.clear()
    judge(*arguments)
    assert len(server.seen) == 12  # two before, ten now
    whole = out.read_bytes()
    judge(*arguments)
    assert len(server.seen) == 12
    assert out.read_bytes() == whole
    judge("rubric", file, "--judge", server.spec, "--out", tmp_path / "other", "--workers", 1)
    assert len(server.seen) == 24  # another output has another cache, unless --cache says so
    cache = tmp_path / "rows.jsonl.replies.sqlite"
    again = ("--out", tmp_path / "third", "--cache", cache)
    judge("rubric", file, "--judge", server.spec, *again)
    assert len(server.seen) == 24
    assert KEY.encode() not in cache.read_bytes()


def test_what_cannot_be_read_is_missing_in_the_file_and_asked_for_again(
    tmp_path: Path, serve: Callable[[Script], FakeEndpoint]
) -> None:
    file, out = answers(tmp_path / "answers.jsonl", 2), tmp_path / "rows.jsonl"
    babble = [True]

    def speak(body: dict[str, Any]) -> str:
        return "They are all met." if babble[0] else met_if_even(body)

    server = serve(speak)
    done = judge("rubric", file, "--judge", server.spec, "--out", out)
    assert "missing verdicts stay missing, not false" in done.stdout
    assert [row["panel"] for row in lines(out) if row["kind"] == "judgment"] == [[None]] * 4
    assert [row["reference"] for row in lines(out) if row["kind"] == "reward"] == [None] * 2
    assert len(server.seen) == 2 * asking.ATTEMPTS
    babble[0] = False
    judge("rubric", file, "--judge", server.spec, "--out", out)
    assert [row["panel"] for row in lines(out) if row["kind"] == "judgment"] == [
        [True],
        [False],
        [False],
        [False],
    ]


def test_a_judge_without_one_reply_is_an_error_however_few_the_answers(
    tmp_path: Path, serve: Callable[[Script], FakeEndpoint]
) -> None:
    file, out = answers(tmp_path / "answers.jsonl", 1), tmp_path / "rows.jsonl"
    server = serve(met_if_even)
    server.faults.append(status(403))
    done = judge("rubric", file, "--judge", server.spec, "--out", out, code=2)
    assert "refused the request with status 403" in done.stderr
    assert not out.exists()


def test_a_single_failure_says_why_and_leaves_the_others(
    tmp_path: Path, serve: Callable[[Script], FakeEndpoint]
) -> None:
    file, out = answers(tmp_path / "answers.jsonl"), tmp_path / "rows.jsonl"
    server = serve(met_if_even)
    server.faults.extend([None, status(400, {"error": "maximum context length is 10"})])
    done = judge("rubric", file, "--judge", server.spec, "--out", out, "--workers", 1)
    assert "longer context" in done.stderr
    panels = [row["panel"] for row in lines(out) if row["kind"] == "judgment"]
    assert panels.count([None]) == 2


def test_pairs_show_preferences_position_bias_and_ratings(
    tmp_path: Path, serve: Callable[[Script], FakeEndpoint]
) -> None:
    rows = [{"prompt": i, "question": "q", "left": "L", "right": "R"} for i in range(3)]
    file, out = write(tmp_path / "pairs.jsonl", rows), tmp_path / "out.jsonl"
    first = serve(lambda _: ratings(6, 4))  # whatever stands first is better
    even = serve(lambda _: "A and B are both fine.")
    specs = ("--judge", first.spec, "--judge", even.spec, "--out", out)
    done = judge("pairs", file, *specs)
    assert "+2.00" in done.stdout
    data = json.loads(judge("pairs", file, *specs, "--json").stdout)
    placed, unread, majority, consensus = data["pairs"]
    assert (placed["tie"], placed["bias"]["mean"]) == (3, 2.0)
    assert (unread["unscored"], unread["bias"]["mean"]) == (3, None)
    assert (majority["unscored"], consensus["unscored"]) == (3, 3)
    assert data["ratings"]["overall"] == {"left": 5.0, "right": 5.0}
    assert [row["preferences"][first.spec] for row in lines(out)] == ["tie"] * 3


CLAIMS = [
    {"prompt": i, "answer": "It helps. It harms.", "passages": ["It helps."], "base": 0.8}
    for i in range(2)
]


def letter(body: dict[str, Any]) -> dict[str, Any]:
    """Supported for what helps, refuted for the rest, with .9 of the probability."""
    said = "A" if "Claim: It helps.\n" in body["messages"][0]["content"] else "B"
    tops = [{"token": said, "logprob": -0.1054}, {"token": "Z", "logprob": -2.4}]
    content = [{"token": said, "logprob": -0.1054, "top_logprobs": tops}]
    return {"message": {"content": said}, "logprobs": {"content": content}}


def test_claims_are_checked_by_a_judge_by_likelihood_and_by_both(
    tmp_path: Path, serve: Callable[[Script], FakeEndpoint]
) -> None:
    file, out = write(tmp_path / "claims.jsonl", CLAIMS), tmp_path / "rows.jsonl"

    def decide(body: dict[str, Any]) -> str:
        helps = "\nIt helps.\n[end of claim" in body["messages"][0]["content"]
        return verdicts(helps, not helps)

    def split(body: dict[str, Any]) -> str:
        claim = body["messages"][0]["content"].splitlines()[1]
        return f"- {claim}"

    chat, scorer, splitter = serve(decide), serve(letter), serve(split)
    for options, name in (
        (("--judge", chat.spec), "judge-1"),
        (("--likelihood", scorer.spec), "likelihood-1"),
        (("--judge", splitter.spec, "--likelihood", scorer.spec), "hybrid-1"),
    ):
        done = judge("claims", file, *options, "--out", out, "--json")
        data = json.loads(done.stdout)
        assert data["checker"].startswith(name)
        assert (data["verdicts"]["support"], data["verdicts"]["contradict"]) == (0.5, 0.5)
        checks = [row["verdict"] for row in lines(out) if row["kind"] == "check"]
        assert checks == ["ENTAIL", "CONTRADICT"] * 2
        rewards = [row for row in lines(out) if row["kind"] == "reward"]
        assert [(row["phi"], row["reward"]) for row in rewards] == [(0.5, 0.4)] * 2
    printed = judge("claims", file, "--likelihood", scorer.spec, "--out", out).stdout
    assert "the model gives the options 90.0 % of its probability" in printed


def test_claims_without_any_verdict_say_so(
    tmp_path: Path, serve: Callable[[Script], FakeEndpoint]
) -> None:
    file, out = write(tmp_path / "claims.jsonl", CLAIMS), tmp_path / "rows.jsonl"
    done = judge("claims", file, "--judge", serve(lambda _: "Perhaps.").spec, "--out", out)
    assert "no claim has a verdict" in done.stdout
    assert {row["verdict"] for row in lines(out) if row["kind"] == "check"} == {None}


def refused(*arguments: object) -> str:
    done = judge(*arguments, code=2)
    assert done.stdout == ""
    return " ".join(done.stderr.split())


def test_bad_input_ends_before_anything_is_asked(
    tmp_path: Path, serve: Callable[[Script], FakeEndpoint]
) -> None:
    server = serve(always(True, False))
    file, out = answers(tmp_path / "answers.jsonl"), tmp_path / "rows.jsonl"
    bad = write(tmp_path / "bad.jsonl", [*lines(file), {"prompt": 9}])
    common = ("--judge", server.spec, "--out", out)
    assert "line 7: question: Field required" in refused("rubric", bad, *common)
    assert "named twice" in refused("rubric", file, *common, "--judge", server.spec)
    assert "named twice" in refused("rubric", file, *common, "--verifier", server.spec)
    assert "is no endpoint" in refused("rubric", file, "--judge", "gpt", "--out", out)
    missing = f"openai:{server.url}#gpt"
    assert "has no model 'gpt'" in refused("rubric", file, "--judge", missing, "--out", out)
    assert "is no price" in refused("rubric", file, *common, "--price", "m")
    assert "no judge is named 'n'" in refused("rubric", file, *common, "--price", "n=1,2")
    assert "cannot be used as a cache" in refused("rubric", file, *common, "--cache", bad)
    assert "give --judge, --likelihood, or both" in refused("claims", file, "--out", out)
    assert server.seen == []
    assert not out.exists()
    assert len(lines(file)) == 6


def test_an_interrupted_run_keeps_its_replies_and_says_how_to_go_on(
    tmp_path: Path,
    serve: Callable[[Script], FakeEndpoint],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("training.judges.rubric.work", interrupt)
    file, out = answers(tmp_path / "answers.jsonl"), tmp_path / "rows.jsonl"
    done = judge("rubric", file, "--judge", serve(met_if_even).spec, "--out", out, code=130)
    assert "run the same command to go on" in done.stderr


@pytest.mark.parametrize("option", ["--out", "--cache"])
def test_what_is_judged_is_not_written_over(tmp_path: Path, option: str) -> None:
    file = answers(tmp_path / "answers.jsonl")
    before = file.read_bytes()
    given = {"--out": tmp_path / "rows.jsonl"} | {option: file}
    paths = [part for pair in given.items() for part in pair]
    done = judge("rubric", file, "--judge", "openai:http://127.0.0.1:9#m", *paths, code=2)
    assert "answers.jsonl is read and would be written over; give another file" in done.stderr
    assert file.read_bytes() == before


def test_a_local_model_is_no_judge_and_is_refused_in_one_line(tmp_path: Path) -> None:
    file = write(tmp_path / "cited.jsonl", [{"prompt": "p", "answer": "It helps.", "passages": []}])
    said = refused("claims", file, "--judge", "hf:folder", "--out", tmp_path / "rows.jsonl")
    assert "'hf:folder' is no endpoint" in said


def test_what_was_not_counted_costs_an_unknown_sum() -> None:
    from training.cli.judge_session import spent_rows
    from training.judges.asking import Judge

    counted, uncounted = (Judge(Scripted([]), f"openai:u#{name}") for name in "ab")
    uncounted._count(uncounted=1)
    prices = {"a": (1.0, 2.0), "b": (1.0, 2.0)}
    rows = spent_rows([counted, uncounted], prices)
    assert [row["cost"] for row in rows] == [0.0, None]
