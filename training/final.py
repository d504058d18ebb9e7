"""The end of a run: start, best and last on the test set, the guarded audit, report and card."""

from __future__ import annotations

import gc
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from clinical_envs.episode import Episode
from oracles.audits import Audit, PolicyAudit, audit
from oracles.clinical import ClinicalWorld
from oracles.metrics import K, measure
from oracles.report import Figure, render_report
from training.adapter_sync import AdapterSync
from training.checkpoint_policy import PlaySettings, load_checkpoint_policy
from training.curves import Course, draw_curves
from training.model_card import grpo_card
from training.proxy_audit import audit_proxy, told
from training.runs import Run, best_row, eligibility, policy_name, wait_for_all
from training.served_run import meet_again, served_policy
from training.validation import CURVES, play


def conclude(
    run: Run,
    world: ClinicalWorld,
    start: str,
    settings: PlaySettings,
    sync: AdapterSync | None = None,
) -> None:
    """Evaluate on `test` with the terminal verifier, audit against the start, write it all down.

    sync: a rollout server, which then does the sampling.
    """
    wait_for_all()
    rows = run.rows("validation")
    best, last = best_row(rows), rows[-1]
    chosen = {
        role: {
            "update": row["update"],
            "policy": policy_name(row["update"]),
            "validation_value": row["value"],
        }
        for role, row in {"best": best, "last": last}.items()
        if row is not None
    }
    run.note(status="evaluating", best=chosen.get("best"), last=chosen["last"])
    adapters: dict[str, Path | None] = {"start": None}
    for role, found in chosen.items():
        source = run.policy(found["update"])
        adapters[found["policy"]] = source
        if run.writes:
            shutil.copytree(source, run.folder / role, dirs_exist_ok=True)
    gc.collect()  # the trainer's model, before another one is loaded
    if sync is not None:
        meet_again(run, sync, start)
    episodes = {}
    for name, adapter in adapters.items():
        run.say(f"{name} plays test: {K} rollouts a case and a greedy one")
        if sync is None:
            spec = f"hf:{start}" if adapter is None else f"hf:{start}#{adapter}"
            policy = load_checkpoint_policy(world.task, spec, name=name, settings=settings)
        else:
            policy = served_policy(world.task, sync, start, adapter, name=name, settings=settings)
        episodes[name] = play(run, world, policy, "test", f"test-{name}", k=K, greedy=True)
    if run.writes:
        _write_down(run, world, episodes)


def _write_down(run: Run, world: ClinicalWorld, episodes: dict[str, list[Episode]]) -> None:
    audited = audit(
        [episode for played in episodes.values() for episode in played],
        episodes["start"],
        tasks=[world],
    )
    run.note(test={policy.policy: _found(policy) for policy in audited.policies})
    notes, figures = _proxy_audit(run, world)
    run.clock()
    run.note(status="finished")
    page = _report(run, world, audited, notes, figures)
    (run.folder / "report.html").write_text(page, encoding="utf-8")
    card = grpo_card(run.data, run.config)
    (run.folder / "README.md").write_text(card, encoding="utf-8")
    for role in ("best", "last"):
        if (run.folder / role).is_dir():
            (run.folder / role / "README.md").write_text(card, encoding="utf-8")
    run.say(f"report: {run.folder / 'report.html'}")


def _proxy_audit(run: Run, world: ClinicalWorld) -> tuple[list[str], tuple[Figure, ...]]:
    """Where the training reward was a proxy: what it paid for, in words and drawn."""
    proxy = run.config.reward.proxy
    if proxy is None:
        return [], ()
    findings, figure = audit_proxy(run, world.task, proxy)
    run.note(reward_audit={f"{one.rule} / {one.subject}": one.verdict.value for one in findings})
    return told(findings, proxy), (figure,)


def _report(
    run: Run,
    world: ClinicalWorld,
    audited: Audit,
    proxy_notes: list[str],
    proxy_figures: tuple[Figure, ...],
) -> str:
    data, config = run.data, run.config
    course = Course(
        name=config.reward.variant, validation=run.rows("validation"), metrics=run.rows("metrics")
    )
    title = f"GRPO {config.reward.variant} on {world.name}"
    return render_report(
        audited,
        title=title if data["eligible"] else f"NOT ELIGIBLE: {title}",
        notes=[
            eligibility(data),
            f"Training {data['reward']['words']}.",
            f"{config.optim.steps} updates of {config.optim.groups} cases x "
            f"{config.optim.rollouts} rollouts, seed {config.seed}. One seed makes no claim about "
            "a method.",
            f"The baseline is the start. {_which(data)}",
            *proxy_notes,
        ],
        figures=(*proxy_figures, *draw_curves([course])),
    )


def _which(data: dict[str, Any]) -> str:
    last = data["last"]["policy"]
    if data["best"] is None:
        return f"No update was free of high-risk regression on validation; {last} is the last."
    return (
        f"{data['best']['policy']} has the highest validation value among the updates without "
        f"high-risk regression, {last} is the last."
    )


def _found(policy: PolicyAudit) -> dict[str, Any]:
    """What `run.json` keeps of one policy on the test set."""
    groups = {
        group: policy.sample.where(lambda row, g=group: row.group == g)  # type: ignore[misc]
        for group in policy.world.prevalence
    }
    parts = {"": policy.metrics} | {g: measure(s, policy.world) for g, s in groups.items()}
    plain = {
        part: {name: asdict(getattr(metrics, name)) for name in (*CURVES, "greedy_value", "regret")}
        for part, metrics in parts.items()
    }
    return {
        **plain.pop(""),
        "groups": plain,
        "gain": None if policy.gain is None else asdict(policy.gain),
        "status": policy.status,
        "flags": {flag.name: flag.verdict.value for flag in policy.flags},
    }
