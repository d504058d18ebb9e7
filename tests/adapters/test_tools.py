"""The tool environment, against the rules by which TRL reads one."""

from __future__ import annotations

import inspect
import json
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.adapters.text import ClinicalTextEnv
from clinical_envs.adapters.tools import ToolEnvironment, tool_environment
from clinical_envs.catalog import load_task
from clinical_envs.errors import EpisodeOver, InvalidArgument, UnknownTask
from clinical_envs.task import Task
from tests.strategies import tasks

ROW = {"split": "train", "seed": 12345, "index": 3}


def offered_tools(environment: object) -> list[str]:
    """The rule of TRL's GRPO trainer: every bound method without an underscore, less two."""
    return [
        name
        for name, _ in inspect.getmembers(environment, predicate=inspect.ismethod)
        if name not in ("reset", "get_reward") and not name.startswith("_")
    ]


def started(**row: Any) -> ToolEnvironment:
    environment = tool_environment("sore_throat")()
    environment.reset(**(ROW | row))
    return environment


def test_exactly_ask_and_commit_are_offered_before_and_after_a_reset() -> None:
    environment = tool_environment("diagnostics")()
    assert offered_tools(environment) == ["ask", "commit"]
    environment.reset(**ROW)
    assert offered_tools(environment) == ["ask", "commit"]
    assert [name for name in vars(environment) if not name.startswith("_")] == []


@pytest.mark.parametrize(("tool", "argument"), [("ask", "finding"), ("commit", "decision")])
def test_a_tool_has_types_and_a_documented_argument_for_its_schema(
    tool: str, argument: str
) -> None:
    method = getattr(tool_environment("refill")(), tool)
    assert get_type_hints(method) == {argument: str, "return": str}
    assert f"\nArgs:\n    {argument}: " in inspect.cleandoc(method.__doc__)


def test_the_class_is_named_after_its_task_and_made_without_arguments() -> None:
    made = tool_environment("ClinicalDx-v0")
    assert made.__name__ == "ClinicalDxToolEnvironment"
    assert issubclass(made, ToolEnvironment)
    assert made().reset(**ROW) == made().reset(**ROW)


def test_the_description_lists_every_finding_and_decision_and_asks_for_no_json() -> None:
    task = load_task("diagnostics")
    text = tool_environment(task, rho=0.5)().reset(**ROW)
    assert all(name in text for name in (*task.finding_ids, *task.decision_ids))
    assert "JSON" not in text
    assert "Known at the start" in text


@given(
    tasks(),
    st.sampled_from((0.0, 1.0)),
    st.integers(0, 1000),
    st.lists(st.integers(0, 8), min_size=6, max_size=6),
)
def test_calls_give_what_the_text_environment_gives(
    task: Task, rho: float, seed: int, script: list[int]
) -> None:
    tools, text = tool_environment(task, rho)(), ClinicalTextEnv(task, rho=rho)
    tools.reset(split="train", seed=seed, index=5)
    text.reset(seed=seed, options={"index": 5})
    findings, decisions = len(task.findings), len(task.decisions)
    over, turn = False, 0
    while not over:
        choice = script[turn] % (findings + decisions + 1)
        name = (*task.finding_ids, *task.decision_ids, "nothing_of_that_name")[choice]
        asks = choice < findings or choice == findings + decisions
        written = (
            {"action": "ask", "finding": name} if asks else {"action": "commit", "decision": name}
        )
        answer = tools.ask(name) if asks else tools.commit(name)
        shown, _, over, _, info = text.step(json.dumps(written))
        if not over:
            assert answer == shown
        turn += 1
    assert tools.get_reward() == info["outcome"]["reward"]


def test_all_rollouts_of_a_row_meet_one_patient_and_a_pooled_instance_carries_nothing_over() -> (
    None
):
    names = load_task("sore_throat").finding_ids[:5]
    fresh = [[started().ask(name) for name in names][:1] for _ in range(3)]
    pooled = started(index=900)
    pooled.commit("antibiotics")
    pooled.reset(**ROW)
    assert fresh == [[pooled.ask(names[0])]] * 3
    assert pooled.get_reward() < 0.0


def test_a_rollout_that_stops_without_a_commit_scores_no_decision_and_its_questions() -> None:
    task = load_task("sore_throat")
    environment = started()
    state = environment._case.state
    assert environment.get_reward() == task.no_decision_utility[state]
    environment.ask("fever")
    environment.ask("no such finding")
    assert environment.get_reward() == task.no_decision_utility[state] - 2 * task.question_cost


def test_a_name_that_is_none_costs_a_question_and_says_so() -> None:
    environment = started()
    assert json.loads(environment.ask("Fever")) == {"error": "unknown_finding", "turns_left": 5}
    assert json.loads(environment.ask(["fever"])) == {"error": "not_text", "turns_left": 4}
    assert json.loads(environment.commit("")) == {"error": "unknown_decision", "turns_left": 3}


def test_calls_after_the_end_or_before_the_start_are_refused_and_change_no_reward() -> None:
    environment = tool_environment("sore_throat")()
    for call in (lambda: environment.ask("fever"), environment.get_reward):
        with pytest.raises(EpisodeOver, match="reset"):
            call()
    environment.reset(**ROW)
    environment.commit("antibiotics")
    reward = environment.get_reward()
    with pytest.raises(EpisodeOver):
        environment.commit("self_care")
    assert environment.get_reward() == reward


def test_a_row_that_names_no_case_is_refused() -> None:
    environment = tool_environment("sore_throat")()
    with pytest.raises(InvalidArgument, match="no 'index'"):
        environment.reset(split="train", seed=1, prompt="hello")
    for bad in ({"index": -1}, {"index": "3"}, {"seed": -1}, {"seed": "x"}, {"split": "all"}):
        with pytest.raises(InvalidArgument):
            environment.reset(**(ROW | bad))
    with pytest.raises(UnknownTask):
        tool_environment("no_such_task")
    with pytest.raises(InvalidArgument, match="rho"):
        tool_environment("refill", rho=-1)
