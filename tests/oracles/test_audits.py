"""The guarded audit: everything found is judged, everything else is counted and named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from clinical_envs.case import CaseStream
from clinical_envs.catalog import load_task
from clinical_envs.episode import (
    CaseRef,
    CommitTurn,
    Episode,
    KeyMapping,
    read_episodes,
    write_episodes,
)
from clinical_envs.errors import InvalidArgument
from oracles.audits import PolicyAudit, audit
from oracles.clinical import ClinicalWorld
from oracles.evaluation import evaluate
from oracles.flags import Verdict
from tests.oracles.variants import changed

WORLD = ClinicalWorld(load_task("titration"))
KEY = WORLD.key


def episodes(
    policy: str, n: int = 60, k: int = 1, split: str = "heldout", seed: int = 100
) -> list[Episode]:
    cases = CaseStream(WORLD.task, split, seed).block(0, n)
    return evaluate(WORLD, WORLD.policy(policy), cases, k=k)


def only(found: Sequence[PolicyAudit]) -> PolicyAudit:
    (one,) = found
    return one


def reasons(broken: Sequence[Episode]) -> list[str]:
    found = audit(broken)
    assert found.policies == ()
    assert [bad.position for bad in found.refused] == list(range(1, len(broken) + 1))
    return [bad.reason for bad in found.refused]


def test_policies_and_splits_are_told_apart() -> None:
    mixed = [
        *episodes("oracle", 40),
        *episodes("best_constant", 40),
        *episodes("oracle", 40, split="train"),
    ]
    found = audit(mixed)
    assert [(p.world.key, p.policy, p.split) for p in found.policies] == [
        (KEY, "oracle", "heldout"),
        (KEY, "best_constant", "heldout"),
        (KEY, "oracle", "train"),
    ]
    assert (found.episodes, found.unscored, found.refused, found.damaged) == (120, 0, (), ())


def test_the_oracle_raises_no_flag_and_a_blind_policy_does() -> None:
    assert only(audit(episodes("oracle", 200)).policies).up == ()
    blind = only(audit(episodes("best_constant", 200)).policies)
    assert "blind_commitment" in blind.up
    assert blind.status == "FLAGGED"


def test_a_recorded_reward_is_not_trusted() -> None:
    honest = episodes("best_constant")
    boasting = [e.model_copy(update={"meta": {"reward": 9.0}}) for e in honest]
    mine, theirs = (only(audit(e).policies).metrics.value.value for e in (honest, boasting))
    assert mine == theirs


def test_a_damaged_line_is_named_by_number_and_the_rest_is_audited(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    write_episodes(path, episodes("oracle"))
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[4] = '{"task": '
    lines[9] = "[1, 2]"
    path.write_text("\n".join(lines) + '\n{"schema": 1, "ta', encoding="utf-8")
    found = audit(path)
    assert [bad.line for bad in found.damaged] == [5, 10, 61]
    assert all(bad.reason for bad in found.damaged)
    assert only(found.policies).metrics.n_episodes == found.episodes == 58


def test_an_empty_file_is_an_audit_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("", encoding="utf-8")
    found = audit(path)
    assert (found.policies, found.damaged, found.episodes) == ((), (), 0)
    json.dumps(found.to_dict())


def test_a_missing_file_is_an_error() -> None:
    with pytest.raises(InvalidArgument, match="nowhere"):
        audit("nowhere.jsonl")


def test_infrastructure_errors_are_counted_and_never_scored() -> None:
    good = episodes("oracle")
    lost = [e.model_copy(update={"turns": (), "meta": {"error": "server died"}}) for e in good[:7]]
    found = audit([*lost, *good[7:]])
    assert found.unscored == 7
    assert found.refused == ()
    metrics = only(found.policies).metrics
    assert metrics.n_episodes == 53
    honest = only(audit(good[7:]).policies).metrics
    assert metrics.value == honest.value


def test_an_episode_that_stands_twice_is_refused_once() -> None:
    good = episodes("oracle", 40, k=2)
    found = audit([*good, good[3], good[3]])
    assert [bad.position for bad in found.refused] == [81, 82]
    assert "stands twice" in found.refused[0].reason
    assert only(found.policies).metrics.n_episodes == 80


def test_a_refused_record_does_not_keep_a_good_one_out() -> None:
    good = episodes("oracle", 1)
    bad = good[0].model_copy(update={"turns": ()})
    found = audit([bad, *good])
    assert [refused.position for refused in found.refused] == [1]
    assert only(found.policies).metrics.n_episodes == 1


def test_records_that_contradict_their_task_themselves_or_their_case_are_refused() -> None:
    good = episodes("oracle", 1)[0]
    assert good.case is not None
    turns = good.turns
    other = {**dict(turns[0]), "answer": not turns[0].answer}  # type: ignore[union-attr]
    changes: list[tuple[dict[str, Any], str]] = [
        ({"task": "ClinicalTitration-v0@9.0.0"}, "this installation has"),
        ({"task": "Nothing-v0@1.0.0"}, "no task"),
        ({"family": "chest"}, "unknown family"),
        ({"state": "clot_high"}, "unknown state"),
        ({"turns": (*turns, turns[-1])}, "after the end"),
        ({"turns": turns[:-1]}, "not finished"),
        ({"turns": ()}, "not finished"),
        ({"turns": (*turns[:-1], CommitTurn(commit="operate"))}, "unknown decision"),
        ({"turns": (type(turns[0])(**other), *turns[1:])}, "contradicts case"),
        ({"case": good.case.model_copy(update={"index": 1})}, "contradicts case"),
        ({"case": CaseRef(split="exam", seed=1, index=1)}, "no split"),
        ({"case": CaseRef(split="train", seed=-1, index=1)}, "seed is -1"),
        ({"case": CaseRef(split="train", seed=1, index=-1)}, "index is -1"),
    ]
    broken = [good.model_copy(update=change) for change, _ in changes]
    for reason, (change, expected) in zip(reasons(broken), changes, strict=True):
        assert expected in reason, change


def test_a_case_index_beyond_the_generator_is_refused() -> None:
    good = episodes("oracle", 1)[0]
    far = good.model_copy(update={"case": CaseRef(split="train", seed=1, index=10**30)})
    assert "index" in reasons([far])[0]


def test_without_its_state_an_episode_has_an_expected_value_and_no_support() -> None:
    without = [e.model_copy(update={"state": None, "case": None}) for e in episodes("1_ask", 200)]
    found = only(audit(without).policies)
    metrics = found.metrics
    assert metrics.expected_value
    assert metrics.support_at_k.value is None
    assert metrics.oracle_gap.value is None
    assert metrics.regret.value == pytest.approx(0.0131, abs=0.004)  # notes: of 1_ask, exact
    verdicts = {flag.name: flag.verdict for flag in found.flags}
    assert verdicts["blind_commitment"] is Verdict.CLEAR
    assert verdicts["premature_commitment"] is not Verdict.SKIPPED
    assert verdicts["one_question_collapse"] is Verdict.SKIPPED


def test_with_its_case_but_not_its_state_support_is_skipped_too() -> None:
    """An expected reward is not held against a realised one."""
    rows = [e.model_copy(update={"state": None}) for e in episodes("oracle", 60)]
    found = only(audit(rows).policies)
    assert found.metrics.expected_value
    assert found.metrics.support_at_k.value is None
    assert found.metrics.chance_floor.value is None
    verdicts = {flag.name: flag.verdict for flag in found.flags}
    assert verdicts["one_question_collapse"] is Verdict.CLEAR


def test_the_gain_over_a_baseline_is_paired_on_shared_cases() -> None:
    found = only(audit(episodes("oracle", 80, k=2), episodes("best_constant", 60)).policies)
    assert found.gain is not None
    assert found.gain.n_cases == 60
    assert found.to_dict()["gain"]["value"] == found.gain.value
    assert only(audit(episodes("oracle")).policies).gain is None


def test_episodes_without_a_case_are_paired_with_none() -> None:
    """The third record of one file and the third of another need not be one patient."""
    ours, theirs = (
        [e.model_copy(update={"case": None}) for e in episodes(policy, 60)]
        for policy in ("1_ask", "oracle")
    )
    found = only(audit(ours, theirs).policies)
    assert found.metrics.n_cases == 60
    assert found.gain is not None
    assert (found.gain.value, found.gain.n_cases) == (None, 0)
    verdicts = {flag.name: flag.verdict for flag in found.flags}
    assert verdicts["high_risk_regression"] is Verdict.SKIPPED


def test_what_a_baseline_holds_and_cannot_be_used_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "baseline.jsonl"
    good = episodes("oracle", 40)
    broken = good[0].model_copy(update={"turns": ()})
    lost = good[1].model_copy(update={"meta": {"error": "server died"}})
    write_episodes(path, [broken, lost, *good[2:]])
    path.write_text(path.read_text(encoding="utf-8") + '{"half', encoding="utf-8")
    found = audit(episodes("oracle", 40), path)
    assert found.baseline_unused == 3
    assert only(found.policies).gain is not None
    assert only(found.policies).gain.n_cases == 38  # type: ignore[union-attr]


def test_a_value_that_rises_under_a_flag_is_exploitation() -> None:
    n = 400
    found = only(audit(episodes("1_ask", n), episodes("best_constant", n)).policies)
    assert found.gain is not None
    assert found.gain.low is not None
    assert found.gain.low > 0.0
    assert "one_question_collapse" in found.up
    assert found.exploiting
    assert found.status == "EXPLOITING"


def test_the_oracle_against_itself_neither_gains_nor_loses_however_often_it_is_played() -> None:
    """Means of 1 and of 7 equal rewards differ by rounding; here all to one side."""
    once, often = (episodes("oracle", 500, k, "test", seed=3) for k in (1, 7))
    for ours, theirs in ((once, often), (often, once)):
        found = only(audit(ours, theirs).policies)
        verdicts = {flag.name: flag.verdict for flag in found.flags}
        assert verdicts["high_risk_regression"] is Verdict.CLEAR
        assert not found.exploiting


def test_a_baseline_of_two_policies_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"\['1_ask', 'oracle'\]"):
        audit(episodes("oracle"), [*episodes("oracle"), *episodes("1_ask")])


def test_a_baseline_of_another_task_leaves_the_regression_undecided() -> None:
    refill = ClinicalWorld(load_task("refill"))
    other = evaluate(refill, refill.policy("oracle"), refill.cases("heldout"), k=1)
    found = only(audit(episodes("oracle"), other).policies)
    assert found.gain is None
    flag = next(flag for flag in found.flags if flag.name == "high_risk_regression")
    assert flag.verdict is Verdict.SKIPPED
    assert flag.detail.startswith("0 shared high-risk cases")


@pytest.mark.parametrize("content", ["", '{"half', "no task of ours"])
def test_a_baseline_without_one_usable_episode_is_refused(tmp_path: Path, content: str) -> None:
    """A gate against it would pass whatever was done."""
    path = tmp_path / "baseline.jsonl"
    if content == "no task of ours":
        (first, *_) = episodes("oracle", 1)
        write_episodes(path, [first.model_copy(update={"task": "Nowhere-v0@1.0.0"})])
    else:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidArgument, match="holds no episode to compare with"):
        audit(episodes("oracle"), path)


def test_a_task_of_the_users_own_is_audited_from_its_file(tmp_path: Path) -> None:
    task = changed(WORLD.task, id="MyTask-v0", name="my_task", question_cost=0.05)
    path = tmp_path / "my_task.yaml"
    data = task.model_dump(mode="json")
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    world = ClinicalWorld(load_task(path))
    cases = CaseStream(world.task, "train", 1).block(0, 20)
    mine = evaluate(world, world.policy("oracle"), cases, k=1)
    by_file = [e.model_copy(update={"task": str(path)}) for e in mine]
    named, filed = audit(mine, tasks=[path]), audit(by_file)
    assert only(named.policies).metrics == only(filed.policies).metrics
    assert only(filed.policies).world.key == "MyTask-v0@1.0.0"
    assert len(audit(mine).refused) == 20


def test_foreign_records_are_read_through_a_mapping(tmp_path: Path) -> None:
    path = tmp_path / "foreign.jsonl"
    mine = episodes("oracle", 40)
    foreign = [
        {
            "group": e.family,
            "truth": {"label": e.state},
            "dialogue": [
                {"q": t.ask, "a": t.answer} if hasattr(t, "ask") else {"final": t.commit}  # type: ignore[union-attr]
                for t in e.turns
            ],
        }
        for e in mine
    ]
    path.write_text("".join(json.dumps(r) + "\n" for r in foreign), encoding="utf-8")
    mapping = KeyMapping(
        rename={"family": "group", "state": "truth.label", "turns": "dialogue"},
        constants={"task": KEY, "policy": "theirs"},
        turns={"ask": "q", "answer": "a", "commit": "final"},
    )
    found = only(audit(path, mapping=mapping).policies)
    assert found.policy == "theirs"
    ours = only(audit(mine).policies).metrics
    assert found.metrics.value.value == pytest.approx(ours.value.value)
    assert found.metrics.regret.value == pytest.approx(0.0, abs=1e-12)


def test_parse_failures_alone_are_parse_fail_and_one_commit_is_not() -> None:
    mute = episodes("garbage", 40)
    assert only(audit(mute).policies).status == "PARSE-FAIL"
    spoken = [e.model_copy(update={"policy": "garbage"}) for e in episodes("oracle", 41)[40:]]
    assert only(audit([*mute, *spoken]).policies).status != "PARSE-FAIL"


def test_the_audit_is_plain_data() -> None:
    found = audit(episodes("1_ask", 60, k=2), episodes("oracle", 60))
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    policy = data["policies"][0]
    assert policy["name"] == "titration"
    assert policy["metrics"]["n_cases"] == 60
    assert [flag["verdict"] for flag in policy["flags"]]
    assert all(len(flag["examples"]) <= 3 for flag in policy["flags"])


def test_reading_a_file_and_passing_its_episodes_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    write_episodes(path, episodes("3_ask", 40, k=2))
    assert audit(path).to_dict() == audit(read_episodes(path)).to_dict()
