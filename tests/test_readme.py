"""The README tells the truth: its blocks run, its numbers are computed again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clinical_envs import load_task, task_ids
from oracles import exact_value, make_policy, solve

README = Path(__file__).parents[1] / "README.md"
TEXT = README.read_text(encoding="utf-8")


def _rows(header: str) -> list[list[str]]:
    lines = TEXT[TEXT.index(header) :].splitlines()[2:]
    table = []
    for line in lines:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL))
def test_each_python_block_runs(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block, str(README), "exec"), {})
    assert capsys.readouterr().out.strip()


def test_the_table_of_tasks_is_the_oracles() -> None:
    rows = {row[0]: row for row in _rows("| task | id |")}
    assert len(rows) == len(task_ids())
    for name, row in rows.items():
        task, oracle = load_task(name), solve(name)
        asks = exact_value(task, make_policy("oracle", oracle)).mean_asks
        high = task.group_prevalence[task.risk_groups.index(task.high_risk_group)]
        assert row == [
            name,
            f"`{task.id}`",
            str(len(task.findings)),
            str(len(task.decisions)),
            str(task.turn_cap),
            f"{oracle.optimal_value:.4f}",
            f"{oracle.best_constant[1]:.4f}",
            f"{oracle.best_constant_gap:.4f}",
            f"{asks:.3f}",
            f"{100 * high:.0f} %",
        ]


def test_the_table_of_policies_is_enumerated() -> None:
    header = "| policy | diagnostics |"
    columns = [cell.strip() for cell in TEXT[TEXT.index(header) :].splitlines()[0].split("|")]
    names = [name for name in columns if name in {load_task(i).name for i in task_ids()}]
    oracles = {name: solve(name) for name in names}
    rows = _rows(header)
    assert len(rows) == 8
    for policy, *cells in rows:
        expected = []
        for name in names:
            task = oracles[name].task
            exact = exact_value(task, make_policy(policy, oracles[name]))
            high, decision = task.high_risk_group, next(iter(task.high_acuity))
            expected += [
                exact.value,
                exact.mean_asks,
                exact.over(exact.reward, group=high),
                exact.decision_rate(decision, group=high),
            ]
        assert len(cells) == len(expected)
        for cell, value in zip(cells, expected, strict=True):
            digits = len(cell.partition(".")[2])
            # a half of the last digit may round either way, as the processor sums
            assert float(cell) == pytest.approx(value, abs=0.5 * 10**-digits + 1e-9), policy


def test_what_the_readme_says_of_myopic_is_enumerated() -> None:
    said = re.search(
        r"within (0\.\d+) of the optimum.*?treats (\d+) %.*?instead of (\d+) %", TEXT, re.S
    )
    assert said
    oracle = solve("diagnostics")
    myopic, best = (
        exact_value(oracle.task, make_policy(name, oracle)) for name in ("myopic", "oracle")
    )
    assert 0.0 < best.value - myopic.value <= float(said[1])
    rates = [100 * e.decision_rate("emergent_tx", group="high") for e in (myopic, best)]
    assert [f"{rate:.0f}" for rate in rates] == [said[2], said[3]]


def test_the_first_screen_has_no_badge_and_says_what_it_is_not() -> None:
    first = "\n".join(TEXT.splitlines()[:12])
    assert "not** a clinical tool" in first
    assert "![" not in TEXT


def test_every_command_of_the_readme_exists() -> None:
    from typer.main import get_command

    from training.cli import app

    known = set(get_command(app).commands)
    used = set(re.findall(r"^clinical-envs ([\w-]+)", TEXT, flags=re.MULTILINE))
    assert used
    assert used <= known
