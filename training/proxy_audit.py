"""What the proxy that a run was trained on paid for, beside a better judge of the same episodes.

    reward_rows.jsonl    the validation episodes of every evaluation as rows of `reward-audit`
    reward_audit.json    what `clinical-envs reward-audit --json` finds in them

Reference rewards are computed here, after training, and nowhere before.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clinical_envs.episode import Episode, read_episodes
from clinical_envs.task import Task
from oracles.report.drawing import ACCENT, MUTED, RULE, Figure, page_style, page_svg
from oracles.reward_audit.audit import as_json, audit_reward
from oracles.reward_audit.findings import Finding, Status
from oracles.reward_audit.records import Log, RewardRow, read_log
from training.proxies import Proxy, make_proxy
from training.runs import Run, policy_name

ROWS, FINDINGS = "reward_rows.jsonl", "reward_audit.json"
Checkpoint = tuple[int, Sequence[Episode]]


def audit_proxy(run: Run, task: Task, name: str) -> tuple[tuple[Finding, ...], Figure]:
    """Write the rows and the audit of a finished run; its findings, and a figure for its report."""
    proxy, k = make_proxy(task, name), run.config.validation.k
    played = ((row["update"], _sampled(run, row["update"], k)) for row in run.rows("validation"))
    log = write_rows(run.folder / ROWS, proxy, played, seed=run.config.seed)
    findings = audit_reward(log)
    text = json.dumps(as_json(log, findings), indent=1)
    (run.folder / FINDINGS).write_text(text + "\n", encoding="utf-8")
    return findings, draw_proxy(log.rewards)


def write_rows(file: Path, proxy: Proxy, checkpoints: Iterable[Checkpoint], *, seed: int) -> Log:
    """The rows of checkpoints (update, episodes) into a file, as `reward-audit` reads them."""
    with file.open("w", encoding="utf-8") as lines:
        for update, episodes in checkpoints:
            generator = np.random.default_rng([seed, update])
            for row in proxy.rows(episodes, update, generator):
                lines.write(json.dumps(row) + "\n")
    return read_log([file])


def told(findings: Sequence[Finding], name: str) -> list[str]:
    """The audit in the words of a report: what is flagged and what to do, or that nothing is."""
    up = [finding for finding in findings if finding.verdict is Status.FLAG]
    head = (
        f"Reward audit of the proxy {name} on the validation episodes ({ROWS}, {FINDINGS}): "
        f"{len(findings)} findings, {len(up)} flagged."
    )
    return [head, *(f"{one.rule} ({one.subject}): {one.prescription}." for one in up)]


def draw_proxy(rows: Sequence[RewardRow]) -> Figure:
    """The proxy and the reference by update, with 95 % intervals over cases."""
    from matplotlib.figure import Figure as Canvas

    with page_style("proxy"):
        figure = Canvas(figsize=(6.4, 3.2), dpi=72, layout="constrained")
        axes = figure.subplots()
        for name, colour in (("reward", ACCENT), ("reference", MUTED)):
            points = _means(rows, name)
            updates = [update for update, *_ in points]
            label = "proxy, trained on" if name == "reward" else "reference, never trained on"
            axes.plot(updates, [mean for _, mean, _ in points], color=colour, label=label)
            low, high = ([m + sign * half for _, m, half in points] for sign in (-1, 1))
            axes.fill_between(updates, low, high, color=colour, alpha=0.14, linewidth=0)
        axes.set_xlabel("update")
        axes.set_ylabel("mean reward")
        axes.grid(color=RULE, linewidth=0.6)
        axes.legend(frameon=False)
        svg = page_svg(figure, "Proxy and reference reward by update")
    return Figure(
        title="Proxy and reference",
        svg=svg,
        caption="What the training reward pays for the validation episodes of each update, and "
        "what its reference pays for the same episodes, both without question costs. Bands are "
        "95 % intervals over cases.",
    )


def _means(rows: Sequence[RewardRow], name: str) -> list[tuple[int, float, float]]:
    """Update, mean over cases, half its 95 % interval; unscored rows are left out."""
    cells: dict[int, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        value = getattr(row, name)
        if value is not None:
            cells[row.step][row.prompt].append(value)
    points = []
    for update, prompts in sorted(cells.items()):
        means = np.array([np.mean(values) for values in prompts.values()])
        half = 1.96 * float(means.std(ddof=1)) / np.sqrt(len(means)) if len(means) > 1 else 0.0
        points.append((update, float(means.mean()), float(half)))
    return points


def _sampled(run: Run, update: int, k: int) -> list[Episode]:
    """The first k sampled episodes of each case; the start has more, for its gate."""
    name = "start" if update == 0 else policy_name(update)
    return [
        episode
        for episode in read_episodes(run.episodes(f"validation-{name}")).episodes
        if not episode.greedy and (episode.rollout or 0) < k
    ]
