"""Data file <-> bytes: pages of many sessions, one after the other. Pure.

    offset  size     field
    0       4        "SRDF"
    4       2        format version, 1
    6       2        flags: bit 0 the page part of a bundle, bit 1 each page is a zstd frame
    8       16       id of the reservoir
    24      8        id of the file
    32      8        pages, N
    40      8        size of the file
    48      8        zero
    56      8        CRC-64 of the bytes before
    64      8 N      page ids, in the order of the pages
    ..      4 (N+1)  offset of each page; the last is the end of the file
    ..               pages, without gaps

Numbers are little-endian. The page table of a checkpoint has offset, size and checksum of a page;
the index in the file is for copies and checks of the whole file.

A page's checksum is XXH3-64 of its bytes, seeded with the ids of page and file: bytes of another
page, or of this page in another file, fail the check. The CRC-64 (ECMA-182) of all bytes of the
file is in the checkpoint.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec
import numpy as np
from fastcrc.crc64 import ecma_182
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from strandline.errors import Corrupt, UnsupportedFormat
from strandline.platform.disk import Buffer
from strandline.reservoir import object_keys

MAGIC = b"SRDF"
FORMAT_VERSION = 1
HEADER_SIZE = 64
FLAG_BUNDLE = 1
FLAG_ZSTD = 2
FILE_BYTES_MAX = (1 << 32) - 1
"""Offsets in a file have four bytes."""

PAGE_ID_MAX = (1 << 63) - 1

_HEADER = struct.Struct("<4sHH16sQQQ8x")
_CRC = struct.Struct("<Q")
_PAGE_FACTOR = 0x9E3779B97F4A7C15
_FILE_FACTOR = 0xC2B2AE3D27D4EB4F
_MASK = (1 << 64) - 1

Ids = NDArray[np.int64]


class DataFileHeader(msgspec.Struct, frozen=True):
    """The header of a data file."""

    flags: int
    reservoir_id: bytes
    file_id: int
    pages: int
    size: int


def crc64(data: Buffer, before: int = 0) -> int:
    """CRC-64 of some bytes, continued from that of the bytes before them."""
    return ecma_182(data, before)


def page_checksum(data: Buffer, page_id: int, file_id: int) -> int:
    return xxh3_64_intdigest(data, (page_id * _PAGE_FACTOR + file_id * _FILE_FACTOR) & _MASK)


def page_checksums(pages: Sequence[Buffer], ids: Ids, file_id: int) -> NDArray[np.uint64]:
    """The checksums of many pages of one file."""
    seeds = ids.astype("<u8") * np.uint64(_PAGE_FACTOR)
    seeds += np.uint64(file_id * _FILE_FACTOR & _MASK)
    sums = list(map(xxh3_64_intdigest, pages, seeds.tolist()))
    return np.array(sums, dtype="<u8")


def index_size(pages: int) -> int:
    """The offset of the first page."""
    return HEADER_SIZE + 8 * pages + 4 * (pages + 1)


def encode_index(
    ids: Ids, sizes: NDArray[np.int64], *, reservoir_id: bytes, file_id: int, flags: int
) -> tuple[bytes, NDArray[np.uint32]]:
    """All bytes before the first page, and the offset of each page and of the end."""
    offsets = np.empty(len(ids) + 1, dtype="<i8")
    offsets[0] = index_size(len(ids))
    np.cumsum(sizes, out=offsets[1:])
    offsets[1:] += offsets[0]
    size = int(offsets[-1])
    assert size <= FILE_BYTES_MAX, "offsets in a file have four bytes"
    header = _HEADER.pack(MAGIC, FORMAT_VERSION, flags, reservoir_id, file_id, len(ids), size)
    starts = offsets.astype("<u4")
    index = b"".join(
        (header, _CRC.pack(crc64(header)), ids.astype("<u8").tobytes(), starts.tobytes())
    )
    return index, starts


def decode_header(data: Buffer, label: str) -> DataFileHeader:
    """Decode and verify a header; the caller compares the ids of reservoir and file."""
    if len(data) < HEADER_SIZE:
        raise Corrupt("a data file is shorter than its header", path=label, offset=len(data))
    magic, version, flags, reservoir_id, file_id, pages, size = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise Corrupt("a data file does not begin with its magic bytes", path=label)
    if _CRC.unpack_from(data, _HEADER.size)[0] != crc64(bytes(data[: _HEADER.size])):
        raise Corrupt("the header of a data file fails its checksum", path=label)
    if version > FORMAT_VERSION:
        raise UnsupportedFormat(f"{label} has reservoir format {version}: upgrade to read it")
    return DataFileHeader(flags, reservoir_id, file_id, pages, size)


def decode_index(data: Buffer, label: str) -> tuple[DataFileHeader, Ids, NDArray[np.int64]]:
    """Header, page ids, and the offset of each page and of the end, of a whole file."""
    header = decode_header(data, label)
    begin = index_size(header.pages)
    if header.size != len(data) or begin > len(data):
        raise Corrupt(
            f"a data file of {header.size} bytes has {len(data)}", path=label, offset=len(data)
        )
    ids = np.frombuffer(data, "<u8", header.pages, HEADER_SIZE).astype("<i8")
    at = HEADER_SIZE + 8 * header.pages
    offsets = np.frombuffer(data, "<u4", header.pages + 1, at).astype("<i8")
    if offsets[0] != begin or offsets[-1] != len(data) or (np.diff(offsets) < 0).any():
        raise Corrupt("the index of a data file is out of order", path=label, offset=at)
    return header, ids, offsets


def check_file(data: Buffer, label: str, *, reservoir_id: bytes, file_id: int, crc: int) -> None:
    """Raise Corrupt when a whole file is not the one that a checkpoint lists."""
    if crc64(data) != crc:
        raise Corrupt("a data file fails its checksum", path=label)
    header = decode_header(data, label)
    if (header.reservoir_id, header.file_id) != (reservoir_id, file_id):
        raise Corrupt("a data file is not the one that belongs here", path=label)
    assert object_keys.is_bundle(file_id) == bool(header.flags & FLAG_BUNDLE)
