from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.catalog import load_task
from clinical_envs.errors import InvalidArgument, TooLarge
from clinical_envs.simulator import Ask, Commit
from clinical_envs.task import Task
from oracles import exact_value, make_policy, solve, tree
from oracles.policy import Deterministic
from oracles.tree import Node, decision_tree, tree_json, tree_svg, tree_text, write_tree
from oracles.tree_drawing import acuity_colours, ink_on
from tests.strategies import tasks

# Nodes of the shipped oracles' trees, family by family (the calibration notes).
NODES = {"titration": (17,), "refill": (49, 39), "diagnostics": (41, 75)}
RULES = ("oracle", "best_constant", "ask_all", "myopic", "1_ask", "garbage")


def roots(task: Task, name: str) -> list[Node]:
    policy = make_policy(name, solve(task))
    return [decision_tree(task, policy, family) for family in range(len(task.families))]


@given(tasks(certain=True), st.sampled_from(RULES))
def test_the_roots_average_to_the_exact_value_and_asks(task: Task, name: str) -> None:
    exact = exact_value(task, make_policy(name, solve(task)))
    found = roots(task, name)
    asks = [
        sum(node.probability for node in root.walk() if isinstance(node.action, Ask))
        for root in found
    ]
    assert np.mean([root.value for root in found]) == pytest.approx(exact.value, abs=1e-9)
    assert np.mean(asks) == pytest.approx(exact.mean_asks, abs=1e-9)


@given(tasks(certain=True), st.sampled_from(RULES))
def test_probability_and_belief_of_a_node_are_shared_out_among_its_children(
    task: Task, name: str
) -> None:
    for root in roots(task, name):
        leaves = [node for node in root.walk() if not node.children]
        assert sum(leaf.probability for leaf in leaves) == pytest.approx(1.0)
        for node in root.walk():
            assert node.belief.sum() == pytest.approx(1.0)
            if node.children:
                below = [child.probability * child.belief for _, child in node.children]
                np.testing.assert_allclose(np.sum(below, axis=0), node.probability * node.belief)


@given(tasks())
def test_an_ask_costs_a_question_and_a_commit_pays_its_expected_utility(task: Task) -> None:
    for root in roots(task, "oracle"):
        for node in root.walk():
            if isinstance(node.action, Commit):
                expected = float(node.belief @ task.utility_matrix[:, node.action.decision])
            else:
                below = [child.probability * child.value for _, child in node.children]
                expected = sum(below) / node.probability - task.question_cost
            assert node.value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", NODES)
def test_every_writer_has_one_entry_a_node(name: str) -> None:
    oracle = solve(name)
    policy, nodes = make_policy("oracle", oracle), sum(NODES[name])
    assert [sum(1 for _ in root.walk()) for root in roots(oracle.task, "oracle")] == [*NODES[name]]

    text = tree_text(oracle.task, policy)
    assert sum("ask " in line or "commit " in line for line in text.splitlines()) == nodes

    found = json.loads(tree_json(oracle.task, policy))
    assert sum(count(found["families"][family]) for family in oracle.task.family_ids) == nodes

    svg = ElementTree.fromstring(tree_svg(oracle.task, policy))
    namespace = "{http://www.w3.org/2000/svg}"
    assert len(svg.findall(f".//{namespace}title")) == nodes
    assert len(svg.findall(f".//{namespace}path")) == nodes - len(NODES[name])


def count(node: dict[str, object]) -> int:
    below = [node[key] for key in ("yes", "no", "next") if key in node]
    return 1 + sum(count(child) for child in below if isinstance(child, dict))


def test_the_json_tree_holds_the_value_of_the_task() -> None:
    oracle = solve("titration")
    root = json.loads(tree_json(oracle.task, make_policy("oracle", oracle)))["families"][
        "anticoagulation"
    ]
    assert root["ask"] == "high_cha2ds2vasc"
    assert root["value"] == pytest.approx(oracle.optimal_value)
    assert root["yes"]["probability"] + root["no"]["probability"] == pytest.approx(1.0)
    assert root["belief"]["clot_low_bleed_low"] == pytest.approx(0.264)


def test_a_policy_that_never_decides_is_a_chain_to_the_last_turn() -> None:
    oracle = solve("titration")
    root = decision_tree(oracle.task, make_policy("garbage", oracle), 0)
    assert [node.label for node in root.walk()] == ["invalid (not_json)"] * 10 + ["out of turns"]


def test_names_from_outside_stay_text_in_the_drawing() -> None:
    oracle = solve("titration")
    hostile = Deterministic('<script>alert("x")</script>\x00&', oracle.act)
    svg = tree_svg(oracle.task, hostile)
    assert "<script" not in svg
    assert '<script>alert("x")</script>' in "".join(ElementTree.fromstring(svg).itertext())


def test_the_ending_of_the_file_chooses_the_writer(tmp_path: Path) -> None:
    oracle = solve("titration")
    policy = make_policy("oracle", oracle)
    for ending, start in ((".txt", "ClinicalTitration"), (".json", "{"), (".svg", "<svg")):
        path = tmp_path / f"tree{ending}"
        write_tree(path, oracle.task, policy)
        assert path.read_text(encoding="utf-8").startswith(start)
    with pytest.raises(InvalidArgument, match=r"no tree as '\.jsn'; did you mean '\.json'\?"):
        write_tree(tmp_path / "tree.jsn", oracle.task, policy)


def test_an_answer_that_only_an_impossible_state_gives_has_no_branch() -> None:
    data = load_task("titration").model_dump(mode="json") | {"high_acuity": {}, "checklist": {}}
    data["states"][0]["prior"] += data["states"][8]["prior"]
    data["states"][8]["prior"] = 0.0
    data["findings"][0]["p"]["anticoagulation"] = [0.0] * 8 + [1.0]
    task = Task.model_validate(data)
    policy = Deterministic("one", lambda info: Commit(0) if info.knows(0) else Ask(0))
    root = decision_tree(task, policy, 0)
    assert [answer for answer, _ in root.children] == [False]


def test_a_policy_that_draws_its_actions_has_no_tree() -> None:
    oracle = solve("titration")
    with pytest.raises(InvalidArgument, match="draws its actions"):
        decision_tree(oracle.task, make_policy("random", oracle), 0)


def test_a_tree_too_large_to_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    oracle = solve("titration")
    monkeypatch.setattr(tree, "MAX_TREE_LEAVES", 5)
    with pytest.raises(TooLarge, match="over 5 leaves"):
        decision_tree(oracle.task, make_policy("oracle", oracle), 0)


@given(st.integers(1, 40))
def test_every_acuity_colour_carries_readable_text(n: int) -> None:
    colours = acuity_colours(n)
    assert len(colours) == n
    for colour in colours:
        light, dark = sorted([luminance(colour), luminance(ink_on(colour))], reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5  # WCAG 2 AA


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(a * b for a, b in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))
