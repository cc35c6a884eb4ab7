"""The state of one key, in memory and as bytes in a map. Pure.

    offset  size  field
    0       8     version: seq of the newest record, unsigned
    8       8     ts of that record, microseconds
    16      8     expires_us, 0 is never
    24      2     size of the older versions, and 0x8000 when the value is only in the log
    26      8n    seqs of older versions, ascending
    26+8n   m     the value

All little-endian. Values above ``INLINE_BYTES_MAX`` are only in the log: a map of large values
would write every byte twice, and hold few of them in memory.

Older versions are bytes, not a tuple: 7 of them take 89 bytes of memory instead of 320.
"""

from __future__ import annotations

import struct
import sys

import msgspec

INLINE_BYTES_MAX = 64 * 1024
SEQ_BYTES = 8

_HEAD = struct.Struct("<QqqH")
_SEQ = struct.Struct("<Q")
_IN_LOG = 0x8000

pack_seq = _SEQ.pack


class Slot(msgspec.Struct, frozen=True, gc=False):
    """The state of a key. Without a value it is deleted, or its value is in the log."""

    value: bytes | None
    version: int
    ts: int
    expires_us: int
    older: bytes
    deleted: bool = False

    @property
    def in_log(self) -> bool:
        return self.value is None and not self.deleted

    @property
    def older_seqs(self) -> tuple[int, ...]:
        return seqs_of(self.older)


def seqs_of(packed: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(packed) // SEQ_BYTES}Q", packed)


def encode(slot: Slot) -> bytes:
    sizes = len(slot.older) | (_IN_LOG if slot.in_log else 0)
    head = _HEAD.pack(slot.version, slot.ts, slot.expires_us, sizes)
    return head + slot.older + (slot.value or b"")


def decode(data: bytes) -> Slot:
    """A key that has a value."""
    version, ts, expires_us, sizes = _HEAD.unpack_from(data)
    value_at = _HEAD.size + (sizes & ~_IN_LOG)
    value = None if sizes & _IN_LOG else data[value_at:]
    return Slot(value, version, ts, expires_us, data[_HEAD.size : value_at])


def decode_deleted(data: bytes) -> Slot:
    """A key that is deleted."""
    version, ts, _, _ = _HEAD.unpack_from(data)
    return Slot(None, version, ts, 0, data[_HEAD.size :], deleted=True)


_FIXED_RAM = (
    sys.getsizeof(Slot(None, 0, 0, 0, b"")) + 3 * sys.getsizeof(b"") + 3 * sys.getsizeof(2**40)
)
"""Bytes of a slot, its key, value and older versions without their content, and three numbers."""


def ram_of(key: bytes, value: bytes | None, older: bytes = b"") -> int:
    """Bytes of memory that a key and its slot take, without the dict entry."""
    return _FIXED_RAM + len(key) + len(older) + (0 if value is None else len(value))
