"""What an archive may be, and that no other one gets through."""

from __future__ import annotations

import io
import json
import pickle
import struct
import tempfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.errors import InvalidArgument
from tests.rollout_node.conftest import NEEDS
from training.adapter_archive import CONFIG, WEIGHTS, ArchiveLimits, TooBig, unpack

adapters = pytest.importorskip("tests.rollout_node.adapters", reason=NEEDS)
adapter, archive = adapters.adapter, adapters.archive
CONFIG_BYTES, WEIGHT_BYTES = adapters.CONFIG_BYTES, adapters.WEIGHT_BYTES
LIMITS = ArchiveLimits(config=2_000, weights=100_000)
WHOLE = adapter()


def unpacked(body: bytes, limits: ArchiveLimits = LIMITS) -> dict[str, bytes]:
    """What lies in the folder afterwards; nothing may lie beside it."""
    with tempfile.TemporaryDirectory() as scratch:
        upload, folder = Path(scratch) / "upload.zip", Path(scratch) / "adapter"
        upload.write_bytes(body)
        folder.mkdir()
        try:
            unpack(upload, folder, limits)
        finally:
            assert sorted(path.name for path in Path(scratch).iterdir()) == [
                "adapter",
                "upload.zip",
            ]
            left = {path.name: path.read_bytes() for path in folder.iterdir()}
            assert all(len(content) <= limits.weights for content in left.values())
        return left


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_both_files_come_out_as_they_went_in(method: int) -> None:
    assert unpacked(adapter(method=method)) == {CONFIG: CONFIG_BYTES, WEIGHTS: WEIGHT_BYTES}


@given(st.binary(max_size=400))
def test_bytes_that_are_no_archive_are_refused(body: bytes) -> None:
    with pytest.raises(InvalidArgument):
        unpacked(body)


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_refused_or_changes_neither_file(position: int, change: int) -> None:
    body = bytearray(WHOLE)
    body[position] ^= change
    try:
        files = unpacked(bytes(body))
    except InvalidArgument:
        return
    assert files == {CONFIG: CONFIG_BYTES, WEIGHTS: WEIGHT_BYTES}


@given(st.integers(0, len(WHOLE) - 1))
def test_an_archive_cut_anywhere_is_refused(length: int) -> None:
    with pytest.raises(InvalidArgument):
        unpacked(WHOLE[:length])


def symlink(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = 0o120777 << 16
    return entry


@pytest.mark.parametrize(
    "entries",
    [
        {CONFIG: CONFIG_BYTES},
        {CONFIG: CONFIG_BYTES, WEIGHTS: WEIGHT_BYTES, "adapter_model.bin": pickle.dumps([])},
        {CONFIG: CONFIG_BYTES, "adapter_model.bin": pickle.dumps([])},
        {CONFIG: CONFIG_BYTES, f"../{WEIGHTS}": WEIGHT_BYTES},
        {CONFIG: CONFIG_BYTES, f"/tmp/{WEIGHTS}": WEIGHT_BYTES},
        {CONFIG: CONFIG_BYTES, f"..\\{WEIGHTS}": WEIGHT_BYTES},
        {f"adapter/{CONFIG}": CONFIG_BYTES, f"adapter/{WEIGHTS}": WEIGHT_BYTES},
        {CONFIG.upper(): CONFIG_BYTES, WEIGHTS: WEIGHT_BYTES},
        {CONFIG: CONFIG_BYTES, f"{WEIGHTS}/": b""},
    ],
)
def test_other_entries_than_the_two_are_refused(entries: dict[str, bytes]) -> None:
    with pytest.raises(InvalidArgument):
        unpacked(archive(entries))


def test_the_same_name_twice_is_refused() -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        body = archive([(CONFIG, CONFIG_BYTES), (CONFIG, CONFIG_BYTES)])
    with pytest.raises(InvalidArgument, match="nothing else"):
        unpacked(body)


def test_a_link_is_not_followed_but_read_as_the_file_it_claims_to_be() -> None:
    with pytest.raises(InvalidArgument, match="no safetensors file"):
        unpacked(archive([(CONFIG, CONFIG_BYTES), (symlink(WEIGHTS), b"/etc/passwd")]))


def test_a_bomb_stops_at_the_limit_and_never_fills_memory() -> None:
    body = adapter(weights=b"\0" * 200_000_000, method=zipfile.ZIP_DEFLATED)
    assert len(body) < 300_000
    limits = ArchiveLimits(config=2_000, weights=4_000_000)
    tracemalloc.start()
    with pytest.raises(TooBig, match="4000000"):
        unpacked(body, limits)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000


def test_a_bomb_that_lies_about_its_size_is_refused() -> None:
    body = adapter(weights=b"\0" * 50_000_000, method=zipfile.ZIP_DEFLATED)
    lying = body.replace(struct.pack("<L", 50_000_000), struct.pack("<L", 1_000))
    assert lying != body
    with pytest.raises(InvalidArgument):
        unpacked(lying)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_decompress_in_one_piece_are_refused(method: int) -> None:
    with pytest.raises(InvalidArgument, match="stored or deflated"):
        unpacked(adapter(method=method))


def test_an_encrypted_archive_is_refused() -> None:
    body = bytearray(WHOLE)
    for position in (WHOLE.index(b"PK\x03\x04") + 6, WHOLE.index(b"PK\x01\x02") + 8):
        body[position] |= 1
    with pytest.raises(InvalidArgument, match="encrypted"):
        unpacked(bytes(body))


def test_a_directory_of_many_entries_is_refused_before_it_is_read() -> None:
    body = archive({str(i): b"" for i in range(20_000)})
    tracemalloc.start()
    with pytest.raises(InvalidArgument, match=r"directory of \d+ bytes for two files"):
        unpacked(body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_a_directory_that_lies_about_its_entries_is_refused_before_it_is_read() -> None:
    body = bytearray(archive({str(i): b"" for i in range(20_000)}))
    struct.pack_into("<HH", body, body.rindex(b"PK\x05\x06") + 8, 2, 2)
    tracemalloc.start()
    with pytest.raises(InvalidArgument, match=r"directory of \d+ bytes for two files"):
        unpacked(bytes(body))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3_000_000


def test_a_name_that_is_no_text_is_refused() -> None:
    body = archive({CONFIG: CONFIG_BYTES, "adapter_model.safetensorä": b""})
    with pytest.raises(InvalidArgument, match="no readable zip archive"):
        unpacked(body.replace("ä".encode(), b"\xff\xfe"))


def test_a_64_bit_directory_cannot_hide_its_entries() -> None:
    end = WHOLE.index(b"PK\x05\x06")
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, 0, 1)
    with pytest.raises(InvalidArgument, match="does not end like a plain one"):
        unpacked(WHOLE[:end] + locator + WHOLE[end:])


def with_header(header: object, data: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    "weights",
    [
        b"",
        pickle.dumps({"weight": [1.0]}),
        with_header({}),
        with_header([]),
        WEIGHT_BYTES[:-1],
        WEIGHT_BYTES + b"\0",
        struct.pack("<Q", 2**40) + b"{}",
        with_header({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 4]}}, b"\0" * 4),
        with_header({"a": {"dtype": "F32", "shape": [1], "data_offsets": [400, 404]}}, b"\0" * 4),
        with_header({"a": {"dtype": "F32", "shape": [2**62], "data_offsets": [0, 4]}}, b"\0" * 4),
    ],
)
def test_weights_that_are_no_safetensors_are_refused(weights: bytes) -> None:
    with pytest.raises(InvalidArgument, match=WEIGHTS):
        unpacked(adapter(weights=weights))


@pytest.mark.parametrize(
    "config", [b"", b"[]", b"1", b"{", b"\xff\xfe", b"[" * 2_000, pickle.dumps({})]
)
def test_a_configuration_that_is_no_json_object_is_refused(config: bytes) -> None:
    with pytest.raises(InvalidArgument, match=CONFIG):
        unpacked(adapter(config=config))


def test_limits_admit_exactly_their_size() -> None:
    exact = ArchiveLimits(config=len(CONFIG_BYTES), weights=len(WEIGHT_BYTES))
    assert unpacked(WHOLE, exact)[CONFIG] == CONFIG_BYTES
    for limits in (
        ArchiveLimits(config=len(CONFIG_BYTES) - 1, weights=len(WEIGHT_BYTES)),
        ArchiveLimits(config=len(CONFIG_BYTES), weights=len(WEIGHT_BYTES) - 1),
    ):
        with pytest.raises(TooBig):
            unpacked(WHOLE, limits)


def test_the_largest_adapter_stored_fits_the_limit_of_the_archive() -> None:
    limits = ArchiveLimits(config=5_000, weights=5_000)
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as bundle:
        bundle.writestr(CONFIG, b"x" * limits.config)
        bundle.writestr(WEIGHTS, b"x" * limits.weights)
    assert len(target.getvalue()) <= limits.archive
