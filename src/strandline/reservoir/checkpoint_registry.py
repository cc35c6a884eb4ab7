"""Registry <-> bytes: the checkpoints from which versions can be recovered. Pure.

    offset  size  field
    0       4     "SRCR"
    4       2     format version, 1
    6       2     zero
    8       8     checkpoints, N
    16            columns of N values, 8 bytes each

    version, flags (bit 0 a snapshot, bit 1 a bundle), CRC-64, offset in its object, size

Every checkpoint stores the registry in its own object, and the last row is the checkpoint itself:
after the newest one is read, each other checkpoint takes one request for exactly its bytes. The
first row is the snapshot before the oldest recoverable version. Its own CRC-64 is in the footer.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec
import numpy as np

from strandline.errors import Corrupt, UnsupportedFormat
from strandline.platform.disk import Buffer

FORMAT_VERSION = 1
FLAG_SNAPSHOT = 1
FLAG_BUNDLE = 2

_MAGIC = b"SRCR"
_HEADER = struct.Struct("<4sH2xQ")
_COLUMNS = 5


class RegistryRow(msgspec.Struct, frozen=True, gc=False):
    """One checkpoint."""

    version: int
    flags: int
    crc64: int
    offset: int
    size: int

    @property
    def is_snapshot(self) -> bool:
        return bool(self.flags & FLAG_SNAPSHOT)

    @property
    def is_bundle(self) -> bool:
        return bool(self.flags & FLAG_BUNDLE)


def encode(rows: Sequence[RegistryRow]) -> bytes:
    table = np.array([msgspec.structs.astuple(row) for row in rows], dtype="<u8")
    return _HEADER.pack(_MAGIC, FORMAT_VERSION, len(rows)) + table.T.tobytes()


def decode(data: Buffer, label: str) -> list[RegistryRow]:
    """Decode the rows of a registry, whose CRC-64 was compared with the footer."""
    if len(data) < _HEADER.size or bytes(data[:4]) != _MAGIC:
        raise Corrupt("a registry does not begin with its magic bytes", path=label)
    _, format_version, count = _HEADER.unpack_from(data)
    if format_version > FORMAT_VERSION:
        raise UnsupportedFormat(
            f"{label} has reservoir format {format_version}: upgrade to read it"
        )
    if len(data) != _HEADER.size + count * _COLUMNS * 8:
        raise Corrupt("the columns of a registry do not add up", path=label)
    table = np.frombuffer(data, "<u8", offset=_HEADER.size).reshape(_COLUMNS, count)
    return [RegistryRow(*values) for values in table.T.tolist()]


def chain(rows: Sequence[RegistryRow]) -> list[RegistryRow]:
    """The rows from which the last version is recovered: the newest snapshot, and the rest."""
    begin = max(index for index, row in enumerate(rows) if row.is_snapshot)
    return list(rows[begin:])


def retained_rows(rows: Sequence[RegistryRow], oldest: int) -> list[RegistryRow]:
    """The rows that versions from ``oldest`` on need, from the newest possible snapshot on."""
    usable = [i for i, row in enumerate(rows) if row.is_snapshot and row.version <= oldest]
    return list(rows[max(usable, default=0) :])
