"""Checksums of every column in every zone, inside the footer of the file. Pure except for reading.

The checksums of Parquet cover the bytes of pages and not their headers: a flipped bit in a header
can change values, or convert them to numbers without a dictionary. So the footer, which the
checksum in the manifest covers, has an xxh3-64 of each column of each zone, headers included.

The offsets of columns are known only when the file is closed, and that writes the footer. The
footer is therefore written with a placeholder of the same size, which is replaced by the checksums
before the file is uploaded:

    bytes on the spool    data pages, as Parquet wrote them
    tail in memory        bloom filters, page indexes, footer: filled in, then appended
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from xxhash import xxh3_64_intdigest

from strandline.platform.disk import ReadFile

KEY = "strandline.sums"
_PLACEHOLDER = b"~"
_WORD = "<u8"


def span_of(chunk: Any) -> tuple[int, int]:
    """Offset and size of a column in a zone, from the metadata of Parquet."""
    first = chunk.data_page_offset
    if chunk.dictionary_page_offset is not None:
        first = min(first, chunk.dictionary_page_offset)
    return first, chunk.total_compressed_size


def placeholder(zones: int, columns: int) -> str:
    """A placeholder with the size of the encoded checksums."""
    return (_PLACEHOLDER * len(_encode(np.zeros((zones, columns), _WORD)))).decode()


def sums_of(metadata: Any, data: ReadFile, seed: int) -> np.ndarray:
    """The checksums of the columns of a file: a row for each zone, a column for each column."""
    sums = np.zeros((metadata.num_row_groups, metadata.num_columns), _WORD)
    for zone in range(metadata.num_row_groups):
        group = metadata.row_group(zone)
        spans = [span_of(group.column(column)) for column in range(metadata.num_columns)]
        first = min(start for start, _ in spans)
        whole = memoryview(data.pread(max(map(sum, spans)) - first, first))
        for column, (start, size) in enumerate(spans):
            sums[zone, column] = sum_of(whole[start - first : start - first + size], seed)
    return sums


def sum_of(data: bytes | memoryview, seed: int) -> int:
    return xxh3_64_intdigest(data, seed)


def fill_placeholder(tail: bytes, sums: np.ndarray) -> bytes:
    """The tail of a file with the checksums in place of the placeholder."""
    text = _encode(sums)
    if not text:
        return tail
    start = tail.index(_PLACEHOLDER * len(text), tail.rindex(KEY.encode()))
    return tail[:start] + text + tail[start + len(text) :]


def decode(text: bytes, zones: int, columns: int) -> np.ndarray:
    """The checksums that ``filled`` wrote."""
    return np.frombuffer(base64.b64decode(text, validate=True), _WORD).reshape(zones, columns)


def _encode(sums: np.ndarray) -> bytes:
    return base64.b64encode(sums.astype(_WORD).tobytes())


class ComposedFile:
    """A ``ReadFile`` of a file whose tail is in memory. Safe to call from many threads."""

    def __init__(self, front: ReadFile, offset: int, tail: bytes) -> None:
        self.path = front.path
        self._front = front
        self._offset = offset
        self._tail = tail

    def size(self) -> int:
        return self._offset + len(self._tail)

    def pread(self, size: int, offset: int) -> bytes:
        front_size = max(0, min(size, self._offset - offset))
        parts: Sequence[bytes] = [self._front.pread(front_size, offset)] if front_size else []
        start = max(0, offset - self._offset)
        return b"".join([*parts, self._tail[start : start + size - front_size]])

    def pread_into(self, target: memoryview, offset: int) -> int:
        data = self.pread(len(target), offset)
        target[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._front.close()
