"""An uploaded adapter: a zip archive of exactly two files, unpacked without trusting it.

Whatever an archive claims about itself is checked or ignored: names are compared, never used as
paths; sizes are counted while bytes are written; weights must be safetensors, so that nothing is
ever unpickled.
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from clinical_envs.errors import InvalidArgument, require

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_BLOCK = 2**20
_END = struct.Struct("<4s4H2LH")  # how a zip archive without a comment ends
_DIRECTORY = 4096  # bytes that the list of two files stays far below
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    UnicodeDecodeError,
)
_LOCATOR = 20  # bytes of what points to a 64-bit end record, just before it


class TooBig(InvalidArgument):
    """An upload, or what it unpacks to, is larger than its limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLimits:
    """Largest sizes in bytes: of the two files unpacked, and of the archive.

    LoRA of rank 64 on MedGemma-4B is 0.5 GB in float32.
    """

    config: int = 2**16
    weights: int = 2**30

    @property
    def archive(self) -> int:
        """Both files stored, and what a zip archive writes around them."""
        return self.config + self.weights + 2**16


def unpack(archive: Path, folder: Path, limits: ArchiveLimits) -> None:
    """Write the two files of an adapter into an empty folder, and check both.

    Raises:
        TooBig: a file unpacks to more than its limit; the rest was not unpacked.
        InvalidArgument: it is no zip archive of exactly these two files, or a file is not what its
            name says.
        OSError: they cannot be written.
    """
    try:
        _refuse_long_directory(archive)
        with zipfile.ZipFile(archive) as bundle:
            entries = sorted(bundle.infolist(), key=lambda entry: entry.filename)
            if [entry.filename for entry in entries] != [CONFIG, WEIGHTS]:
                raise InvalidArgument(f"the archive must hold {CONFIG} and {WEIGHTS}, nothing else")
            for entry, limit in zip(entries, (limits.config, limits.weights), strict=True):
                _write(bundle, entry, folder / entry.filename, limit)
    except _UNREADABLE as error:
        raise InvalidArgument(f"the body is no readable zip archive: {error}") from None
    _check_config(folder / CONFIG)
    _check_weights(folder / WEIGHTS)


def _refuse_long_directory(archive: Path) -> None:
    """Before a reader takes a directory of millions of entries into memory."""
    with archive.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _END.size - _LOCATOR))
        tail = file.read()
    if len(tail) < _END.size:
        raise zipfile.BadZipFile("it is too short")
    before, end = tail[: -_END.size], _END.unpack(tail[-_END.size :])
    signature, _, _, _, entries, length, _, comment = end
    if signature != b"PK\x05\x06" or comment or before.startswith(b"PK\x06\x07"):
        raise zipfile.BadZipFile("it does not end like a plain one")
    if length > _DIRECTORY:
        raise InvalidArgument(f"the archive has a directory of {length} bytes for two files")
    if entries != 2:
        raise InvalidArgument(f"the archive has {entries} entries; it must hold two files")


def _write(bundle: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path, limit: int) -> None:
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # the other methods are decompressed in one piece, however large
        raise InvalidArgument(f"{entry.filename} must be stored or deflated")
    written = 0
    with bundle.open(entry) as source, path.open("xb") as target:
        while block := source.read(_BLOCK):
            written += len(block)
            if written > limit:
                raise TooBig(f"{entry.filename} is larger than {limit} bytes")
            target.write(block)


def _check_config(path: Path) -> None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise InvalidArgument(f"{CONFIG} is no JSON") from None
    if not isinstance(data, dict):
        raise InvalidArgument(f"{CONFIG} is no JSON object")


def _check_weights(path: Path) -> None:
    """Read the header: it must account for every byte of the file."""
    safetensors = require("safetensors", "serve")
    try:
        with safetensors.safe_open(path, framework="numpy") as tensors:
            names = list(tensors.keys())
    except safetensors.SafetensorError as error:
        raise InvalidArgument(f"{WEIGHTS} is no safetensors file: {error}") from None
    if not names:
        raise InvalidArgument(f"{WEIGHTS} holds no tensor")
