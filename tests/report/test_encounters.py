from __future__ import annotations

import json

import pytest

from oracles import Audit, explain, make_world
from oracles.clinical import ClinicalWorld
from oracles.flags import Verdict
from oracles.report import content, page
from oracles.report.encounters import choose_encounters
from tests.report.pages import Page


def test_every_example_of_a_flag_is_in_the_viewer(tour: Audit) -> None:
    chosen = choose_encounters(tour)
    for policy in tour.policies:
        for flag in policy.flags:
            for row in flag.examples:
                record = chosen.records[chosen.number_of[id(row)]]
                assert flag.name in record["flags"]
                assert record["policy"] == policy.policy
                assert record["reward"] == pytest.approx(row.reward, abs=1e-4)


def test_every_policy_has_an_encounter(tour: Audit) -> None:
    shown = {(record["policy"], record["split"]) for record in choose_encounters(tour).records}
    assert shown == {(policy.policy, policy.split) for policy in tour.policies}


def test_a_record_says_what_the_explanation_says(tour: Audit) -> None:
    world = make_world("titration")
    assert isinstance(world, ClinicalWorld)
    chosen = choose_encounters(tour)
    rows = {id(row): row for policy in tour.policies for row in policy.sample.rows}
    for identity, number in chosen.number_of.items():
        record, row = chosen.records[number], rows[identity]
        explained = explain(world.oracle, row.episode)
        assert sum(turn["regret"] for turn in record["turns"]) == pytest.approx(
            row.regret, abs=1e-3
        )
        for plain, turn in zip(record["turns"], explained.turns, strict=True):
            assert plain["same"] == (turn.action == turn.best)
            assert plain["value"] == pytest.approx(turn.value, abs=1e-4)
            assert sum(plain["belief"]) == pytest.approx(1.0, abs=1e-3)
        assert len(record["unknown"]) == len(explained.unknown)
        assert record["oracle"]["reward"] == pytest.approx(row.oracle_reward, abs=1e-4)
        asks = [step for step in record["oracle"]["path"] if step.startswith("ask ")]
        assert len(asks) == row.oracle_asks
        assert record["oracle"]["path"][-1] == f"commit {row.oracle_decision}"


def test_flags_that_are_up_come_first_when_the_page_is_full(
    tour: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = choose_encounters(tour, limit=20_000)
    assert 0 < len(few.records) < len(choose_encounters(tour).records)
    assert len(json.dumps(few.records)) < 25_000
    up = {
        flag.name
        for policy in tour.policies
        for flag in policy.flags
        if flag.verdict is Verdict.FLAG
    }
    assert any(set(record["flags"]) & up for record in few.records)

    monkeypatch.setattr(page, "choose_encounters", lambda audit: few)
    html = page.render_report(tour)
    assert f"{few.left_out} more were left out" in Page(html).words
    linked = html.count('href="#encounter-')
    parts = content.arrange(tour, {}, few)
    rows = [
        r for p in parts for s in p.splits for e in s.entries for f in e.flags for r in f.examples
    ]
    assert linked == sum(row.number is not None for row in rows) < len(rows)


def test_the_data_cannot_leave_its_element(tour: Audit) -> None:
    text = str(choose_encounters(tour).embed())
    assert not set("<>&") & set(text)
    assert json.loads(text)["records"]
