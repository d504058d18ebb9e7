"""Claims of answers against passages, as rows of the reward audit."""

from __future__ import annotations

from clinical_envs.checkedqa.checkers import Label, RuleChecker
from oracles.reward_audit.records import CheckRow, RewardRow, read_lines
from tests.judges.scripted import Scripted, down, verdicts
from training.judges.asking import Judge
from training.judges.checkers import JudgeChecker
from training.judges.claims import check_answers
from training.judges.files import Cited

ANSWER = Cited(
    prompt="p",
    rollout=3,
    step=25,
    policy="base",
    question="Does drug X help?",
    answer="Drug X reduced pain. Drug X cured mice.",
    passages=["Drug X reduced pain in adults."],
    truth=[Label.ENTAIL, None],
    base=0.8,
    searches=2,
)


def test_every_claim_has_a_check_and_the_answer_a_reward() -> None:
    first, second, reward = check_answers([ANSWER], RuleChecker(least_overlap=0.3))
    assert isinstance(first, CheckRow)
    assert isinstance(second, CheckRow)
    assert (first.claim, first.policy, first.step, first.rollout) == (0, "base", 25, 3)
    assert (first.truth, second.truth) == (Label.ENTAIL, None)
    assert second.verdict is Label.NEUTRAL
    assert second.meta == {"claim": "Drug X cured mice.", "probs": (0.0, 1.0, 0.0)}
    assert isinstance(reward, RewardRow)
    assert (reward.claims, reward.searches, reward.foreign_share) == (2, 2, 0.0)
    assert reward.reward == 0.8 * (reward.phi or 0)


def test_the_reward_audit_reads_every_row() -> None:
    rows = check_answers([ANSWER], RuleChecker())
    log = read_lines(row.model_dump_json() for row in rows)
    assert (len(log.checks), len(log.rewards), log.damaged) == (2, 1, [])


def test_a_failed_claim_is_missing_and_so_are_phi_and_reward() -> None:
    checker = JudgeChecker(Judge(Scripted([verdicts(True, False), down()]), "m"))
    one, two, reward = check_answers([ANSWER], checker, workers=1)
    assert isinstance(one, CheckRow)
    assert isinstance(two, CheckRow)
    assert (one.verdict, two.verdict) == (Label.ENTAIL, None)
    assert "probs" not in two.meta
    assert isinstance(reward, RewardRow)
    assert (reward.phi, reward.reward) == (None, None)


def test_without_passages_nothing_is_asked_and_every_claim_is_neutral() -> None:
    model = Scripted([])
    closed = ANSWER.model_copy(update={"passages": [], "base": None})
    one, _, reward = check_answers([closed], JudgeChecker(Judge(model, "m")))
    assert isinstance(one, CheckRow)
    assert one.verdict is Label.NEUTRAL
    assert isinstance(reward, RewardRow)
    assert (reward.phi, reward.reward, model.heard) == (0.5, None, [])
