"""WAL file header and frames <-> bytes. Pure.

A frame is one commit. It begins on a multiple of 8 bytes; all numbers are little-endian.

    offset  size  field
    0       4     size of the whole frame, a multiple of 8: never 0
    4       4     header check: low half of xxh3-64 of bytes 8 to 72, seeded with shard and size
    8       1     kind: 1 single, 2 batch
    9       1     mask: 0, or the number of the mask that the body is XORed with
    10      2     count of blocks (batch)
    12      4     term of the writer
    16      8     lsn of this frame
    24      8     durable_upto: the lsn known to be synced when the frame was written
    32      8     commit ts, microseconds
    40      8     body check: xxh3-64 of the body (single), of the blocks' checksums (batch)
    48      8     topic id (single)
    56      8     seq (single)
    64      8     sizes of key, tag, node and meta, u16 each, 0xFFFF when absent (single)
    72      ...   body
            1     0xA5, then zeros up to a multiple of 8

Body of a single, one record: key, tag, node, meta, data. Body of a batch: blocks
(``log/wal/block.py``); its topic, seq and sizes are zero.

Why a reader can distinguish a torn frame from a damaged one: Files begin as zeros and are never
used twice. The first eight bytes are stored after all the others, so a writer that was killed
halfway leaves them zero. A power loss keeps any mix of 512-byte sectors, and a sector that was not
written is all zero where the frame is new. In a complete frame the first eight bytes and the 0xA5
make the outer sectors nonzero, and a body with a zero sector of its own is masked. So a frame with
a zero sector was never completely written; a bad frame without one was, and is damaged.
"""

from __future__ import annotations

import struct

import msgspec
import numpy as np
from xxhash import xxh3_64_intdigest

from strandline.platform.disk import Buffer

FORMAT_VERSION = 1
SECTOR = 512
HEADER_SIZE = 72
SINGLE = 1
BATCH = 2
ABSENT = 0xFFFF
NO_FIELDS = 0xFFFF_FFFF_FFFF_FFFF
FRAME_SIZE_MAX = 2**31

FIRST = struct.Struct("<II")
REST = struct.Struct("<QQQqQQQQ")
"""The header after its first eight bytes; kind, mask, count and term are one number."""
HEADER = struct.Struct("<IIBBHIQQqQQQQ")
TRAILERS = tuple(b"\xa5" + bytes(7 - size) for size in range(8))
LOW32 = 0xFFFF_FFFF

_TRAILER_MARK = TRAILERS[0][0]

_FILE = struct.Struct("<8sII16sQQQQQQq")
_MAGIC = b"STRNDWAL"
FILE_HEADER_SIZE = _FILE.size + 8
_MASK_STEP = 0x9E37_79B9_7F4A_7C15


class FileHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first bytes of a WAL file: its writer, and what precedes it in the log."""

    shard: int
    store_id: bytes
    first_lsn: int
    term: int
    file_size: int
    previous: int
    """The first eight bytes of the frame just before this file; 0 when there is none, or when the
    writer did not read it because a checkpoint covers everything before."""
    durable_upto: int
    page_cache: int
    """``page_cache_number`` of the writer; 0 for none, while losses are being logged."""
    created_us: int


def encode_file_header(header: FileHeader) -> bytes:
    body = _FILE.pack(
        _MAGIC,
        FORMAT_VERSION,
        header.shard,
        header.store_id,
        header.first_lsn,
        header.term,
        header.file_size,
        header.previous,
        header.durable_upto,
        header.page_cache,
        header.created_us,
    )
    return body + struct.pack("<Q", xxh3_64_intdigest(body))


def decode_file_header(data: bytes) -> FileHeader | int | None:
    """The header; a newer format's version number; or None when the bytes are not a header."""
    if len(data) < FILE_HEADER_SIZE or not data.startswith(_MAGIC):
        return None
    body = data[: _FILE.size]
    if xxh3_64_intdigest(body) != struct.unpack_from("<Q", data, _FILE.size)[0]:
        return None
    _, version, *fields = _FILE.unpack(body)
    if version != FORMAT_VERSION:
        return int(version)
    names = FileHeader.__struct_fields__
    return FileHeader(**dict(zip(names, fields, strict=True)))


def shard_seed(store_id: bytes, shard: int) -> int:
    """The seed of every header check of a shard: frames of another log never verify."""
    return xxh3_64_intdigest(store_id, shard) & 0x7FFF_FFFF_FFFF_FFFF


def store_seed(store_id: bytes) -> int:
    """The seed of every body and block checksum."""
    return xxh3_64_intdigest(store_id)


def page_cache_number(page_cache_id: str) -> int:
    """The identity of a page cache (``platform/page_cache.py``) as it is stored."""
    return xxh3_64_intdigest(page_cache_id.encode())


def zero_sector(parts: Buffer, file_offset: int) -> bool:
    """Whether bytes stored at this place of a file would fill some whole sector with zeros."""
    first = -file_offset % SECTOR
    count = (len(parts) - first) // SECTOR
    if count <= 0:
        return False
    starts = np.frombuffer(parts, dtype="<u8", offset=first, count=count * (SECTOR // 8))
    suspects = np.flatnonzero(starts[:: SECTOR // 8] == 0)
    return any(
        not starts[index * (SECTOR // 8) : (index + 1) * (SECTOR // 8)].any() for index in suspects
    )


def masked(body: Buffer, mask: int) -> bytes:
    """The body XORed with a mask; the same call removes the mask again. Whole words only."""
    words = np.frombuffer(body, dtype="<u8")
    return (words ^ np.uint64((_MASK_STEP * mask) & 0xFFFF_FFFF_FFFF_FFFF)).tobytes()


def kind_word(kind: int, mask: int, count: int, term: int) -> int:
    """Kind, mask, count and term as the number that begins ``REST``."""
    return kind | mask << 8 | count << 16 | term << 32


def data_size(body: Buffer) -> int:
    """The size of a single's body without its trailer."""
    end = len(body) - 1
    while body[end] != _TRAILER_MARK:
        end -= 1
    return end


def split_single(sizes: int, body: Buffer) -> tuple[list[bytes | None], bytes]:
    """The four optional fields and the data of a single frame."""
    end = data_size(body)
    start = 0
    fields: list[bytes | None] = [None] * 4
    if sizes != NO_FIELDS:
        for place in range(4):
            size = (sizes >> (16 * place)) & ABSENT
            if size != ABSENT:
                fields[place] = bytes(body[start : start + size])
                start += size
    return fields, bytes(body[start:end])


def header_ok(first_check: int, rest: Buffer, seed: int, size: int) -> bool:
    return bool(xxh3_64_intdigest(rest, seed + size) & LOW32 == first_check)


def body_ok(body: Buffer, check: int, seed: int) -> bool:
    return bool(xxh3_64_intdigest(body, seed) == check)
