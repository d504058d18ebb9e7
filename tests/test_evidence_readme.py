"""The page of the evidence worlds tells the truth: every number and every turn is made again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from importlib import resources

import gymnasium as gym
import pytest

from clinical_envs import load_task
from clinical_envs.belief import InfoState
from clinical_envs.catalog import evidence_ids
from clinical_envs.checkedqa.cascade import Stage
from clinical_envs.checkedqa.checkers import RuleChecker
from clinical_envs.checkedqa.simulated import COLLAPSED, GPT_LIKE, MODERATE
from clinical_envs.checkedqa.world import questions
from clinical_envs.factcheck.studies import STUDIES
from clinical_envs.factcheck.training_rewards import canonical_reward
from clinical_envs.rubric.training_rewards import proxy_utilities
from clinical_envs.rubric.verifiers import STRICT, WEAK, Leniency
from clinical_envs.simulator import Action
from clinical_envs.task import FloatArray, Task
from oracles import exact_value, make_policy, solve
from oracles.policy import Deterministic
from tests.checkedqa.proxy_optimum import optimum as checker_optimum
from tests.factcheck.worlds import optimum

PAGE = resources.files("clinical_envs") / "tasks" / "evidence" / "README.md"
TEXT = PAGE.read_text(encoding="utf-8")
Play = Callable[[InfoState], Action]


def _rows(header: str) -> list[list[str]]:
    lines = TEXT[TEXT.index(header) :].splitlines()[2:]
    table = []
    for line in lines:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table


def test_the_table_of_worlds_is_the_oracles() -> None:
    rows = _rows("| world | id |")
    assert sorted(row[1].strip("`") for row in rows) == sorted(evidence_ids())
    for row in rows:
        task, oracle = load_task(row[0]), solve(row[0])
        asks = exact_value(task, make_policy("oracle", oracle)).mean_asks
        assert row == [
            task.name,
            f"`{task.id}`",
            str(len(task.findings)),
            str(len(task.decisions)),
            str(task.turn_cap),
            f"{oracle.optimal_value:.4f}",
            f"{oracle.best_constant[1]:.4f}",
            f"{oracle.best_constant_gap:.4f}",
            f"{asks:.3f}",
        ]


def test_the_numbers_in_words_are_the_worlds() -> None:
    assert {load_task(name).question_cost for name in evidence_ids()} == {0.03}
    assert "Each ask costs 0.03" in TEXT
    assert STUDIES == 5
    assert "one body of evidence, five studies" in TEXT
    assert len(questions("benefit")[0].passages) == 7
    assert "searches of seven passages" in TEXT
    assert len(Leniency) == 6
    assert "up to six leniencies" in TEXT


def _fact_checking(name: str, cost: float) -> Play:
    task = load_task(name)
    priced = Task.model_validate(task.model_dump(mode="json") | {"question_cost": cost})

    @cache
    def known(asked: int, present: int, left: int, decision: int) -> FloatArray:
        return canonical_reward(task, InfoState(0, asked, present, left), decision)

    def published(task: Task, info: InfoState, decision: int) -> FloatArray:
        left = 1 if info.asked else task.turn_cap
        return known(info.asked, info.present, left, decision)

    best = optimum(priced, published)
    return lambda info: best(info)[1]


def _rubric(leniencies: frozenset[Leniency]) -> Play:
    task = load_task("rubric")
    rewards = {"utility": proxy_utilities(task, leniencies), "no_decision": "worst"}
    return solve(Task.model_validate(task.model_dump(mode="json") | rewards)).act


CHECKED = load_task("checkedqa")
PROXIES: dict[tuple[str, str], Callable[[], Play]] = {
    ("factcheck", "published reward, searches free"): lambda: _fact_checking("factcheck", 0.0),
    ("factcheck", "published reward, searches charged"): lambda: _fact_checking("factcheck", 0.03),
    ("factcheck_label", "published reward, searches free"): lambda: _fact_checking(
        "factcheck_label", 0.0
    ),
    ("factcheck_label", "published reward, searches charged"): lambda: _fact_checking(
        "factcheck_label", 0.03
    ),
    ("checkedqa", "collapsed checker"): lambda: checker_optimum(CHECKED, COLLAPSED),
    ("checkedqa", "moderate checker"): lambda: checker_optimum(CHECKED, MODERATE),
    ("checkedqa", "lenient checker"): lambda: checker_optimum(CHECKED, GPT_LIKE),
    ("checkedqa", "lenient checker, fragments forbidden"): lambda: checker_optimum(
        CHECKED, GPT_LIKE, [Stage.ULTRA_SHORT]
    ),
    ("checkedqa", "rule checker"): lambda: checker_optimum(CHECKED, RuleChecker()),
    ("rubric", "strict verifier"): lambda: _rubric(STRICT),
    ("rubric", "weak verifier, all six leniencies"): lambda: _rubric(WEAK),
}


def _way(world: str, decision: str) -> str:
    """How a decision is written, in the words of the page."""
    if world == "factcheck_label":
        return "verdict alone"
    if world == "rubric":
        return "tailored" if decision.startswith("tailored") else decision
    return decision.rpartition("_")[2]


def test_the_page_lists_every_proxy() -> None:
    assert [(row[0], row[1]) for row in _rows("| world | optimum of |")] == list(PROXIES)


@pytest.mark.slow
@pytest.mark.parametrize("row", _rows("| world | optimum of |"), ids=lambda row: " ".join(row[:2]))
def test_what_the_verifier_pays_for_the_optimum_of_a_proxy(row: list[str]) -> None:
    world, name, paid, asks, writing = row
    task = load_task(world)
    exact = exact_value(task, Deterministic("proxy", PROXIES[world, name]()))
    assert (paid, asks) == (f"{exact.value:.4f}", f"{exact.mean_asks:.3f}")
    shares: dict[str, float] = {}
    for decision in task.decision_ids:
        way = _way(world, decision)
        shares[way] = shares.get(way, 0.0) + exact.decision_rate(decision)
    written = [f"{way} {100 * share:.0f} %" for way, share in shares.items() if share > 1e-9]
    assert writing == ", ".join(written)


@pytest.mark.parametrize(
    ("env_id", "block"), re.findall(r"^(Clinical\w+Text-v0)\n\n```\n(.*?)```", TEXT, re.M | re.S)
)
def test_a_turn_of_the_page_is_answered_as_shown(env_id: str, block: str) -> None:
    turn, shown = block.split("\n", maxsplit=1)
    env = gym.make(env_id, split="train")
    env.reset(seed=7)
    reply, *_ = env.step(turn)
    assert reply.startswith(shown.rstrip("\n"))


def test_each_world_shows_a_turn_and_an_ending_that_its_protocol_reads() -> None:
    shown = re.findall(r"^(Clinical\w+)Text-v0$", TEXT, re.M)
    assert sorted(f"{name}-v0" for name in shown) == sorted(evidence_ids())
    endings = re.findall(r"^It ends with `(\{.*?\})`", TEXT, re.M)
    assert len(endings) == len(shown)
    for name, ending in zip(shown, endings, strict=True):
        env = gym.make(f"{name}Text-v0", split="train")
        env.reset(seed=7)
        _, _, over, _, info = env.step(ending)
        unfinished = "..." in json.loads(ending).get("report", "")
        assert over or (unfinished and info["invalid"] == "bad_report")


def test_every_command_and_name_of_the_page_exists() -> None:
    from typer.main import get_command

    from training.cli import app

    used = set(re.findall(r"^clinical-envs ([\w-]+)", TEXT, flags=re.MULTILINE))
    assert used >= {"play", "gates", "evaluate", "audit", "reward-audit"}
    assert used <= set(get_command(app).commands)
    names = re.findall(r"`(clinical_envs\.[\w.]+)`", TEXT)
    assert len(names) == 4
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert hasattr(__import__(module, fromlist=[attribute]), attribute)
