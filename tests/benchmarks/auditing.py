"""Auditing 10,000 episodes of diagnostics, read from a file, in a fresh process."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from clinical_envs import CaseStream, write_episodes
from oracles import evaluate, make_world
from tests.benchmarks.record import Figure, at_most, in_fresh_process

_AUDIT = """
import json, time
from oracles import audit
start = time.perf_counter()
result = audit({path!r})
count = sum(len(policy.sample.rows) for policy in result.policies)
print(json.dumps({{"took": time.perf_counter() - start, "count": count}}))
"""


def figures() -> Iterator[Figure]:
    world = make_world("diagnostics")
    cases = CaseStream(world.task, "train", 1).block(0, 10_000)
    episodes = evaluate(world, world.policy("random"), cases, k=1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "episodes.jsonl"
        write_episodes(path, episodes)
        result = in_fresh_process(_AUDIT.format(path=str(path)))
    detail = f"{result['count']:,} random episodes of as many cases; reading, oracle and flags"
    yield at_most("audit_10k_s", result["took"], "s", 5, detail)
