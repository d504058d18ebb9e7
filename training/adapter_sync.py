"""The policy on its way to the server: a new name for every update, whole or not at all.

An adapter is written beside its final name and renamed, so that nobody reads half of one. A name
is never used twice, so that no key/value cache of an earlier policy can be taken for a later
one's. The new adapter is loaded before the old one is unloaded, and the old folder is deleted one
sync later. It reaches the server through a folder that both nodes see, or by upload to the
sidecar (`training/sidecar.py`).
"""

from __future__ import annotations

import io
import shutil
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from training.adapter_archive import CONFIG, WEIGHTS
from training.node_http import NodeClient, detail
from training.patience import Patience, ServedError, Trouble, everywhere
from training.runs import process
from training.sidecar import TOKEN_VARIABLE
from training.vllm_server import Offer, VllmServer

Save = Callable[[Path], object]
"""Writes adapter_config.json and adapter_model.safetensors into a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPolicy:
    """What the server plays. version: policy updates it has seen; None where nobody counts."""

    name: str
    version: int | None = None


class Carrier(Protocol):
    """Brings an adapter folder to where the server can read it."""

    def ready(self) -> None:
        """Raise where nothing could be brought now."""
        ...

    def bring(self, folder: Path) -> str:
        """Its path on the server's machine."""
        ...

    def remove(self, name: str) -> None:
        """What was brought under this name, if anything."""
        ...

    def close(self) -> None:
        """Close its connections."""
        ...


class SharedFolder:
    """Both nodes see the folder under one path, so that nothing has to travel."""

    def ready(self) -> None:
        """It always is; a disk that is full shows when an adapter is written."""

    def bring(self, folder: Path) -> str:
        """The path it has here."""
        return str(folder.resolve())

    def remove(self, name: str) -> None:
        """Nothing: the folder here is the only one."""

    def close(self) -> None:
        """Nothing to close."""


class Upload:
    """To the sidecar, as a zip archive of the two files."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self._client = NodeClient(url, secret=TOKEN_VARIABLE, timeout_s=timeout_s)

    def ready(self) -> None:
        """Show the token where no body is sent: a refused upload may end in a broken connection."""
        self.remove("none")

    def bring(self, folder: Path) -> str:
        """Its path on the rollout node."""
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as bundle:
            for file in (CONFIG, WEIGHTS):
                bundle.write(folder / file, file)
        target, body = f"/adapters/{folder.name}", archive.getvalue()
        response = self._client.ask("PUT", target, content=body)
        # a name is used once and appears whole: one that is taken has arrived, from another process
        # or by an upload whose answer was lost
        if response.status_code not in (201, 409):
            raise ServedError(f"{self._client.url} takes no adapter: {detail(response)}")
        return str(response.json()["path"])

    def remove(self, name: str) -> None:
        """Delete it there."""
        self._client.ask("DELETE", f"/adapters/{name}")

    def close(self) -> None:
        """Close its connections."""
        self._client.close()


class AdapterSync:
    """Keeps one policy of this run on the server, and puts it back when the server lost it.

    current: what is played; the model without an adapter at first. last_ms: how long the newest
    adapter took from the weights to being served. check: runs after every outage, to refuse a
    server that came back as another model.

    Args:
        server: where adapters are loaded.
        carrier: how they get there.
        folder: where they are written.
        name: of this session of this run; no other has used it.
        patience: with the server, the carrier and the disk.
    """

    def __init__(
        self,
        server: VllmServer,
        carrier: Carrier,
        folder: Path,
        *,
        name: str,
        patience: Patience,
    ) -> None:
        self.server, self.carrier, self.folder = server, carrier, folder
        self.name, self.patience = name, patience
        self.check: Callable[[], None] | None = None
        self.last_ms = 0.0
        self.offer: Offer = patience.until_it_works(server.offer)
        patience.until_it_works(carrier.ready)
        self.current = ServedPolicy(name=self.offer.base)
        self._outdated: str | None = None

    def serve_base(self) -> None:
        """Play the model without an adapter."""
        self._replace(ServedPolicy(name=self.offer.base))

    def publish(self, label: str, save: Save, *, version: int | None = None) -> None:
        """Make an adapter the one that is played, in all processes; the first one brings it.

        label: not used before in this session, unless it names the current one, which stays.

        Raises:
            ServedError: it cannot be written, brought or loaded, and patience or hope ran out.
        """
        policy = ServedPolicy(name=f"{self.name}-{label}", version=version)
        if policy == self.current:
            return
        began = time.monotonic()
        everywhere(lambda: self._bring(policy.name, save) if process()[0] == 0 else None)
        self._replace(policy)
        self.last_ms = 1000.0 * (time.monotonic() - began)

    def restore(self) -> None:
        """After an outage: wait for the server, check it, and load what it has lost.

        Raises:
            Trouble: the server is not back.
            ServedError: it came back as another one.
        """
        self._meet_again()
        if self.current.name not in (self.offer.base, *self.offer.adapters):
            self._load(self.current.name)

    def sweep(self, owner: str) -> None:
        """Remove what earlier sessions, killed ones among them, left of the adapters of a run."""
        stale = {name for name in self.offer.adapters if name.startswith(f"{owner}-")}
        stale |= {path.name.removesuffix(".tmp") for path in self.folder.glob(f"{owner}-*")}
        for name in sorted(stale):
            self._unload(name)
            self._delete(name)

    def _meet_again(self) -> None:
        self.offer = self.server.offer()
        self.carrier.ready()
        if self.check is not None:
            self.check()

    def _bring(self, name: str, save: Save) -> None:
        self.patience.until_it_works(lambda: self._write(name, save))
        self.patience.until_it_works(lambda: self._load(name), recover=self._meet_again)

    def _write(self, name: str, save: Save) -> None:
        from safetensors import SafetensorError

        fresh = self.folder / f"{name}.tmp"
        try:
            fresh.mkdir(parents=True, exist_ok=True)
            save(fresh)
            fresh.rename(self.folder / name)
        except (OSError, SafetensorError) as error:
            shutil.rmtree(fresh, ignore_errors=True)
            reason = getattr(error, "strerror", None) or str(error)
            raise Trouble(f"cannot write an adapter to {self.folder}: {reason}") from None

    def _load(self, name: str) -> None:
        folder = self.folder / name
        if not folder.is_dir():  # another process on another machine has it
            raise Trouble(f"{self.server.url} has lost {name}, and it is not in {self.folder}")
        self.server.load(name, self.carrier.bring(folder))

    def _replace(self, policy: ServedPolicy) -> None:
        previous, self.current = self.current, policy
        if process()[0] != 0:
            return
        if self._outdated is not None:
            self._delete(self._outdated)
        self._outdated = None
        if previous.name != self.offer.base:
            self._unload(previous.name)
            self._outdated = previous.name

    def _unload(self, name: str) -> None:
        with suppress(Trouble, ServedError):  # what the server keeps too long stops no run
            self.server.unload(name)

    def _delete(self, name: str) -> None:
        with suppress(Trouble, ServedError):
            self.carrier.remove(name)
        for path in (self.folder / name, self.folder / f"{name}.tmp"):
            shutil.rmtree(path, ignore_errors=True)
