"""`clinical-envs factcheck --claims`: a file of claims, its scores, and what they are worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from training.cli.terminal import err, make_table, out, print_json, writable

if TYPE_CHECKING:
    from rich.table import Table

    from clinical_envs.factcheck.claims import Claim
    from oracles.reward_audit.intervals import Interval
    from training.agents.checked import Checked
    from training.agents.pages import Setting
    from training.agents.scores import Scores

_SHARES = {
    "accuracy": "accuracy",
    "macro_precision": "macro precision",
    "macro_recall": "macro recall",
    "macro_f1": "macro F1",
    "abstained": "not enough information",
    "no_verdict": "no verdict",
    "hallucinated": "hallucinated citations",
    "reports_hallucinated": "reports with one",
    "distorted": "distorted citations",
}
_SIZES = {"searches": "searches a claim", "requests": "requests a claim"}


def check_all(
    claims: Sequence[Claim],
    setting: Setting,
    check: Callable[[str], Checked],
    folder: Path,
    as_json: bool,
) -> None:
    """Check claims into `claims.jsonl` of a folder, and print the scores."""
    from clinical_envs.factcheck.ncbi_error import SearchUnavailable
    from training.agents.claims_run import check_claims
    from training.agents.scores import score_rows
    from training.endpoint import EndpointError

    file = writable(folder / "claims.jsonl")
    try:
        rows = check_claims(
            claims, setting, check, file, outages=(EndpointError, SearchUnavailable), say=_say
        )
    except KeyboardInterrupt:
        err.print(f"stopped: {file} keeps what was checked; run the same command to go on")
        raise typer.Exit(130) from None
    scores = score_rows(rows)
    if as_json:
        print_json(_plain(scores, setting))
        return
    out.print(f"{setting.method}, {setting.policy}, literature: {setting.backend}", soft_wrap=True)
    out.print(
        f"{scores.n} claims scored, {scores.labelled} of them with a label; {scores.unscored} "
        f"unscored; {scores.pieces} citations"
    )
    out.print(_table(scores))
    if scores.unscored:
        reason = next(row.unscored for row in rows if row.unscored is not None)
        out.print(f"unscored, run the same command to try again: {reason}", soft_wrap=True)
    out.print(f"claims: {file}", soft_wrap=True)


def _say(line: str) -> None:
    err.print(line, soft_wrap=True)


def _table(scores: Scores) -> Table:
    table = make_table("", "value", "95\u00a0% interval", numbers=("value", "95\u00a0% interval"))
    for names, as_text in ((_SHARES, _percent), (_SIZES, _number)):
        for key, label in names.items():
            found: Interval | None = getattr(scores, key)
            if found is None:
                table.add_row(label, "-", "")
            else:
                low, high = as_text(found.low), as_text(found.high)
                table.add_row(label, as_text(found.value), f"{low} … {high}")
        table.add_section()
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _number(value: float) -> str:
    return f"{value:.2f}"


def _plain(scores: Scores, setting: Setting) -> dict[str, Any]:
    from dataclasses import asdict

    return {"setting": asdict(setting)} | asdict(scores)
