"""Checksums of every column in every zone, inside the footer of the file. Pure but for reading.

Parquet's own checksums cover the bytes of pages and not their headers: a bit that flips in a header
can turn values into others, or into numbers without a dictionary. So the footer, which the manifest
covers, has an xxh3-64 of each column of each zone, headers included.

Where columns begin is known only when the file is closed, and then its footer is made. The footer
is therefore written with as much room as the checksums take, and gets them before anybody sees it:

    bytes on the spool    data pages, as Parquet wrote them
    tail in memory        bloom filters, page indexes, footer: filled in, then behind the others
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from xxhash import xxh3_64_intdigest

from strandline.platform.disk import ReadFile

KEY = "strandline.sums"
_ROOM = b"~"
_WORD = "<u8"


def span_of(described: Any) -> tuple[int, int]:
    """Offset and size of a column in a zone, from what Parquet knows of it."""
    first = described.data_page_offset
    if described.dictionary_page_offset is not None:
        first = min(first, described.dictionary_page_offset)
    return first, described.total_compressed_size


def room(zones: int, columns: int) -> str:
    """Text as long as the checksums will be."""
    return (_ROOM * len(_encoded(np.zeros((zones, columns), _WORD)))).decode()


def sums_of(metadata: Any, data: ReadFile, seed: int) -> np.ndarray:
    """The checksums of what is in a file: a row for each zone, a column for each column."""
    found = np.zeros((metadata.num_row_groups, metadata.num_columns), _WORD)
    for zone in range(metadata.num_row_groups):
        group = metadata.row_group(zone)
        spans = [span_of(group.column(place)) for place in range(metadata.num_columns)]
        first = min(start for start, _ in spans)
        whole = memoryview(data.pread(max(map(sum, spans)) - first, first))
        for place, (start, size) in enumerate(spans):
            found[zone, place] = sum_of(whole[start - first : start - first + size], seed)
    return found


def sum_of(data: bytes | memoryview, seed: int) -> int:
    return xxh3_64_intdigest(data, seed)


def filled(tail: bytes, sums: np.ndarray) -> bytes:
    """The tail of a file with the checksums where there is room for them."""
    told = _encoded(sums)
    if not told:
        return tail
    start = tail.index(_ROOM * len(told), tail.rindex(KEY.encode()))
    return tail[:start] + told + tail[start + len(told) :]


def decode(told: bytes, zones: int, columns: int) -> np.ndarray:
    """What ``filled`` has written."""
    return np.frombuffer(base64.b64decode(told, validate=True), _WORD).reshape(zones, columns)


def _encoded(sums: np.ndarray) -> bytes:
    return base64.b64encode(sums.astype(_WORD).tobytes())


class Whole:
    """A file whose end is in memory: a ``ReadFile``. Safe from many threads."""

    def __init__(self, front: ReadFile, offset: int, tail: bytes) -> None:
        self.path = front.path
        self._front = front
        self._offset = offset
        self._tail = tail

    def size(self) -> int:
        return self._offset + len(self._tail)

    def pread(self, size: int, offset: int) -> bytes:
        before = max(0, min(size, self._offset - offset))
        parts: Sequence[bytes] = [self._front.pread(before, offset)] if before else []
        start = max(0, offset - self._offset)
        return b"".join([*parts, self._tail[start : start + size - before]])

    def pread_into(self, target: memoryview, offset: int) -> int:
        data = self.pread(len(target), offset)
        target[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._front.close()
