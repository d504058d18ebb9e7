"""What a run needs where a rollout server samples: a connection, a log, the last evaluations."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.adapter_archive import CONFIG, WEIGHTS
from training.adapter_sync import AdapterSync, Carrier, SharedFolder, Upload
from training.config import Config
from training.on_policy import TOLERANCE
from training.patience import Patience, ServedError, everywhere
from training.runs import Run, wait_for_all, weights_digest
from training.vllm_server import VllmServer

if TYPE_CHECKING:
    from clinical_envs.task import Task
    from training.checkpoint_policy import CheckpointPolicy, PlaySettings


@contextmanager
def connected(run: Run) -> Iterator[AdapterSync | None]:
    """The server of a run, waited for before any model is loaded; None where the run has none.

    Adapters of this run that are left from a killed session are removed first, those of this
    session at the end. After an error they stay for the next session to remove.

    Raises:
        ServedError: it does not come up within the patience, refuses the key, or is too small.
        MissingExtra: httpx is not installed.
    """
    if run.config.engine != "vllm":
        yield None
        return
    vllm, owner = run.config.vllm, _owner(run)
    server, carrier = VllmServer(vllm.url, timeout_s=vllm.timeout_s), _carrier(run.config)
    try:
        sync = everywhere(
            lambda: AdapterSync(
                server,
                carrier,
                Path(vllm.shared_folder or run.folder / "adapters"),
                name=f"{owner}-{len(run.data['sessions_s'])}",
                patience=Patience(seconds=vllm.patience_s, say=run.say),
            )
        )
        _refuse_small(sync, run.config.limits.context_tokens)
        if run.writes:
            sync.sweep(owner)
        yield sync
        sync.serve_base()
        if run.writes:
            sync.sweep(owner)
    finally:
        server.close()
        carrier.close()


def tolerance(config: Config) -> float:
    """How far log-probabilities of server and trainer may lie apart, in nats."""
    return config.vllm.logprob_tolerance or TOLERANCE[config.model.dtype]


def recorder(run: Run, phases: int) -> Callable[[list[dict[str, Any]]], None]:
    """Writes a row a rollout into the run. phases: optimiser steps that make one update."""

    def record(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            run.append("rollouts", {"update": -(-row["step"] // phases), **row})

    return record


def meet_again(run: Run, sync: AdapterSync, start: str) -> None:
    """Before the last evaluations, and after every outage of theirs: it still serves the start.

    Raises:
        ServedError: it serves another model.
    """
    from training.chat import ChatTokens
    from training.models import load_policy
    from training.probe import check_start

    model, tokenizer = load_policy(start, run.config.model.dtype)
    tokens = ChatTokens(tokenizer)

    def check() -> None:
        check_start(sync.server, sync.offer.base, model, tokens, tolerance(run.config))

    sync.check = check
    everywhere(lambda: sync.patience.until_it_works(check))


def served_policy(
    task: Task,
    sync: AdapterSync,
    start: str,
    adapter: Path | None,
    *,
    name: str,
    settings: PlaySettings,
) -> CheckpointPolicy:
    """The start, or an adapter on it, played by the server from now on; no model is loaded here.

    Raises:
        ServedError: the server cannot be made to play it.
    """
    from transformers import AutoTokenizer

    from training.chat import ChatTokens
    from training.checkpoint_policy import CheckpointPolicy
    from training.served import ServedEngine

    def copy(folder: Path) -> None:
        for file in (CONFIG, WEIGHTS):
            shutil.copy(Path(str(adapter)) / file, folder / file)

    if adapter is None:
        sync.serve_base()
    else:
        sync.publish(name, copy)
    tokens = ChatTokens(AutoTokenizer.from_pretrained(start))
    digest = weights_digest(Path(start), *([] if adapter is None else [adapter]))
    return CheckpointPolicy(task, ServedEngine(sync, tokens), tokens, settings, name, digest)


def _carrier(config: Config) -> Carrier:
    vllm = config.vllm
    if vllm.sync == "upload":
        return Upload(vllm.sidecar_url, timeout_s=vllm.timeout_s)
    return SharedFolder()


def _refuse_small(sync: AdapterSync, context: int) -> None:
    if sync.offer.context < context:
        raise ServedError(
            f"{sync.server.url} takes {sync.offer.context} tokens and limits.context_tokens is "
            f"{context}; start it with --max-model-len {context}"
        )


def _owner(run: Run) -> str:
    """What the adapters of this run are called by, in all its sessions and in no other run."""
    if run.writes and "adapters" not in run.data:
        run.note(adapters=f"{run.config.hash}-{secrets.token_hex(4)}")
    wait_for_all()
    return str(run.data["adapters"])
