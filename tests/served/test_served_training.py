"""GRPO whose rollouts a server samples: on-policy and proven to be, or stopped with the reason."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.served.conftest import Connect, Fake, lora
from tests.training.toy import NEEDS, fresh_model, toy_config, toy_world
from training.adapter_sync import AdapterSync
from training.patience import ServedError
from training.signals import Earned

torch = pytest.importorskip("torch", reason=NEEDS)
pytest.importorskip("trl", reason=NEEDS)
pytest.importorskip("httpx", reason=NEEDS)

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # TRL and PEFT use old names
GROUPS, SIZE = 4, 4
SHORTEST_RUN = 6  # requests of three steps: in each some rollout of sixteen asks, and all commit


class Training:
    """A trainer on the toy that plays on a server, and what it wrote down."""

    def __init__(self, sync: AdapterSync, start: Path, out: Path, **sections: Any) -> None:
        from training.grpo import build_trainer, play_settings

        self.rows: list[dict[str, Any]] = []
        config = toy_config(**sections)
        self.trainer, self.player = build_trainer(
            config, toy_world(), start, out, play_settings(config), sync, self.rows.extend
        )

    def run(self) -> Training:
        self.trainer.meet_server(self.player.tokens)
        self.trainer.train()
        return self

    def logged(self, name: str) -> list[float]:
        return [float(row[name]) for row in self.trainer.state.log_history if name in row]


@pytest.fixture
def train(connect: Connect, toy_start: Path, tmp_path: Path) -> Callable[..., Training]:
    def make(fake: Fake, *, steps: int = 3, **settings: Any) -> Training:
        sync = connect(fake, **settings)
        optim = {"steps": steps, "groups": GROUPS, "rollouts": SIZE}
        optim |= {"learning_rate": 4e-3, "warmup_steps": 0}
        return Training(sync, toy_start, tmp_path / "out", optim=optim)

    return make


def identities(rows: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    return [(row["step"], row["group"], row["rollout"]) for row in rows]


def every_episode_once(steps: int) -> list[tuple[int, int, int]]:
    return [(s, g, r) for s in range(1, steps + 1) for g in range(GROUPS) for r in range(SIZE)]


def test_every_rollout_is_sampled_by_the_newest_policy_and_the_log_proves_it(
    fake: Fake, train: Callable[..., Training]
) -> None:
    done = train(fake).run()
    assert identities(done.rows) == every_episode_once(3)
    assert [row["version"] for row in done.rows] == [row["step"] - 1 for row in done.rows]
    assert {row["policy"] for row in done.rows} == {f"run-1-v{n}" for n in range(3)}
    assert list(dict.fromkeys(fake.seen["models"])) == ["base", *(f"run-1-v{n}" for n in range(3))]
    assert done.logged("rollout/staleness") == [0.0, 0.0, 0.0]
    assert all(diff <= 1e-4 for diff in done.logged("rollout/logprob_max_diff"))
    worst = max(row["logprob_max_diff"] for row in done.rows)
    assert worst == pytest.approx(max(done.logged("rollout/logprob_max_diff")), abs=1e-7)
    first, *later = done.logged("rollout/logprob_max_shift")
    assert first == 0.0
    assert min(later) > 1e-3  # so that an adapter that is not applied would have been seen
    assert all(0.0 < ms < 5000.0 for ms in done.logged("rollout/adapter_sync_ms"))


def test_trl_corrects_the_loss_by_the_ratio_of_each_token(
    fake: Fake, train: Callable[..., Training]
) -> None:
    """What is assumed of TRL 1.16: the three attributes, and what they switch on."""
    made = train(fake, steps=1)
    outputs: list[dict[str, Any]] = []
    generate = made.trainer._generate_and_score_completions

    def watched(inputs: Any) -> dict[str, Any]:
        outputs.append(generate(inputs))
        return outputs[-1]

    made.trainer._generate_and_score_completions = watched
    made.run()
    (output,) = outputs
    ratio = output["importance_sampling_ratio"]
    assert ratio.shape == output["completion_ids"].shape  # a token's own, not the dialogue's
    assert (ratio - 1.0).abs().max() <= 1e-4
    made.trainer.current_gradient_accumulation_steps = 1
    with torch.no_grad():
        loss, twice = (
            float(made.trainer.compute_loss(made.trainer.model, output | changed))
            for changed in ({}, {"importance_sampling_ratio": 2.0 * ratio})
        )
    assert twice == pytest.approx(2.0 * loss, rel=1e-3)
    assert abs(loss) > 0.0
    assert made.trainer._last_loaded_step == 0


def test_a_server_that_loads_adapters_and_does_not_apply_them_is_found_out(
    start_fake: Callable[..., Fake], train: Callable[..., Training]
) -> None:
    made = train(start_fake(applies_adapters=False))
    with pytest.raises(ServedError, match="loaded but not applied: serve the text-only export"):
        made.run()
    assert made.logged("rollout/staleness") == [0.0]  # before the first update there is no effect


def test_rollouts_that_nothing_is_learned_from_are_compared_as_well(
    fake: Fake, connect: Connect, toy_start: Path, tmp_path: Path
) -> None:
    """With a KL term groups of equal rewards are left out of the loss, not out of the proof."""
    sync = connect(fake)
    optim = {"steps": 1, "groups": GROUPS, "rollouts": SIZE, "kl": 0.03, "warmup_steps": 0}
    made = Training(sync, toy_start, tmp_path / "out", optim=optim)
    made.trainer.rollouts._signal = SimpleNamespace(
        earned=lambda episode: Earned(turns=(0.0,) * len(episode.turns))
    )
    made.trainer.meet_server(made.player.tokens)
    sync.server.unload(sync.current.name)
    lora(seed=5).save_pretrained(tmp_path / "another")
    sync.server.load(sync.current.name, str(tmp_path / "another"))
    with pytest.raises(ServedError, match="log-probabilities"):
        made.trainer.train()
    assert max(row["logprob_max_diff"] for row in made.rows) > 0.01


def test_rollouts_of_an_older_policy_are_never_learned_from(
    fake: Fake, train: Callable[..., Training]
) -> None:
    made = train(fake)
    made.trainer.vllm_generation.sync_weights = lambda: None  # a sync that is forgotten
    with pytest.raises(ServedError, match="sampled by the policy of 1 steps ago"):
        made.run()
    assert made.trainer.state.global_step == 1
    assert {row["staleness"] for row in made.rows if row["step"] == 2} == {1}


def test_a_server_of_another_model_is_refused_before_anything_is_sampled(
    start_fake: Callable[..., Fake], train: Callable[..., Training], tmp_path: Path
) -> None:
    from tests.training.toy import tokenizer

    fresh_model(seed=9).save_pretrained(tmp_path / "other")
    tokenizer().save_pretrained(tmp_path / "other")
    made = train(start_fake(model=str(tmp_path / "other")))
    with pytest.raises(ServedError, match="serves another model than the run starts from"):
        made.run()
    assert made.rows == []


@pytest.mark.parametrize("mode", ["raw_logprobs", "raw_logits"])
def test_log_probabilities_of_another_distribution_are_refused(
    mode: str, start_fake: Callable[..., Fake], train: Callable[..., Training]
) -> None:
    made = train(start_fake(logprobs_mode=mode))
    with pytest.raises(ServedError, match="start it with --logprobs-mode processed_logprobs"):
        made.run()


def test_a_server_that_comes_back_as_another_model_is_refused(
    fake: Fake, train: Callable[..., Training], tmp_path: Path, start_fake: Callable[..., Fake]
) -> None:
    from tests.training.toy import tokenizer

    fresh_model(seed=9).save_pretrained(tmp_path / "other")
    tokenizer().save_pretrained(tmp_path / "other")
    first = start_fake()
    made = train(first, steps=2)
    first.control(dies_playing="-v1")
    threading.Thread(
        target=revive, args=(first,), kwargs={"model": str(tmp_path / "other")}
    ).start()
    with pytest.raises(ServedError, match="serves another model"):
        made.run()


def revive(fake: Fake, **settings: Any) -> None:
    """Start it again once it has died."""
    from tests.served.conftest import is_alive

    while is_alive(fake.pid):
        time.sleep(0.02)
    fake.start(**settings)


@pytest.mark.parametrize("seed", range(5))
def test_killed_at_a_random_moment_and_restarted_the_run_finishes_with_every_episode_once(
    seed: int, start_fake: Callable[..., Fake], train: Callable[..., Training]
) -> None:
    fake, said = start_fake(seed=seed), list[str]()
    made = train(fake, said=said)
    made.trainer.meet_server(made.player.tokens)
    answered = int(np.random.default_rng(seed).integers(SHORTEST_RUN))
    fake.control(dies_after=answered)
    reviver = threading.Thread(target=revive, args=(fake,))
    reviver.start()
    made.trainer.train()
    reviver.join(timeout=60.0)
    assert not reviver.is_alive(), "it was never killed"
    assert any("trying again for" in line for line in said)
    assert identities(made.rows) == every_episode_once(3)
    assert {row["staleness"] for row in made.rows} == {0}
    assert made.trainer.state.global_step == 3
