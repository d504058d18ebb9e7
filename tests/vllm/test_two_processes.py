"""Training in one process, vLLM in another: on-policy in every step, and through two faults."""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter
from collections.abc import Callable

import pytest

from tests.vllm.node import SECRETS, Node, Training

STEPS, GROUPS, ROLLOUTS = 20, 4, 8
SMALL = (
    f"optim.groups={GROUPS}",
    f"optim.rollouts={ROLLOUTS}",
    f"optim.micro_batch={GROUPS * ROLLOUTS}",
    "optim.learning_rate=1e-3",
    "validation.k=1",
)
pytestmark = pytest.mark.slow


def assert_every_rollout_stands_once(training: Training, steps: int) -> None:
    played = Counter(
        (row["step"], row["group"], row["rollout"]) for row in training.rows("rollouts")
    )
    assert set(played.values()) == {1}
    assert set(played) == {
        (step, group, rollout)
        for step in range(1, steps + 1)
        for group in range(GROUPS)
        for rollout in range(ROLLOUTS)
    }


def assert_on_policy(training: Training, steps: int) -> None:
    logged = [row for row in training.rows("metrics") if "rollout/logprob_max_diff" in row]
    assert [row["update"] for row in logged] == list(range(1, steps + 1))
    assert max(row["rollout/logprob_max_diff"] for row in logged) <= 1e-4
    assert {row["rollout/staleness"] for row in logged} == {0.0}
    # the adapter moves, so that a server that ignored it would be seen
    assert logged[-1]["rollout/logprob_max_shift"] > 0.05
    for row in training.rows("rollouts"):
        assert row["version"] == row["step"] - 1
        assert row["staleness"] == 0


def test_twenty_steps_are_on_policy(node: Node, train: Callable[..., Training]) -> None:
    training = train(*SMALL, f"optim.steps={STEPS}", f"validation.every={STEPS}")
    assert training.finish()["status"] == "finished"
    assert_on_policy(training, STEPS)
    assert_every_rollout_stands_once(training, STEPS)
    assert list((training.folder / "adapters").iterdir()) == []
    told = training.told + node.log.read_text()
    assert [name for name, secret in SECRETS.items() if secret in told] == []
    hits = [float(share) for share in re.findall(r"Prefix cache hit rate: ([0-9.]+)%", told)]
    assert max(hits) > 20.0


def test_a_server_killed_during_rollouts_costs_nothing_but_time(
    node: Node, train: Callable[..., Training]
) -> None:
    training = train(*SMALL, "optim.steps=6", "validation.every=6")
    node.wait_for_log(f"Loaded new LoRA adapter: name '{training.adapters}-v3'")
    time.sleep(0.2)  # it is being played
    node.kill()
    node.start()
    assert training.finish()["status"] == "finished"
    assert "trying again for" in training.told
    assert "it works again after" in training.told
    away_s = float(re.findall(r"it works again after ([0-9.]+) s", training.told)[-1])
    syncs = [row["rollout/adapter_sync_ms"] for row in training.rows("metrics") if "reward" in row]
    assert max(syncs) < 1000.0 * away_s  # so it was no sync that waited
    assert_on_policy(training, 6)
    assert_every_rollout_stands_once(training, 6)


def test_a_node_that_lost_its_uploads_gets_them_again(
    node: Node, train: Callable[..., Training]
) -> None:
    """The adapter travels over HTTP; the node dies and comes back without any."""
    upload = ("vllm.sync=upload", f"vllm.sidecar_url={node.sidecar_url}")
    training = train(*SMALL, "optim.steps=6", "validation.every=6", *upload)
    training.wait_for_step(2)
    uploaded = [path.name for path in node.uploads.iterdir()]
    node.kill()
    shutil.rmtree(node.uploads)
    node.start()
    assert training.finish()["status"] == "finished"
    assert uploaded
    assert "trying again for" in training.told
    assert_on_policy(training, 6)
    assert_every_rollout_stands_once(training, 6)
    assert list(node.uploads.iterdir()) == []
