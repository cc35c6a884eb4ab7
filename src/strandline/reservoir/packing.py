"""A page as it is stored: as it is, or as one zstd frame. Which, its file tells."""

from __future__ import annotations

import sys

from strandline.env.disk import Buffer
from strandline.errors import Corrupt
from strandline.reservoir.codec import FLAG_ZSTD

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL = 1


def pack(data: Buffer, flags: int) -> bytes:
    return zstd.compress(data, _LEVEL) if flags & FLAG_ZSTD else bytes(data)


def unpack(stored: bytes, flags: int, page_id: int) -> bytes:
    if not flags & FLAG_ZSTD:
        return stored
    try:
        return zstd.decompress(stored)
    except zstd.ZstdError as error:
        raise Corrupt(
            f"page {page_id} passes its checksum and cannot be unpacked ({error})", path="a page"
        ) from error
