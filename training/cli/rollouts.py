"""Play and judge a policy on a named set, with progress: the common part of several commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from training.cli.terminal import err, progress

if TYPE_CHECKING:
    from clinical_envs.episode import Episode
    from oracles.policy import BatchPolicy, Policy
    from oracles.sample import Sample
    from oracles.world import World

JsonSchemaOption = Annotated[
    bool,
    typer.Option(
        "--json-schema",
        help="Hold an openai: endpoint to the turns of the protocol; the policy's name says so.",
    ),
]
MaxTokensOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Tokens of a reply of an endpoint, reasoning included. "
        "1024 by default; 4096 for METHOD:openai:URL#MODEL.",
    ),
]
_TIMEOUT_S = 120.0  # a small server plays the encounters of a batch one after another


@contextmanager
def open_policy(
    world: World, name: str, *, json_schema: bool = False, max_tokens: int | None = None
) -> Iterator[Policy | BatchPolicy]:
    """A policy as `find_policy` knows it, or over an endpoint while it is open.

    `openai:URL#MODEL` plays the protocol of the world; `METHOD:openai:URL#MODEL` is a method of
    `training.agents` and plays the fact-checking worlds.

    Raises:
        InvalidArgument: no such policy, or an option that it does not have.
        EndpointError: the endpoint does not answer, or has no such model.
        MissingExtra: an endpoint is asked for without httpx.
    """
    from clinical_envs.errors import InvalidArgument

    method, _, rest = name.partition(":")
    if rest.startswith("openai:") and not json_schema:
        with _open_method(world, method, rest, max_tokens) as player:
            yield player
        return
    if not name.startswith("openai:"):
        if json_schema or max_tokens is not None:
            raise InvalidArgument(
                "--json-schema and --max-tokens are for endpoints; give --policy openai:URL#MODEL"
            )
        yield find_policy(world, name)
        return
    from oracles.clinical import ClinicalWorld
    from training.endpoint import Endpoint
    from training.endpoint_policy import MAX_TOKENS, EndpointPolicy

    if not isinstance(world, ClinicalWorld):
        raise InvalidArgument(f"{world.name} is no clinical task; endpoints play those only")
    with progress(f"asking {name}"):
        endpoint = Endpoint(
            name, timeout_s=_TIMEOUT_S, say=lambda line: err.print(line, soft_wrap=True)
        )
    with endpoint:
        yield EndpointPolicy(
            world.task,
            endpoint,
            name,
            max_tokens=max_tokens or MAX_TOKENS,
            json_schema=json_schema,
        )


@contextmanager
def _open_method(
    world: World, method: str, spec: str, max_tokens: int | None
) -> Iterator[BatchPolicy]:
    """A fact-checking method over an endpoint, as `METHOD:openai:URL#MODEL`."""
    from clinical_envs.errors import InvalidArgument
    from oracles.clinical import ClinicalWorld
    from training.agents.desk import MAX_TOKENS
    from training.agents.methods import find_run
    from training.agents.worlds import MethodPolicy
    from training.endpoint import Endpoint

    find_run(method)
    if not isinstance(world, ClinicalWorld):
        raise InvalidArgument(f"{world.name} is no clinical task; {method} plays those only")
    with Endpoint(
        spec, timeout_s=_TIMEOUT_S, say=lambda line: err.print(line, soft_wrap=True)
    ) as model:
        name = f"{method}:{spec}"
        yield MethodPolicy(world.task, method, model, name, max_tokens=max_tokens or MAX_TOKENS)


def find_policy(world: World, name: str) -> Policy | BatchPolicy:
    """A policy by name, a checkpoint as `hf:PATH[#ADAPTER]`, or a function as `module:function`.

    A module is looked for in the current directory first.

    Raises:
        InvalidArgument: no such policy.
        MissingExtra: a checkpoint is asked for without the training stack.
    """
    if name.startswith("hf:"):
        return _checkpoint(world, name)
    if ":" in name:
        sys.path.insert(0, str(Path.cwd()))
    return world.policy(name)


def _checkpoint(world: World, name: str) -> BatchPolicy:
    from clinical_envs.errors import InvalidArgument, require
    from oracles.clinical import ClinicalWorld

    if not isinstance(world, ClinicalWorld):
        raise InvalidArgument(f"{world.name} is no clinical task; checkpoints play those only")
    for module in ("torch", "transformers", *(["peft"] if "#" in name else [])):
        require(module, "train")
    from transformers.utils.logging import disable_progress_bar

    from training.checkpoint_policy import load_checkpoint_policy

    disable_progress_bar()
    with progress(f"loading {name}"):
        return load_checkpoint_policy(world.task, name)


def play_set(
    world: World,
    policy: Policy | BatchPolicy,
    set_name: str,
    *,
    k: int,
    greedy: bool = False,
    seed: int = 0,
    out: Path | None = None,
) -> list[Episode]:
    """Rollouts of every case of a named set."""
    from oracles.evaluation import evaluate

    with progress(f"{world.name}: {policy.name} plays {set_name}") as tell:
        return evaluate(
            world,
            policy,
            world.cases(set_name),
            k=k,
            greedy=greedy,
            seed=seed,
            out=out,
            progress=tell,
        )


def judge(world: World, episodes: list[Episode]) -> Sample:
    """Every episode verified and held against the oracle."""
    from oracles.sample import Sample

    rows = []
    with progress(f"{world.name}: judging") as tell:
        for done, episode in enumerate(episodes, start=1):
            rows.append(world.assess(episode))
            if done % 100 == 0:
                tell(done, len(episodes))
    return Sample(tuple(rows), world.prevalence)
