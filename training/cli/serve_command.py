"""`clinical-envs serve`: the rollout node of a two-node training."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from training.cli.terminal import err


def serve(
    model: Annotated[
        Path, typer.Option(metavar="DIR", help="Checkpoint that training starts from.")
    ],
    host: Annotated[str, typer.Option(help="Address that both services bind.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the inference server.")
    ] = 8000,
    adapters: Annotated[
        Path, typer.Option(metavar="DIR", help="Where uploaded adapters are kept.")
    ] = Path("build/adapters"),
    sidecar_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port that takes adapter uploads.")
    ] = 8001,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Token of the uploads, mode 600; by default CLINICAL_ENVS_SIDECAR_TOKEN.",
        ),
    ] = None,
    max_lora_rank: Annotated[int, typer.Option(help="Largest rank of an adapter.")] = 16,
    dtype: Annotated[
        Literal["float32", "bfloat16"] | None,
        typer.Option(help="Of the weights; by default the checkpoint's."),
    ] = None,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the server's command line and stop.")
    ] = False,
) -> None:
    """Serve a checkpoint for rollouts with vLLM, and take the adapters of the trainer.

    Runs until Ctrl-C. Without a token no uploads are taken, and adapters come from a folder that
    both nodes see. An address off loopback needs VLLM_API_KEY and the token.
    """
    from training.rollout_node import (
        Node,
        as_shell,
        is_cpu_build,
        refuse_exposed,
        refuse_taken,
        server,
        sidecar,
    )
    from training.sidecar import read_token
    from training.supervise import run

    node = Node(
        model=model,
        adapters=adapters,
        host=host,
        port=port,
        sidecar_port=sidecar_port,
        rank=max_lora_rank,
        dtype=dtype,
    )
    cpu = is_cpu_build()
    token = read_token(token_file, os.environ)
    refuse_exposed(node, os.environ, token)
    services = [server(node, os.environ, cpu=cpu)]
    if print_only:
        typer.echo(as_shell(services[0]))
        return
    refuse_taken(services[0], "--port", host, port)
    uploads = "no uploads without a token"
    if token is not None:
        services.append(sidecar(node, token))
        refuse_taken(services[1], "--sidecar-port", host, sidecar_port)
        uploads = f"uploads at {services[1].url}"
    err.print(f"starting vLLM with {model}; Ctrl-C stops", soft_wrap=True)
    ready = f"ready: {services[0].url}, model base; {uploads}"
    raise typer.Exit(run(services, lambda line: err.print(line, soft_wrap=True), ready))
