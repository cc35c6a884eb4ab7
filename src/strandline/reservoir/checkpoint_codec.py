"""Checkpoint <-> bytes: places of pages, and the list of files. Sorted columns. Pure.

    offset  size  field
    0       4     "SRCK"
    4       2     format version, 1
    6       2     flags: bit 0 a snapshot (all, not changes), bit 1 columns are a zstd frame
    8       16    id of the reservoir
    24      8     version
    32      8     the version before, which this one changes; 0 for none
    40      8     term of the writer: the version with which its opening began
    48      8     objects of terms up to this one are only deleted by ``clean``
    56      8     time of writing, microseconds since 1970 UTC
    64      8     page ids with a new place, P
    72      8     deleted page ids, D
    80      8     files, new or changed, F
    88      8     files that have become garbage, G
    96      8     size of the writer's own bytes, M
    104     8     size of all columns, unpacked
    112     16    id of the writer
    128     8     CRC-64 of the bytes before
    136           columns

Columns, each ascending in its id, 8 bytes per value, except 4 for offsets and sizes of pages:

    P   page id, file id, offset, size, checksum
    D   page id
    F   file id, pages, dead pages, size, dead bytes, added at version, CRC-64, flags
    G   file id, garbage since version
    M   bytes that the writer passed

A snapshot has P of all pages, F of all files, G of all garbage, and no D.

The whole object is [data file] checkpoint, registry, footer; with a data file it is a bundle:

    0       4     "SRCP"
    4       2     format version, 1
    6       2     zero
    8       16    id of the reservoir
    24      8     version
    32      8     where the checkpoint begins, which is the size of the data file
    40      8     where the registry begins
    48      8     CRC-64 of the registry
    56      8     CRC-64 of the bytes before

So the footer has the checksum of the registry, that has those of the checkpoints up to this one,
and those have the checksums of files and pages. A truncated object has no footer.
"""

from __future__ import annotations

import struct
import sys
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from strandline.errors import Corrupt, UnsupportedFormat
from strandline.platform.disk import Buffer
from strandline.reservoir.data_files.data_file_codec import Ids, crc64
from strandline.reservoir.data_files.data_file_table import FILE_ROW, GARBAGE_ROW
from strandline.reservoir.data_files.page_table import ROW, Rows

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FORMAT_VERSION = 1
FLAG_SNAPSHOT = 1
FLAG_ZSTD = 2
HEADER_SIZE = 136
FOOTER_SIZE = 64
META_BYTES_MAX = 16 * 1024 * 1024

_MAGIC = b"SRCK"
_FOOTER_MAGIC = b"SRCP"
_HEADER = struct.Struct("<4sHH16s11Q16s")
_FOOTER = struct.Struct("<4sH2x16sQQQQ")
_CRC = struct.Struct("<Q")
_ZSTD_LEVEL = 1  # checksums do not compress, the other columns do at any level


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The content of one checkpoint."""

    reservoir_id: bytes
    version: int
    previous: int
    term: int
    kept_term: int
    made_us: int
    writer_id: bytes
    is_snapshot: bool
    ids: Ids
    rows: Rows
    deleted: Ids
    files: NDArray[np.void]
    garbage: NDArray[np.void]
    meta: bytes


class CheckpointHeader(NamedTuple):
    """The numbers of a checkpoint, before its columns."""

    flags: int
    reservoir_id: bytes
    version: int
    previous: int
    term: int
    kept_term: int
    made_us: int
    pages: int
    deleted: int
    files: int
    garbage: int
    meta_size: int
    columns_size: int
    writer_id: bytes


class CheckpointFooter(NamedTuple):
    """Where the parts of a checkpoint's object are."""

    reservoir_id: bytes
    version: int
    checkpoint_offset: int
    registry_offset: int
    registry_crc: int


def encode(checkpoint: Checkpoint, *, compress: bool) -> bytes:
    """The checkpoint section of its object."""
    columns = b"".join(_columns(checkpoint))
    packed = zstd.compress(columns, _ZSTD_LEVEL) if compress else columns
    flags = FLAG_SNAPSHOT * checkpoint.is_snapshot | FLAG_ZSTD * compress
    header = _HEADER.pack(
        _MAGIC,
        FORMAT_VERSION,
        flags,
        checkpoint.reservoir_id,
        checkpoint.version,
        checkpoint.previous,
        checkpoint.term,
        checkpoint.kept_term,
        checkpoint.made_us,
        len(checkpoint.ids),
        len(checkpoint.deleted),
        len(checkpoint.files),
        len(checkpoint.garbage),
        len(checkpoint.meta),
        len(columns),
        checkpoint.writer_id,
    )
    return b"".join((header, _CRC.pack(crc64(header)), packed))


def decode_header(data: Buffer, label: str) -> CheckpointHeader:
    """Decode and verify the first bytes of a checkpoint."""
    if len(data) < HEADER_SIZE or bytes(data[:4]) != _MAGIC:
        raise Corrupt("a checkpoint does not begin with its magic bytes", path=label)
    if _CRC.unpack_from(data, _HEADER.size)[0] != crc64(bytes(data[: _HEADER.size])):
        raise Corrupt("the header of a checkpoint fails its checksum", path=label)
    _, format_version, *rest = _HEADER.unpack_from(data)
    if format_version > FORMAT_VERSION:
        raise UnsupportedFormat(
            f"{label} has reservoir format {format_version}: upgrade to read it"
        )
    return CheckpointHeader._make(rest)


def decode(data: Buffer, label: str) -> Checkpoint:
    """Decode a checkpoint, whose CRC-64 was compared with the registry."""
    header = decode_header(data, label)
    pages, deleted, size = header.pages, header.deleted, header.columns_size
    files, garbage, meta = header.files, header.garbage, header.meta_size
    is_packed = bool(header.flags & FLAG_ZSTD)
    columns = memoryview(_unpack(data, label, size, is_packed=is_packed))
    expected = pages * 32 + deleted * 8 + files * FILE_ROW.itemsize + garbage * 16 + meta
    if expected != size:
        raise Corrupt("the columns of a checkpoint do not add up", path=label, offset=HEADER_SIZE)
    reader = _ColumnReader(columns)
    ids = reader.column("<u8", pages).astype("<i8")
    return Checkpoint(
        reservoir_id=header.reservoir_id,
        version=header.version,
        previous=header.previous,
        term=header.term,
        kept_term=header.kept_term,
        made_us=header.made_us,
        writer_id=header.writer_id,
        is_snapshot=bool(header.flags & FLAG_SNAPSHOT),
        ids=ids,
        rows=reader.table(ROW, pages),
        deleted=reader.column("<u8", deleted).astype("<i8"),
        files=reader.table(FILE_ROW, files),
        garbage=reader.table(GARBAGE_ROW, garbage),
        meta=bytes(reader.bytes_of(meta)),
    )


def encode_footer(footer: CheckpointFooter) -> bytes:
    packed = _FOOTER.pack(
        _FOOTER_MAGIC,
        FORMAT_VERSION,
        footer.reservoir_id,
        footer.version,
        footer.checkpoint_offset,
        footer.registry_offset,
        footer.registry_crc,
    )
    return packed + _CRC.pack(crc64(packed))


def decode_footer(data: Buffer, label: str, size: int) -> CheckpointFooter:
    """The footer in the last bytes of an object of this size."""
    at = max(0, size - FOOTER_SIZE)
    if len(data) != FOOTER_SIZE or bytes(data[:4]) != _FOOTER_MAGIC:
        raise Corrupt("a checkpoint is truncated, or the object is not one", path=label, offset=at)
    _, format_version, *rest = _FOOTER.unpack_from(data)
    if _CRC.unpack_from(data, _FOOTER.size)[0] != crc64(bytes(data[: _FOOTER.size])):
        raise Corrupt("the end of a checkpoint fails its checksum", path=label, offset=at)
    if format_version > FORMAT_VERSION:
        raise UnsupportedFormat(
            f"{label} has reservoir format {format_version}: upgrade to read it"
        )
    footer = CheckpointFooter._make(rest)
    if not footer.checkpoint_offset <= footer.registry_offset <= at:
        raise Corrupt("the parts of a checkpoint are out of order", path=label, offset=at)
    return footer


class _ColumnReader:
    """Reads columns from memory, one after the other."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def column(self, kind: str, count: int) -> NDArray[np.generic]:
        values: NDArray[np.generic] = np.frombuffer(self._data, kind, count, self._at)
        self._at += values.nbytes
        return values

    def table(self, row: np.dtype[np.void], count: int) -> NDArray[np.void]:
        rows = np.empty(count, dtype=row)
        for name in row.names or ():
            rows[name] = self.column(row[name].str, count)
        return rows

    def bytes_of(self, size: int) -> memoryview:
        self._at += size
        return self._data[self._at - size : self._at]


def _columns(checkpoint: Checkpoint) -> list[bytes]:
    columns = [checkpoint.ids.astype("<u8").tobytes()]
    columns += [checkpoint.rows[name].tobytes() for name in ROW.names or ()]
    columns.append(checkpoint.deleted.astype("<u8").tobytes())
    columns += [checkpoint.files[name].tobytes() for name in FILE_ROW.names or ()]
    columns += [checkpoint.garbage[name].tobytes() for name in GARBAGE_ROW.names or ()]
    columns.append(checkpoint.meta)
    return columns


def _unpack(data: Buffer, label: str, size: int, *, is_packed: bool) -> Buffer:
    stored = memoryview(data)[HEADER_SIZE:]
    if is_packed:
        try:
            stored = memoryview(zstd.decompress(stored))
        except zstd.ZstdError as error:
            raise Corrupt(
                f"the columns of a checkpoint cannot be unpacked ({error})",
                path=label,
                offset=HEADER_SIZE,
            ) from error
    if len(stored) != size:
        raise Corrupt("the columns of a checkpoint do not add up", path=label, offset=HEADER_SIZE)
    return stored
