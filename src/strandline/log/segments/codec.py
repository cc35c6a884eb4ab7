"""Segment file <-> bytes. Pure.

    header 64 B   magic, format version, store id, file number, topic id, header checksum
    blocks        each on a multiple of 8, as in the WAL or zstd-compressed
    footer        block index by columns, tag dictionary
    trailer 32 B  footer offset, footer size, footer checksum, end magic

A segment belongs to one topic, or is shared by many small ones (topic id 0); then its blocks are
sorted by topic and seq. Everything has a checksum: the header its own, each block one in the index
(seeded with its offset, so a block in another block's place is detected), the index that of the
footer (seeded with the file number), which the checkpoint that lists the file has, too.
docs/format/segment.md has a worked example.
"""

from __future__ import annotations

import struct

import msgspec
import numpy as np
from xxhash import xxh3_64_intdigest

from strandline.platform.disk import Buffer

FORMAT_VERSION = 1
HEADER_SIZE = 64
TRAILER_SIZE = 32
SHARED = 0

_HEADER = struct.Struct("<8sII16sQQ8x")
_TRAILER = struct.Struct("<QQQ8s")
_FOOTER = struct.Struct("<QQ")
_MAGIC = b"STRNDSEG"
_END_MAGIC = b"STRNDEND"
_MASK64 = 0xFFFF_FFFF_FFFF_FFFF

COLUMNS = (
    ("topic", "<u8"),
    ("first_seq", "<u8"),
    ("count", "<u8"),
    ("ts_min", "<i8"),
    ("ts_max", "<i8"),
    ("offset", "<u8"),
    ("stored_size", "<u8"),
    ("raw_size", "<u8"),
    ("payload_size", "<u8"),
    ("checksum", "<u8"),
)


class SegmentHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a segment file."""

    store_id: bytes
    number: int
    topic_id: int


class SegmentIndex:
    """The block index of a segment, one numpy column per field. Immutable."""

    topic: np.ndarray
    first_seq: np.ndarray
    count: np.ndarray
    ts_min: np.ndarray
    ts_max: np.ndarray
    offset: np.ndarray
    stored_size: np.ndarray
    raw_size: np.ndarray
    payload_size: np.ndarray
    checksum: np.ndarray

    def __init__(self, columns: dict[str, np.ndarray]) -> None:
        for name, kind in COLUMNS:
            setattr(self, name, np.ascontiguousarray(columns[name], dtype=kind))

    def __len__(self) -> int:
        return len(self.first_seq)


def encode_header(header: SegmentHeader) -> bytes:
    body = _HEADER.pack(_MAGIC, FORMAT_VERSION, 0, header.store_id, header.number, header.topic_id)
    return body + struct.pack("<Q", xxh3_64_intdigest(body))


def decode_header(data: bytes) -> SegmentHeader | int | None:
    """The header; a newer format's version number; or None when the bytes are not a header."""
    if len(data) < HEADER_SIZE or not data.startswith(_MAGIC):
        return None
    body = data[: HEADER_SIZE - 8]
    if xxh3_64_intdigest(body) != int.from_bytes(data[HEADER_SIZE - 8 : HEADER_SIZE], "little"):
        return None
    _, version, _, store_id, number, topic_id = _HEADER.unpack(body)
    if version != FORMAT_VERSION:
        return int(version)
    return SegmentHeader(store_id=store_id, number=number, topic_id=topic_id)


def encode_footer(
    index: SegmentIndex, tags: dict[str, bytes], seed: int, number: int, offset: int
) -> tuple[bytes, int]:
    """Footer and trailer, and the checksum that the checkpoint keeps of them."""
    packed = msgspec.msgpack.encode(tags)
    columns = b"".join(getattr(index, name).tobytes() for name, _ in COLUMNS)
    footer = _FOOTER.pack(len(index), len(packed)) + columns + packed
    checksum = xxh3_64_intdigest(footer, (seed + number) & _MASK64)
    return footer + _TRAILER.pack(offset, len(footer), checksum, _END_MAGIC), checksum


def decode_trailer(data: bytes) -> tuple[int, int, int] | None:
    """Offset, size and checksum of the footer, or None when this is not the end of a segment."""
    if len(data) != TRAILER_SIZE or not data.endswith(_END_MAGIC):
        return None
    offset, size, checksum, _ = _TRAILER.unpack(data)
    return offset, size, checksum


def decode_footer(data: bytes, checksum: int, seed: int, number: int) -> SegmentIndex | None:
    """The index, or None when the checksum fails. The tags are not decoded."""
    if xxh3_64_intdigest(data, (seed + number) & _MASK64) != checksum:
        return None
    count, _ = _FOOTER.unpack_from(data)
    columns, offset = {}, _FOOTER.size
    for name, kind in COLUMNS:
        columns[name] = np.frombuffer(data, dtype=kind, count=count, offset=offset)
        offset += 8 * count
    return SegmentIndex(columns)


def tags_offset(count: int) -> int:
    """Where the tag dictionary begins in the footer of so many blocks. It goes to the end."""
    return _FOOTER.size + 8 * len(COLUMNS) * count


def decode_tags(packed: bytes) -> dict[str, bytes]:
    """The tag dictionary of a footer: the seqs of every tag as a roaring bitmap."""
    return msgspec.msgpack.decode(packed, type=dict[str, bytes])


def block_checksum(stored: Buffer, seed: int, offset: int) -> int:
    return xxh3_64_intdigest(stored, seed ^ offset)
