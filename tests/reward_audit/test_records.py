"""The reader: total, names damaged lines, keeps unscored apart from 0."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.errors import InvalidArgument
from clinical_envs.rubric.verifiers import Leniency
from oracles.reward_audit.records import read_lines, read_log, row_schema

REWARD = {"kind": "reward", "step": 0, "prompt": "p", "rollout": 0, "reward": 0.5}
CHECK = {"kind": "check", "step": 0, "prompt": 1, "rollout": 0, "claim": 0, "verdict": "ENTAIL"}
JUDGMENT = {
    "kind": "judgment",
    "step": 0,
    "prompt": 1,
    "criterion": "c",
    "training": True,
    "panel": [True, None, False],
    "cause": "A.1",
}
json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def lines(*rows):
    return [json.dumps(row) for row in rows]


@given(st.lists(st.text() | st.binary() | json_value.map(json.dumps)))
def test_the_reader_accepts_any_lines_and_accounts_for_each(given_lines):
    log = read_lines(given_lines)
    written = sum(bool(line.strip()) for line in given_lines)
    read = len(log.judgments) + len(log.checks) + len(log.rewards)
    assert read + len(log.damaged) == written


@given(st.sampled_from([REWARD, CHECK, JUDGMENT]), st.data())
def test_any_value_in_any_field_is_read_or_named(row, data):
    field = data.draw(st.sampled_from(sorted(row)))
    log = read_lines(lines(row | {field: data.draw(json_value)}))
    assert len(log.judgments) + len(log.checks) + len(log.rewards) + len(log.damaged) == 1


def test_the_three_kinds_go_where_they_belong():
    log = read_lines(lines(REWARD, CHECK, JUDGMENT))
    assert (len(log.rewards), len(log.checks), len(log.judgments)) == (1, 1, 1)
    assert log.judgments[0].cause is Leniency.MISSING_CONJUNCT
    assert log.judgments[0].panel == [True, None, False]
    assert log.damaged == []


def test_nan_is_read_as_unscored_and_never_as_0():
    log = read_lines([json.dumps(REWARD | {"reward": float("nan"), "phi": None})])
    assert log.rewards[0].reward is None
    assert log.rewards[0].phi is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"reward": float("inf")}, "reward"),
        ({"reward": "0.5"}, "reward"),
        ({"step": -1}, "step"),
        ({"step": True}, "step"),
        ({"step": 0.5}, "step"),
        ({"rewrd": 1}, "rewrd"),
        ({"foreign_share": 1.2}, "foreign_share"),
        ({"kind": "score"}, "score"),
    ],
)
def test_a_row_that_breaks_a_rule_is_named_with_its_field(change, reason):
    log = read_lines(lines(REWARD, REWARD | {"rollout": 1} | change), "run.jsonl")
    assert len(log.rewards) == 1
    damage = log.damaged[0]
    assert (damage.source, damage.line) == ("run.jsonl", 2)
    assert reason in damage.reason


def test_a_verdict_that_is_not_a_boolean_is_damage_and_not_false():
    log = read_lines(lines(JUDGMENT | {"training": "yes"}, JUDGMENT | {"training": 1}))
    assert [damage.line for damage in log.damaged] == [1, 2]


def test_foreign_keys_have_a_place():
    assert read_lines(lines(REWARD | {"meta": {"lr": 1e-6}})).rewards[0].meta == {"lr": 1e-6}


def test_a_repeated_row_is_damage_that_names_the_first():
    log = read_lines(lines(REWARD, CHECK, REWARD | {"reward": 0.9}, REWARD | {"prompt": 1}))
    assert len(log.rewards) == 2
    assert (log.damaged[0].line, log.damaged[0].reason) == (3, "repeats the row of lines:1")


def test_files_are_read_together_and_a_truncated_last_line_is_named(tmp_path):
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    one.write_text("\n".join(lines(REWARD, CHECK)) + "\n\n")
    two.write_bytes(json.dumps(JUDGMENT).encode() + b'\n{"kind": "rew\xff')
    log = read_log([one, two])
    assert (len(log.rewards), len(log.checks), len(log.judgments)) == (1, 1, 1)
    assert [(damage.source, damage.line) for damage in log.damaged] == [(str(two), 2)]
    with pytest.raises(InvalidArgument, match="cannot be read"):
        read_log([tmp_path / "absent.jsonl"])


def test_the_schema_lists_all_kinds():
    assert set(row_schema()["discriminator"]["mapping"]) == {"judgment", "check", "reward"}
