"""`clinical-envs reward-audit`: what a training reward pays for, from the rows of any run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from training.cli.arguments import JsonOption
from training.cli.terminal import err, make_table, out, print_json, progress, say_error

if TYPE_CHECKING:
    from rich.table import Table

    from oracles.reward_audit.findings import Finding
    from oracles.reward_audit.records import Log

_STYLES = {"FLAG": "bold red", "CLEAR": "green", "UNCLEAR": "yellow", "SKIPPED": "dim"}
_NAMED = 5


def reward_audit(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE...", help="JSON Lines of one run; see: schema judgments."),
    ] = None,
    selftest: Annotated[
        bool, typer.Option("--selftest", help="Run the audit on scripted runs instead.")
    ] = False,
    fail_on_flag: Annotated[
        bool, typer.Option("--fail-on-flag", help="Exit with 1 when a flag is up.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Audit judgments, checker verdicts and rewards of a training run, from any framework.

    Exit codes: 0 audited; 1 nothing to audit, a flag is up under --fail-on-flag, or the self-test
    fails; 2 bad input.
    """
    if selftest:
        _selftest(as_json)
        return
    if not files:
        raise typer.BadParameter("give at least one FILE, or --selftest")
    from oracles.reward_audit.audit import as_json as plain
    from oracles.reward_audit.audit import audit_reward
    from oracles.reward_audit.records import read_log

    with progress("reading and auditing"):
        log = read_log(files)
        findings = audit_reward(log)
    if as_json:
        print_json(plain(log, findings))
    else:
        _name_damage(log)
        out.print(_table(findings))
        for finding in findings:
            if finding.prescription:
                out.print(Text(f"{finding.rule}: {finding.prescription}"))
    if not findings:
        say_error("no row could be used; see: clinical-envs schema judgments")
        raise typer.Exit(1)
    if fail_on_flag and any(finding.verdict == "FLAG" for finding in findings):
        raise typer.Exit(1)


def _selftest(as_json: bool) -> None:
    from oracles.reward_audit.selftest import HEALTHY_SEEDS, run_selftest

    with progress(f"scripted failures, and {len(HEALTHY_SEEDS)} healthy runs"):
        results = run_selftest()
    passed = all(result.passed for result in results)
    if as_json:
        rows = [
            {"seed": r.seed, "expected": r.expected, "flagged": r.flagged, "passed": r.passed}
            for r in results
        ]
        print_json({"passed": passed, "runs": rows})
    else:
        table = make_table("scripted run", "must be flagged by", "flagged by", "")
        for result in results:
            healthy = result.expected is None
            name = f"healthy, seed {result.seed}" if healthy else f"scripted {result.expected}"
            mark = Text("ok", style="green") if result.passed else Text("MISSED", style="bold red")
            flagged = ", ".join(result.flagged) or "none"
            table.add_row(name, result.expected or "none", flagged, mark)
        out.print(table)
    if not passed:
        raise typer.Exit(1)


def _table(findings: tuple[Finding, ...]) -> Table:
    table = make_table("rule", "subject", "verdict", "value", "n", "evidence", numbers={"n"})
    for finding in findings:
        verdict = Text(finding.verdict.value, style=_STYLES[finding.verdict.value])
        table.add_row(
            finding.rule,
            finding.subject,
            verdict,
            _interval(finding),
            str(finding.n),
            finding.evidence,
        )
    return table


def _interval(finding: Finding) -> str:
    if finding.value is None or finding.low is None or finding.high is None:
        return "-"
    return f"{finding.value:.3f} [{finding.low:.3f}, {finding.high:.3f}]"


def _name_damage(log: Log) -> None:
    for damage in log.damaged[:_NAMED]:
        err.print(f"{damage.source}, line {damage.line}: {damage.reason}", soft_wrap=True)
    if len(log.damaged) > _NAMED:
        err.print(f"and {len(log.damaged) - _NAMED} more damaged lines (--json names all)")
