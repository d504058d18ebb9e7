"""A file of claims checked one by one into JSON Lines; a stopped run goes on where it stopped.

A row is one check. A claim that an outage left unscored has a row that says so, and is checked
again when the run is started again; the last row of a claim counts. Its label is the one that the
claims have now.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clinical_envs.errors import ClinicalEnvsError, InvalidArgument
from clinical_envs.factcheck.claims import Claim
from clinical_envs.factcheck.quote_audit import Distortion
from clinical_envs.factcheck.rewards import Hallucination
from clinical_envs.factcheck.verdict import Verdict
from training.agents.checked import Checked
from training.agents.desk import Say, quiet
from training.agents.pages import NO_VERDICT, Setting, as_json
from training.endpoint import EndpointError

MAX_FAILURES = 3
"""Claims in a row that an outage may leave unscored before the run stops."""


class CitationRow(BaseModel):
    """What the scores need of a citation."""

    model_config = ConfigDict(frozen=True)

    hallucination: Hallucination | None
    distortions: tuple[Distortion, ...]


class SpentRow(BaseModel):
    """Requests and tokens of a check; tokens are None where the endpoint did not count them."""

    model_config = ConfigDict(frozen=True)

    requests: int
    prompt_tokens: int | None
    completion_tokens: int | None


class Row(BaseModel):
    """One line of the file, as far as scores read it.

    label: the right verdict, None where nobody knows it. unscored: why nothing was measured.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    label: Verdict | None
    claim: str
    setting: Setting
    unscored: str | None = None
    verdict: Verdict | None = None
    problems: tuple[str, ...] = ()
    citations: tuple[CitationRow, ...] = ()
    n_searches: int = 0
    spent: SpentRow = Field(
        default=SpentRow(requests=0, prompt_tokens=None, completion_tokens=None)
    )


def check_claims(
    claims: Sequence[Claim],
    setting: Setting,
    check: Callable[[str], Checked],
    file: Path,
    *,
    outages: tuple[type[ClinicalEnvsError], ...] = (EndpointError,),
    say: Say = quiet,
) -> list[Row]:
    """Check every claim that the file does not hold yet; all rows, in the order of the claims.

    Claims that were left unscored are tried again after the new ones, those whose last try lies
    longest ago first. Several that fail again in a row end the tries and not the run, since they
    may fail for reasons of their own.

    Args:
        claims: each with an id of its own.
        setting: how they are checked; a file of another setting is refused.
        check: checks the text of one claim.
        file: JSON Lines, made or continued.
        outages: what leaves a claim unscored; any other error ends the run.
        say: told one line after each claim.

    Raises:
        InvalidArgument: the file holds something else, or two claims share an id.
        ClinicalEnvsError: an outage left several new claims in a row unscored.
    """
    rows = _resume(file, claims, setting)
    places = {claim.id: (place, claim) for place, claim in enumerate(claims, start=1)}
    again = [id_ for id_, row in rows.items() if row.unscored is not None]
    fresh = [id_ for id_ in places if id_ not in rows]
    failures = 0
    with file.open("a", encoding="utf-8") as lines:
        for id_ in (*fresh, *again):
            number, claim = places[id_]
            content: dict[str, Any] = {"id": claim.id, "label": claim.label}
            try:
                content |= as_json(check(claim.text), setting)
                failures = 0
            except outages as error:
                failures += 1
                content |= _unscored(claim, setting, error)
                outage = error
            lines.write(json.dumps(content, ensure_ascii=False) + "\n")
            lines.flush()
            tried, row = id_ in rows, Row.model_validate(content)
            rows[id_] = row
            say(f"claim {number} of {len(claims)}, {claim.id}: {_told(row)}")
            if failures >= MAX_FAILURES and tried:
                break
            if failures >= MAX_FAILURES:
                raise type(outage)(
                    f"{failures} claims in a row could not be checked, the last because "
                    f"{outage}; {file} keeps what was checked, run the same command to go on"
                )
    return [rows[c.id].model_copy(update={"label": c.label}) for c in claims]


def read_rows(file: Path) -> Iterator[Row]:
    """The rows of a file; an unfinished last line is left out.

    Raises:
        InvalidArgument: another line is no row.
    """
    content = file.read_bytes()  # a kill can cut a character in half
    whole = content[: content.rfind(b"\n") + 1]
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            yield Row.model_validate_json(line)
        except ValidationError:
            message = f"{file} line {number} is no row of checked claims"
            raise InvalidArgument(f"{message}; mend or move the file") from None


def _resume(file: Path, claims: Sequence[Claim], setting: Setting) -> dict[str, Row]:
    texts = {claim.id: claim.text for claim in claims}
    if len(texts) < len(claims):
        raise InvalidArgument(f"{len(claims)} claims have {len(texts)} ids; give each its own")
    if not file.exists():
        return {}
    rows: dict[str, Row] = {}
    for row in read_rows(file):
        if row.setting != setting:
            raise InvalidArgument(
                f"{file} was made with {row.setting}, not {setting}; choose another folder"
            )
        if texts.get(row.id) != row.claim:
            raise InvalidArgument(
                f"{file} holds claim {row.id!r}, which is not in this file of claims; choose "
                "another folder"
            )
        rows.pop(row.id, None)
        rows[row.id] = row  # in the order of their last tries
    whole = file.read_bytes().rfind(b"\n") + 1
    if whole < file.stat().st_size:
        os.truncate(file, whole)
    return rows


def _unscored(claim: Claim, setting: Setting, error: Exception) -> dict[str, Any]:
    reason = " ".join(str(error).split())
    return {"claim": claim.text, "setting": asdict(setting), "unscored": reason}


def _told(row: Row) -> str:
    """The outcome of a claim in a few words."""
    if row.unscored is not None:
        return f"unscored, {row.unscored}"
    label = "no label" if row.label is None else f"label {row.label}"
    return f"{row.verdict or NO_VERDICT} after {row.n_searches} searches, {label}"
