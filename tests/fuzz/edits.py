"""Bytes of a fuzzer as changes of valid bytes: what checks checksums would reject all others."""

from __future__ import annotations

import struct

_EDIT = struct.Struct("<HB")


def edited(whole: bytes, data: bytes) -> bytes:
    """Valid bytes with some replaced (place u16, byte), cut where the first byte of data says."""
    changed = bytearray(whole)
    for place, value in _EDIT.iter_unpack(data[1 : len(data) - (len(data) - 1) % _EDIT.size]):
        changed[place % len(changed)] = value
    keep = data[0] if data else 0
    return bytes(changed[: len(changed) * (256 - keep) // 256])
