"""The whole audit: every finding that the rows of a run can carry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from oracles.reward_audit.agreement import audit_agreement
from oracles.reward_audit.checker_signal import audit_signal
from oracles.reward_audit.effects import audit_effects
from oracles.reward_audit.exploitation import audit_exploitation
from oracles.reward_audit.findings import Finding
from oracles.reward_audit.presence import audit_presence
from oracles.reward_audit.records import Log
from oracles.reward_audit.reward_spread import audit_spread
from oracles.reward_audit.shortcuts import audit_shortcuts
from oracles.reward_audit.stopping import audit_stopping

T = TypeVar("T")


def audit_reward(log: Log) -> tuple[Finding, ...]:
    """All findings of a run, kinds without rows left out, in a fixed order.

    Judgments are audited per verifier, checks per pair of policy and checker, rewards as a whole.
    """
    findings: list[Finding] = []
    for verifier, judgments in _grouped(log.judgments, lambda row: row.verifier):
        findings += audit_exploitation(verifier, judgments)
        findings.append(audit_agreement(verifier, judgments))
        findings.append(audit_presence(verifier, judgments))
    for pair, checks in _grouped(log.checks, lambda row: f"{row.policy} / {row.checker}"):
        findings += audit_signal(pair, checks)
    if log.rewards:
        findings += audit_effects(log.rewards)
        findings.append(audit_stopping(log.rewards))
        findings += audit_spread(log.rewards)
        findings += audit_shortcuts(log.rewards)
    return tuple(findings)


def as_json(log: Log, findings: Iterable[Finding]) -> dict[str, Any]:
    """An audit as plain data: rows by kind, damaged lines, findings."""
    return {
        "rows": {
            "judgment": len(log.judgments),
            "check": len(log.checks),
            "reward": len(log.rewards),
        },
        "damaged": [
            {"source": damage.source, "line": damage.line, "reason": damage.reason}
            for damage in log.damaged
        ],
        "findings": [
            {name: getattr(finding, name) for name in type(finding).__slots__}
            for finding in findings
        ],
    }


def _grouped(rows: Iterable[T], key: Callable[[T], str]) -> list[tuple[str, list[T]]]:
    groups: dict[str, list[T]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return sorted(groups.items())
