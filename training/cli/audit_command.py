"""`clinical-envs audit`: metrics and flags of any episodes, from any framework."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from training.cli.arguments import JsonOption
from training.cli.terminal import err, make_table, out, print_json, progress, say_error, writable

if TYPE_CHECKING:
    from rich.table import Table

    from oracles.audits import Audit, PolicyAudit
    from oracles.flags import Flag

_SHOWN = 20
_STYLES = {
    "FLAG": "bold red",
    "EXPLOITING": "bold red",
    "FLAGGED": "red",
    "PARSE-FAIL": "bold red",
    "CLEAR": "green",
    "UNCLEAR": "yellow",
    "SKIPPED": "yellow",
}
_SHORT = {
    "blind_commitment": "blind",
    "one_question_collapse": "one question",
    "premature_commitment": "premature",
    "unsupported_escalation": "unsupported",
    "over_gathering": "over-gathering",
    "high_risk_regression": "high risk",
}


def audit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Episodes as JSON Lines.")],
    baseline: Annotated[
        Path | None,
        typer.Option(help="Episodes of one policy to compare with, on the cases both played."),
    ] = None,
    mapping: Annotated[
        Path | None,
        typer.Option("--from", help="YAML file that renames the keys of foreign records."),
    ] = None,
    task: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A task file that the episodes name by id; repeatable."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report to this file.")] = None,
    as_json: JsonOption = False,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FLAG",
            help="Exit 1 when this flag is up; repeatable, or separated by commas; any for all.",
        ),
    ] = None,
) -> None:
    """Audit episodes: what every policy is worth, and how it got there.

    Lines that are no episode and episodes that contradict their task are named and counted.
    Exit codes: 0 done; 1 a flag of --fail-on is up, or no episode could be audited; 2 bad input.
    """
    from clinical_envs.episode import read_mapping
    from oracles.audits import audit as run

    flags = _flag_names(fail_on or [])
    if html is not None:
        writable(html, *(path for path in (file, baseline) if path))
    with progress(f"auditing {file}"):
        result = run(
            file,
            baseline,
            tasks=task or (),
            mapping=None if mapping is None else read_mapping(mapping),
        )
    if html is not None:
        from oracles.report import render_report

        with progress("writing the report"):
            html.write_text(render_report(result), encoding="utf-8")
    if as_json:
        print_json(result.to_dict())
    else:
        _print(result)
        if html is not None:
            out.print(f"report: {html}", soft_wrap=True)
    if not result.policies:
        say_error(f"{file}: {_nothing(result)}")
        raise typer.Exit(1)
    up = {flag for policy in result.policies for flag in policy.up}
    if raised := [flag for flag in flags if flag in up]:
        err.print(f"failed on: {', '.join(raised)}", style="bold red", soft_wrap=True)
        raise typer.Exit(1)


def overview(audits: Iterable[PolicyAudit]) -> Iterator[Table]:
    """For each task and split one row a policy: verdict, what it is worth, which flags are up."""
    by_set: dict[str, list[PolicyAudit]] = {}
    for audited in audits:
        title = f"{audited.world.name}, split {audited.split or 'not recorded'}"
        by_set.setdefault(title, []).append(audited)
    numbers = ("value", "regret", "asks", "support@k", "k", "cases")
    for title, policies in by_set.items():
        table = make_table("policy", "verdict", *numbers, "flags up", title=title, numbers=numbers)
        table.columns[1].no_wrap = True
        for audited in policies:
            table.add_row(*_overview_cells(audited))
        yield table


def _overview_cells(audited: PolicyAudit) -> tuple[str | Text, ...]:
    metrics = audited.metrics
    estimates = (metrics.value, metrics.regret, metrics.mean_asks, metrics.support_at_k)
    return (
        audited.policy + " †" * audited.exploiting,
        Text(audited.status, style=_STYLES.get(audited.status, "")),
        *("-" if number.value is None else f"{number.value:.3f}" for number in estimates),
        str(metrics.k or "-"),
        str(metrics.n_cases),
        ", ".join(_SHORT.get(flag, flag) for flag in audited.up),
    )


def _flag_names(given: list[str]) -> tuple[str, ...]:
    from clinical_envs.errors import InvalidArgument, did_you_mean
    from oracles.flags import FLAG_NAMES

    names = [name.strip().replace("-", "_") for text in given for name in text.split(",")]
    for name in names:
        if name not in (*FLAG_NAMES, "any"):
            hint = did_you_mean(name, (*FLAG_NAMES, "any"))
            raise InvalidArgument(f"--fail-on: no flag {name!r}; {hint}")
    return FLAG_NAMES if "any" in names else tuple(names)


def _nothing(result: Audit) -> str:
    if not result.episodes and not result.damaged:
        return "holds no episodes; there is nothing to audit"
    return (
        f"no episode could be audited: {len(result.damaged)} damaged lines, "
        f"{len(result.refused)} refused episodes, {result.unscored} unscored"
    )


def _print(result: Audit) -> None:
    for table in overview(result.policies):
        out.print(table)
    if any(policy.exploiting for policy in result.policies):
        out.print("† exploiting: the value rises while a flag is up")
    for policy in result.policies:
        out.print(_flags(policy))
        for flag in policy.flags:
            if flag.verdict.value not in {"CLEAR", "NOT APPLICABLE"}:
                out.print(_remark(flag), style=_STYLES[flag.verdict.value])
        out.print()
    _print_rejects("damaged", [(f"line {bad.line}", bad.reason) for bad in result.damaged])
    refused = [(f"episode {bad.position}", bad.reason) for bad in result.refused]
    _print_rejects("refused", refused)
    out.print(
        f"{result.episodes} episodes read, {len(result.damaged)} damaged lines, "
        f"{len(result.refused)} refused, {result.unscored} unscored (infrastructure errors)"
    )
    if result.baseline_unused:
        out.print(f"of the baseline, {result.baseline_unused} could not be used", style="yellow")


def _flags(policy: PolicyAudit) -> Table:
    title = f"{policy.policy} on {policy.world.key}, split {policy.split or 'not recorded'}"
    numbers = ("rate", "95\u00a0% interval", "limit", "cases")
    table = make_table("flag", "verdict", *numbers, title=title, numbers=numbers)
    for flag in policy.flags:
        rate, verdict = flag.rate, flag.verdict.value
        table.add_row(
            flag.name.replace("_", " "),
            Text(verdict if verdict == "FLAG" else verdict.lower(), style=_STYLES.get(verdict, "")),
            "-" if rate.value is None else f"{rate.value:.3f}",
            "" if rate.low is None else f"{rate.low:.3f} … {rate.high:.3f}",
            f"{flag.threshold:g}",
            str(rate.n_cases),
        )
    return table


def _remark(flag: Flag) -> str:
    """Rule, what else was measured and what to do, of a flag that is not clear."""
    remark = f"{flag.name.replace('_', ' ')}: {flag.rule}"
    if flag.detail:
        remark += f" ({flag.detail})"
    return f"{remark}. {flag.advice}" if flag.verdict.value == "FLAG" else f"{remark}."


def _print_rejects(kind: str, rejects: list[tuple[str, str]]) -> None:
    for where, reason in rejects[:_SHOWN]:
        out.print(f"{kind}: {where}: {reason}", style="yellow", soft_wrap=True)
    if len(rejects) > _SHOWN:
        out.print(f"{kind}: and {len(rejects) - _SHOWN} more (--json has all)", style="yellow")
