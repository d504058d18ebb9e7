"""The served engine against the real server, on one machine, in float32 (`make bench-vllm`).

The policy is the embedded one after a short warmup on diagnostics. Throughput plays 64 encounters
(8 cases x 8). The bare load of the same shape is what the engine sent, request by request, sent
again by a client that does nothing else: the same prompts, limits and sampling, so that as many
tokens are sampled on average. Prompts of the bare load lie in the server's cache, which favours it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np

from clinical_envs.catalog import load_task
from oracles.clinical import ClinicalWorld
from tests.benchmarks.record import Figure, at_least, at_most, middle, seconds
from tests.benchmarks.training import Clock, _patched
from tests.vllm.conftest import REMEDY, VARIABLE
from tests.vllm.node import SECRETS, Node, Training

GROUPS, ROLLOUTS, PLAYS, ROUNDS, SYNCS = 8, 8, 3, 7, 30
STEPS, KILLS, KILLED_STEPS, TIMED_STEPS = 20, 5, 8, 6
SMALL = ("optim.groups=4", "optim.rollouts=8", "optim.micro_batch=32", "validation.k=1")


def figures() -> Iterator[Figure]:
    python = os.environ.get(VARIABLE)
    if not python:
        raise RuntimeError(REMEDY)
    os.environ.update(SECRETS)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        node = Node(Path(python).absolute(), _checkpoint(folder), folder)
        node.start()
        try:
            node.wait()
            yield from _throughput(node, folder)
            yield _step(node, folder)
            yield from _runs(node, folder)
        finally:
            node.stop()


@cache
def _world() -> ClinicalWorld:
    return ClinicalWorld(load_task("diagnostics"))


def _checkpoint(folder: Path) -> Path:
    from training.config import load_config
    from training.sft import warm_up

    return warm_up(
        load_config("diagnostics-light-embedded", ["warmup.steps=100"]), folder / "start"
    )


def _throughput(node: Node, folder: Path) -> Iterator[Figure]:
    """Adapter sync, and tokens a second: served, bare, and in this process."""
    import torch
    from peft import get_peft_model

    from training.adapter_sync import AdapterSync, SharedFolder
    from training.chat import ChatTokens
    from training.config import load_config
    from training.inprocess import InProcessEngine
    from training.models import load_policy, lora_config
    from training.patience import Patience
    from training.served import ServedEngine
    from training.vllm_server import VllmServer

    torch.set_num_threads(1)
    loaded, tokenizer = load_policy(node.checkpoint)
    model = get_peft_model(loaded, lora_config(load_config("diagnostics-outcome-embedded"))).eval()
    tokens, server = ChatTokens(tokenizer), VllmServer(node.url, timeout_s=60.0)
    sync = AdapterSync(
        server,
        SharedFolder(),
        folder / "adapters",
        name="bench",
        patience=Patience(seconds=60.0, say=print),
    )
    times = []
    for i in range(SYNCS):
        sync.publish(str(i), model.save_pretrained, version=i)
        times.append(sync.last_ms)
    detail = f"median of {SYNCS}, {min(times):.0f} to {max(times):.0f}; saved, loaded, unloaded"
    yield at_most("adapter_sync_ms", median(times), "ms", 100, detail)
    served, local = ServedEngine(sync, tokens), InProcessEngine(model, tokens)
    with _recorded(server) as bodies:
        _played_tokens(served)
    with httpx.Client(
        trust_env=False, headers={"Authorization": f"Bearer {SECRETS['VLLM_API_KEY']}"}
    ) as client:
        loads: dict[str, Callable[[], int]] = {
            "served": lambda: _played_tokens(served),
            "bare": lambda: _bare_tokens(client, node.url, bodies),
            "inprocess": lambda: _played_tokens(local),
        }
        rounds = [{name: _rate(load) for name, load in loads.items()} for _ in range(ROUNDS + 1)]
    server.close()
    ratio, detail = middle([rates["served"] / rates["bare"] for rates in rounds[1:]])
    yield at_least("served_vs_bare", ratio, "ratio", 0.8, f"{detail}, {PLAYS} plays each")
    for name in loads:
        found = [rates[name] for rates in rounds[1:]]
        detail = (
            f"median of {len(found)}, {min(found):.0f} to {max(found):.0f}; one thread a process"
        )
        yield Figure(f"{name}_tokens_per_s", median(found), "tokens/s", detail)


def _step(node: Node, folder: Path) -> Figure:
    """What a step of GRPO spends where; the learning is all that is neither playing nor sync."""
    from training.adapter_sync import AdapterSync, SharedFolder
    from training.config import load_config
    from training.grpo import build_trainer, play_settings
    from training.patience import Patience
    from training.served import ServedEngine
    from training.vllm_server import VllmServer

    overrides = ["engine=vllm", f"vllm.url={node.url}", f"optim.steps={TIMED_STEPS}"]
    config = load_config("diagnostics-outcome-embedded", overrides)
    world, server = _world(), VllmServer(node.url, timeout_s=60.0)
    patience = Patience(seconds=60.0, say=print)
    sync = AdapterSync(server, SharedFolder(), folder / "step", name="step", patience=patience)
    trainer, player = build_trainer(
        config, world, node.checkpoint, folder / "trainer", play_settings(config), sync
    )
    trainer.meet_server(player.tokens)
    playing, syncing = Clock(), Clock()
    with _patched(ServedEngine, "play", playing), _patched(AdapterSync, "publish", syncing):
        whole_s = seconds(trainer.train)
    sync.serve_base()
    server.close()
    parts = [playing.spent, syncing.spent, whole_s - playing.spent - syncing.spent]
    play_s, sync_s, learn_s = (part / TIMED_STEPS for part in parts)
    detail = f"{play_s:.2f} s of playing, {sync_s:.3f} s of sync, {learn_s:.2f} s of learning; "
    detail += f"mean of {TIMED_STEPS} steps of 8 cases x 8, first included"
    return Figure("served_step_s", whole_s / TIMED_STEPS, "s", detail)


def _played_tokens(engine: Any) -> int:
    """Sampled tokens of one play of 64 encounters."""
    from training.dialogue import EpisodeSpeaker
    from training.engine import Sampling

    world = _world()
    cases = world.cases("train")[:GROUPS]
    speakers = [EpisodeSpeaker(world.task, case) for case in cases for _ in range(ROLLOUTS)]
    sampling = Sampling(max_turn_tokens=12, max_context_tokens=512)
    return sum(sum(r.env_mask) for r in engine.play(speakers, range(len(speakers)), sampling))


def _bare_tokens(client: httpx.Client, url: str, bodies: list[Any]) -> int:
    """Sampled tokens of the same requests, sent by nothing but a client."""
    sampled = 0
    for body in bodies:
        reply = client.post(f"{url}/v1/completions", json=body, timeout=60)
        sampled += sum(len(choice["token_ids"]) for choice in reply.json()["choices"])
    return sampled


def _rate(load: Callable[[], int]) -> float:
    """Sampled tokens a second over some plays."""
    start = time.perf_counter()
    sampled = sum(load() for _ in range(PLAYS))
    return sampled / (time.perf_counter() - start)


@contextmanager
def _recorded(server: Any) -> Iterator[list[Any]]:
    """The bodies of the completions that the server is asked for meanwhile."""
    bodies: list[Any] = []
    client = server._client
    ask = client.ask

    def remember(method: str, path: str, body: Any = None, **rest: Any) -> Any:
        if path == "/v1/completions":
            bodies.append(body)
        return ask(method, path, body, **rest)

    client.ask = remember
    try:
        yield bodies
    finally:
        del client.ask


def _runs(node: Node, folder: Path) -> Iterator[Figure]:
    """One run in peace; then some in each of which the server is killed at a random moment."""
    quiet = Training.start(
        node, folder / "quiet", *SMALL, f"optim.steps={STEPS}", f"validation.every={STEPS}"
    )
    quiet.finish()
    rows = [row for row in quiet.rows("metrics") if "rollout/logprob_max_diff" in row]
    worst = max(row["rollout/logprob_max_diff"] for row in rows)
    detail = f"largest of {len(rows)} steps; adapter moved log-probabilities by up to "
    detail += f"{max(row['rollout/logprob_max_shift'] for row in rows):.2f}"
    yield at_most("logprob_max_diff", worst, "nats", 1e-4, detail)
    pace_s = median(row["step_time"] for row in rows)
    moments = np.random.default_rng(0).uniform(0.0, (KILLED_STEPS - 2) * pace_s, KILLS)
    recovered = sum(_survives(node, folder / f"killed-{i}", s) for i, s in enumerate(moments))
    detail = f"after {', '.join(f'{moment:.1f}' for moment in moments)} s of training"
    yield at_least("kill_recover", recovered, f"runs of {KILLS}", KILLS, detail)


def _survives(node: Node, folder: Path, moment_s: float) -> bool:
    """Whether a run whose server is killed finishes, every rollout played once."""
    steps = [f"optim.steps={KILLED_STEPS}", f"validation.every={KILLED_STEPS}"]
    training = Training.start(node, folder, *SMALL, *steps)
    try:
        training.wait_for_step(1)
        time.sleep(moment_s)
        node.kill()
        node.start()
        training.finish()
    except AssertionError as failure:
        print(failure)
        return False
    finally:
        training.end()
        node.wait()
    played = Counter((r["step"], r["group"], r["rollout"]) for r in training.rows("rollouts"))
    return len(played) == KILLED_STEPS * 32 and set(played.values()) == {1}
