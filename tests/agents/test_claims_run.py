from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clinical_envs.errors import InvalidArgument
from clinical_envs.factcheck.ncbi_error import SearchUnavailable
from clinical_envs.factcheck.search import LocalSearch
from tests.agents.scripted import DOWN, ScriptedModel
from training.agents.baselines import no_retrieval
from training.agents.checked import Checked
from training.agents.claims_run import check_claims, read_rows
from training.agents.desk import Desk
from training.agents.literature import open_claims
from training.agents.pages import Setting
from training.endpoint import EndpointError

SETTING = Setting(
    method="no-retrieval", policy="scripted", backend="examples", max_tokens=9, cites=False
)
EXAMPLES = open_claims("examples")
CLAIMS = EXAMPLES[:4]
REFUTED = "<answer>REFUTED</answer>"


class Checker:
    """Checks claims with lines of a script, and remembers which."""

    def __init__(self, library: LocalSearch, *lines: str | Exception) -> None:
        self.model, self.library = ScriptedModel(*lines), library
        self.checked: list[str] = []

    def __call__(self, claim: str) -> Checked:
        self.checked.append(claim)
        return no_retrieval(claim, Desk(self.model, self.library))


def test_every_claim_has_a_row_in_order(library: LocalSearch, tmp_path: Path) -> None:
    lines: list[str] = []
    checker, file = Checker(library, *[REFUTED] * 4), tmp_path / "claims.jsonl"
    rows = check_claims(CLAIMS, SETTING, checker, file, say=lines.append)
    assert [row.id for row in rows] == [claim.id for claim in CLAIMS]
    assert list(read_rows(file)) == rows
    assert lines[0] == "claim 1 of 4, pelorinib: REFUTED after 0 searches, label REFUTED"


@pytest.mark.parametrize("cut", [0, 1, 40])
def test_a_stopped_run_goes_on_and_an_unfinished_line_is_dropped(
    library: LocalSearch, tmp_path: Path, cut: int
) -> None:
    file = tmp_path / "claims.jsonl"
    whole = check_claims(CLAIMS, SETTING, Checker(library, *[REFUTED] * 4), file)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:2]) + lines[2][:cut])
    checker = Checker(library, *[REFUTED] * 2)
    assert check_claims(CLAIMS, SETTING, checker, file) == whole
    assert checker.checked == [claim.text for claim in CLAIMS[2:]]
    assert list(read_rows(file)) == whole


def test_labels_are_those_that_the_claims_have_now(library: LocalSearch, tmp_path: Path) -> None:
    file = tmp_path / "claims.jsonl"
    unlabelled = [replace(claim, label=None) for claim in CLAIMS]
    rows = check_claims(unlabelled, SETTING, Checker(library, *[REFUTED] * 4), file)
    assert [row.label for row in rows] == [None] * 4
    before = file.stat().st_mtime_ns, file.read_bytes()
    rows = check_claims(CLAIMS, SETTING, Checker(library), file)
    assert [row.label for row in rows] == [claim.label for claim in CLAIMS]
    assert (file.stat().st_mtime_ns, file.read_bytes()) == before  # nothing was paid or rewritten


@pytest.mark.parametrize("outage", [DOWN, SearchUnavailable("NCBI did not answer; try later")])
def test_an_outage_leaves_a_claim_unscored_and_the_next_run_tries_it_again(
    library: LocalSearch, tmp_path: Path, outage: Exception
) -> None:
    file, outages = tmp_path / "claims.jsonl", (EndpointError, SearchUnavailable)
    checker = Checker(library, REFUTED, outage, REFUTED, REFUTED)
    rows = check_claims(CLAIMS, SETTING, checker, file, outages=outages)
    assert [row.unscored for row in rows] == [None, str(outage), None, None]
    assert rows[1].verdict is None
    again = Checker(library, "<answer>SUPPORTED</answer>")
    rows = check_claims(CLAIMS, SETTING, again, file, outages=outages)
    assert again.checked == [CLAIMS[1].text]
    assert [row.unscored for row in rows] == [None] * 4
    assert rows[1].verdict == "SUPPORTED"


def test_three_outages_in_a_row_end_the_run_and_keep_what_was_checked(
    library: LocalSearch, tmp_path: Path
) -> None:
    file = tmp_path / "claims.jsonl"
    with pytest.raises(EndpointError, match=r"^3 claims in a row .* the same command to go on$"):
        check_claims(CLAIMS, SETTING, Checker(library, REFUTED, DOWN, DOWN, DOWN), file)
    assert [row.unscored is None for row in read_rows(file)] == [True, False, False, False]


def test_outages_with_successes_between_them_do_not_end_the_run(
    library: LocalSearch, tmp_path: Path
) -> None:
    claims = EXAMPLES[:5]
    checker = Checker(library, DOWN, DOWN, REFUTED, DOWN, REFUTED)
    rows = check_claims(claims, SETTING, checker, tmp_path / "claims.jsonl")
    assert [row.unscored is None for row in rows] == [False, False, True, False, True]


def test_an_error_that_is_no_outage_ends_the_run(library: LocalSearch, tmp_path: Path) -> None:
    checker = Checker(library, InvalidArgument("a bug"))
    with pytest.raises(InvalidArgument, match="a bug"):
        check_claims(CLAIMS, SETTING, checker, tmp_path / "claims.jsonl")


@pytest.mark.parametrize(
    "other",
    [
        replace(SETTING, method="cer"),
        replace(SETTING, policy="another"),
        replace(SETTING, backend="ncbi"),
        replace(SETTING, max_tokens=99),
    ],
)
def test_a_file_of_another_setting_is_refused(
    library: LocalSearch, tmp_path: Path, other: Setting
) -> None:
    file = tmp_path / "claims.jsonl"
    check_claims(CLAIMS, SETTING, Checker(library, *[REFUTED] * 4), file)
    with pytest.raises(InvalidArgument, match="choose another folder"):
        check_claims(CLAIMS, other, Checker(library), file)


def test_a_file_of_other_claims_is_refused(library: LocalSearch, tmp_path: Path) -> None:
    file = tmp_path / "claims.jsonl"
    check_claims(CLAIMS, SETTING, Checker(library, *[REFUTED] * 4), file)
    with pytest.raises(InvalidArgument, match="choose another folder"):
        check_claims(CLAIMS[1:], SETTING, Checker(library), file)


def test_claims_that_share_an_id_are_refused(library: LocalSearch, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="2 claims have 1 ids"):
        check_claims([CLAIMS[0], CLAIMS[0]], SETTING, Checker(library), tmp_path / "claims.jsonl")


def test_a_line_that_is_no_row_is_named(library: LocalSearch, tmp_path: Path) -> None:
    file = tmp_path / "claims.jsonl"
    file.write_text('{"id": 3}\n', encoding="utf-8")
    with pytest.raises(InvalidArgument, match="line 1 is no row"):
        check_claims(CLAIMS, SETTING, Checker(library), file)


def told(file: Path) -> list[str]:
    """The ids of the claims in the order of their tries."""
    return [row.id for row in read_rows(file)]


def test_claims_that_fail_for_reasons_of_their_own_do_not_stop_the_others(
    library: LocalSearch, tmp_path: Path
) -> None:
    """Three next to each other stop the first run, and no later one."""
    claims, file = EXAMPLES[:6], tmp_path / "claims.jsonl"
    bad = {claim.text for claim in claims[:3]}
    asked: list[str] = []

    def check(text: str) -> Checked:
        asked.append(text)
        if text in bad:
            raise EndpointError("refused by a filter")
        return no_retrieval(text, Desk(ScriptedModel(REFUTED), library))

    with pytest.raises(EndpointError, match="3 claims in a row"):
        check_claims(claims, SETTING, check, file)
    rows = check_claims(claims, SETTING, check, file)
    assert [row.unscored is None for row in rows] == [False] * 3 + [True] * 3
    assert told(file)[3:] == [c.id for c in (*claims[3:], *claims[:3])]
    bad.remove(claims[0].text)
    rows = check_claims(claims, SETTING, check, file)
    assert [row.unscored is None for row in rows] == [True, False, False, True, True, True]


def test_what_was_tried_longest_ago_is_tried_first(library: LocalSearch, tmp_path: Path) -> None:
    """So that claims which go on failing do not keep the others from a try."""
    claims, file = EXAMPLES[:5], tmp_path / "claims.jsonl"

    def down(_: str) -> Checked:
        raise EndpointError("down")

    with pytest.raises(EndpointError, match="3 claims in a row"):
        check_claims(claims, SETTING, down, file)
    for _ in range(3):
        check_claims(claims, SETTING, down, file)
    first, second, third, fourth, fifth = (claim.id for claim in claims)
    assert told(file) == [
        *(first, second, third),
        *(fourth, fifth, first),
        *(second, third, fourth),
        *(fifth, first, second),
    ]
