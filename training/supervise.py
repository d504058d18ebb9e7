"""Processes that only make sense together: started together, watched, stopped together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_TELL_S, _TICK_S, _GRACE_S = 10.0, 0.2, 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One process.

    environment: what its command needs beside the caller's. secrets: variables that it alone gets.
    url: where it answers `GET /health` once it is ready.
    """

    name: str
    command: tuple[str, ...]
    url: str
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


def run(services: Sequence[Service], say: Callable[[str], None], ready: str) -> int:
    """Start all, say when all are ready, and stop all when one ends or the user stops them.

    Returns:
        Exit code: 0 when stopped by Ctrl-C, SIGTERM or the end of its terminal, 1 when a service
        ended by itself.
    """
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        with _signals(_interrupt):
            for service in services:
                started[service.name] = _start(service, services)
            return _watch(services, started, say, ready)
    except KeyboardInterrupt:
        say("stopping")
        return 0
    finally:
        with _signals(signal.SIG_IGN):  # a second Ctrl-C must not leave one of them behind
            for process in started.values():
                process.terminate()
            for process in started.values():
                _stop(process)


def _watch(
    services: Sequence[Service],
    started: Mapping[str, subprocess.Popen[bytes]],
    say: Callable[[str], None],
    ready: str,
) -> int:
    begun = told = time.monotonic()
    waiting = list(services)
    while True:
        for name, process in started.items():
            code = process.poll()
            if code is not None:
                others = "".join(f"; stopping the {other}" for other in started if other != name)
                say(f"the {name} ended with code {code}{others}")
                return 1
        if waiting and _answers(waiting[0].url):
            waiting.pop(0)
            if not waiting:
                say(ready)
        elif waiting and time.monotonic() - told >= _TELL_S:
            told = time.monotonic()
            say(f"{waiting[0].name} not ready yet ({told - begun:.0f} s)")
        time.sleep(_TICK_S)


def _start(service: Service, services: Sequence[Service]) -> subprocess.Popen[bytes]:
    """In a session of its own, so that Ctrl-C reaches this process alone and it stops all."""
    hidden = {name for other in services for name in other.secrets}
    inherited = {name: value for name, value in os.environ.items() if name not in hidden}
    environment = inherited | dict(service.environment) | dict(service.secrets)
    return subprocess.Popen(service.command, env=environment, start_new_session=True)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """First the process, which was told; then what it left behind, as a killed one leaves all."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S)
    for sign in (signal.SIGTERM, signal.SIGKILL):
        _signal_group(process, sign)
        until = time.monotonic() + _GRACE_S
        while _signal_group(process, 0) and time.monotonic() < until:
            process.poll()  # a dead leader counts as alive until it is waited for
            time.sleep(_TICK_S)


def _signal_group(process: subprocess.Popen[bytes], sign: int) -> bool:
    """Whether there was anybody left to get it; signal 0 only asks."""
    try:
        os.killpg(process.pid, sign)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@contextlib.contextmanager
def _signals(handler: Any) -> Iterator[None]:
    """Ctrl-C, SIGTERM and the end of the terminal, handled alike."""
    signs = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(sign, handler) for sign in signs]
    try:
        yield
    finally:
        for sign, earlier in zip(signs, before, strict=True):
            signal.signal(sign, earlier)


def _answers(url: str) -> bool:
    try:
        with _DIRECT.open(f"{url}/health", timeout=2) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False
