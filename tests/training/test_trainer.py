"""GRPO through TRL's own trainer: masks, advantages on tokens, and that it learns."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clinical_envs.simulator import Invalid
from clinical_envs.verifier import verify
from tests.training.toy import (
    NEEDS,
    OPTIMUM,
    fresh_model,
    patient,
    toy_config,
    toy_task,
    warm_model,
)
from training.advantages import Scale, advantages, turn_advantages
from training.dialogue import EpisodeSpeaker
from training.engine import Engine, Sampling
from training.rollouts import Scored

torch = pytest.importorskip("torch", reason=NEEDS)
pytest.importorskip("trl", reason=NEEDS)
trl_run = pytest.importorskip("tests.training.trl_run", reason=NEEDS)

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # TRL and PEFT use old names

GROUP = 4
CREDIT = {"variant": "credit", "entropy": 0.2}


def trained(out: Path, *, model: Any = None, **sections: Any) -> Any:
    """A trainer after two steps of 4 groups of 4."""
    policy = warm_model() if model is None else model
    trainer = trl_run.make_trainer(toy_config(**sections), policy, out)
    trainer.train()
    return trainer


def padded(rows: list[tuple[int, ...]], like: Any) -> Any:
    """Rows of a batch, padded on the right with zeros."""
    result = torch.zeros_like(like)
    for i, row in enumerate(rows):
        result[i, : len(row)] = torch.tensor(row)
    return result


def in_groups(values: list[Any]) -> list[list[Any]]:
    return [values[i : i + GROUP] for i in range(0, len(values), GROUP)]


def logged(trainer: Any, name: str) -> list[float]:
    return [float(row[name]) for row in trainer.state.log_history if name in row]


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_two_steps_train_on_the_tokens_and_advantages_of_the_rollouts(
    tmp_path: Path, scale: Scale
) -> None:
    trainer = trained(tmp_path, reward={**CREDIT, "scale": scale})
    assert len(trainer.seen) == trainer.state.global_step == 2
    for scored, output in trainer.seen:
        records = [rollout.record for rollout in scored]
        ids = output["completion_ids"] * output["completion_mask"]
        assert torch.equal(ids, padded([r.completion_ids for r in records], ids))
        trained_tokens = output["tool_mask"] * output["completion_mask"]
        assert torch.equal(trained_tokens, padded([r.env_mask for r in records], trained_tokens))
        assert output["num_items_in_batch"] == sum(sum(r.env_mask) for r in records)
        rewards = np.array(in_groups([rollout.reward for rollout in scored]))
        expected = advantages(rewards, scale).ravel()
        assert output["advantages"].numpy() == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert all(map(math.isfinite, logged(trainer, "loss") + logged(trainer, "grad_norm")))
    assert min(logged(trainer, "grad_norm")) > 0.0


def test_advantages_of_turns_land_on_the_tokens_of_their_turn(tmp_path: Path) -> None:
    trainer = trained(tmp_path, reward={**CREDIT, "per_turn": True, "scale": "batch"})
    for scored, output in trainer.seen:
        values = turn_advantages(in_groups([list(r.turn_rewards) for r in scored]), "batch")
        flat = [turns for group in values for turns in group]
        expected = torch.zeros(output["completion_ids"].shape)
        for row, (rollout, turns) in enumerate(zip(scored, flat, strict=True)):
            assert len(turns) == len(rollout.record.turns)
            for (start, end), value in zip(rollout.record.turns, turns, strict=True):
                expected[row, start:end] = value
        assert torch.allclose(output["advantages"], expected)
        assert (output["advantages"] != 0.0).sum() > 0
        assert (output["advantages"] * (1 - output["tool_mask"])).abs().max() == 0.0
    assert all(map(math.isfinite, logged(trainer, "loss")))


def test_the_loss_reads_no_environment_token(tmp_path: Path) -> None:
    trainer = trained(tmp_path, reward={**CREDIT, "per_turn": True, "scale": "batch"})
    inputs = trainer.seen[-1][1]
    mine = (inputs["tool_mask"] * inputs["completion_mask"]).bool()
    trainer.current_gradient_accumulation_steps = 1

    def loss(advantage: Any) -> float:
        with torch.no_grad():
            changed = inputs | {"advantages": advantage}
            return float(trainer.compute_loss(trainer.model, changed))

    base = loss(inputs["advantages"])
    assert math.isfinite(base)
    assert loss(inputs["advantages"].masked_fill(~mine, 1e6)) == base
    assert abs(loss(inputs["advantages"].masked_fill(mine, 1.0)) - base) > 1e-3


def test_the_drift_from_the_start_is_zero_before_the_first_step_and_not_after(
    tmp_path: Path,
) -> None:
    first, second = logged(trained(tmp_path), "rollout/kl_per_turn")
    assert abs(first) <= 1e-5
    assert abs(second) > 1e-5


def test_a_policy_that_babbles_ends_as_parse_failures_and_a_finite_loss(tmp_path: Path) -> None:
    trainer = trained(
        tmp_path, model=fresh_model(), limits={"turn_tokens": 4, "context_tokens": 512}
    )
    assert logged(trainer, "rollout/parse_failure_rate") == [1.0, 1.0]
    assert logged(trainer, "rollout/cut") == [1.0, 1.0]
    assert all(map(math.isfinite, logged(trainer, "loss") + logged(trainer, "grad_norm")))
    assert all(weight.isfinite().all() for weight in trainer.model.parameters())
    task = toy_task()
    for rollout in [rollout for scored, _ in trainer.seen for rollout in scored]:
        assert rollout.reward == pytest.approx(-0.5 - task.question_cost * task.turn_cap)
        assert rollout.invalid_turns == task.turn_cap
        assert rollout.episode is not None
        assert {turn.model_dump().get("invalid") for turn in rollout.episode.turns} <= {
            Invalid("too_long").reason,
            Invalid("not_json").reason,
            Invalid("empty").reason,
        }


def test_the_decoupled_variant_takes_its_own_step_in_each_phase(tmp_path: Path) -> None:
    trainer = trained(tmp_path, reward={"variant": "decoupled"})
    assert trainer.state.global_step == len(trainer.seen) == 4
    assert all(map(math.isfinite, logged(trainer, "loss")))
    phases = [scored for scored, _ in trainer.seen]
    for explore, exploit in (phases[:2], phases[2:]):
        assert [rollout.case for rollout in explore] == [rollout.case for rollout in exploit]
        assert all(len(rollout.record.turns) == 1 for rollout in exploit)
        assert openings(exploit) == len(exploit) // GROUP
    drift = logged(trainer, "rollout/kl_per_turn")
    assert abs(drift[0]) <= 1e-5
    assert abs(drift[1]) > 1e-5  # exploiting is played by the policy that exploring has updated


def openings(scored: list[Scored]) -> int:
    """Transcripts that were exploited, one a group."""
    return sum(len({rollout.record.prompt_ids for rollout in group}) for group in in_groups(scored))


def exact_value(engine: Engine, *, greedy: bool, samples: int = 1) -> float:
    """Value over every patient of the toy with its probability; sampled ones are averaged."""
    task = toy_task()
    patients, chances = [], []
    for state in range(2):
        for bits in range(8):
            answers = tuple(bool(bits >> q & 1) for q in range(3))
            present = task.likelihood[0, :, state]
            chance = float(
                np.prod([p if a else 1.0 - p for p, a in zip(present, answers, strict=True)])
            )
            patients += [patient(task, answers, state)] * samples
            chances += [chance * task.prior[state] / samples] * samples
    speakers = [EpisodeSpeaker(task, case) for case in patients]
    sampling = Sampling(greedy=greedy, max_turn_tokens=16, max_context_tokens=256)
    engine.play(speakers, range(len(speakers)), sampling)
    episodes = [speaker.finish(policy="policy", rollout=0) for speaker in speakers]
    rewards = [verify(task, episode).reward for episode in episodes]
    return float(np.dot(chances, rewards))


@pytest.mark.slow
def test_training_reaches_the_known_optimum(tmp_path: Path) -> None:
    config = toy_config(
        reward={"variant": "credit", "outcome": 0.0, "regret": 1.0, "per_turn": True},
        optim={"steps": 30, "groups": 8, "rollouts": 8, "micro_batch": 64, "learning_rate": 4e-3},
    )
    trainer = trl_run.make_trainer(config, warm_model(), tmp_path)
    engine = trainer.rollouts.engine
    before = exact_value(engine, greedy=False, samples=20)
    trainer.train()
    assert before < 0.30
    assert exact_value(engine, greedy=False, samples=20) > before + 0.05
    assert exact_value(engine, greedy=True) == pytest.approx(OPTIMUM)
