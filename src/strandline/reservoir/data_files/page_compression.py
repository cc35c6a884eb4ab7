"""The stored form of a page: unchanged, or one zstd frame, by the flags of its file."""

from __future__ import annotations

import sys

from strandline.config.settings import GIB
from strandline.errors import Corrupt, Invalid, TooLarge
from strandline.platform.disk import Buffer
from strandline.reservoir.data_files.data_file_codec import FLAG_ZSTD

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PAGE_BYTES_MAX = GIB
"""Together with as many bytes that wait for the same file, it is below the limit of offsets."""

_LEVEL = 1


def pack(data: Buffer, flags: int) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise Invalid(f"a page must be bytes, not {type(data).__name__}")
    return zstd.compress(data, _LEVEL) if flags & FLAG_ZSTD else bytes(data)


def too_large(page_id: int) -> TooLarge:
    return TooLarge(f"page {page_id} is too large: {PAGE_BYTES_MAX} bytes at most, stored")


def unpack(stored: bytes, flags: int, page_id: int) -> bytes:
    if not flags & FLAG_ZSTD:
        return stored
    try:
        return zstd.decompress(stored)
    except zstd.ZstdError as error:
        raise Corrupt(
            f"page {page_id} passes its checksum but cannot be unpacked ({error})",
            path="a page",
        ) from error
