"""Downloads files from the object store: complete, or a range at a time.

A file is the first bytes of its object. A truncated response is requested once more, because the
transfer may have failed. A complete file that fails its CRC-64 is not: its reader verifies each
page (``reservoir/page_reader.py``), and requests the usually few damaged ones again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from strandline.errors import Invalid
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir import object_keys
from strandline.reservoir.data_files import data_file_codec
from strandline.reservoir.data_files.data_file_table import FileRef

ATTEMPTS_MAX = 2


def download_attempts(objects: Objects, file: FileRef) -> Iterator[tuple[bytes, bool]]:
    """Download a whole file, with retries; yield each response and whether it is intact. One of the
    right size is the last."""
    for _ in range(ATTEMPTS_MAX):
        data = _prefix(objects, file)
        yield data, len(data) == file.size and data_file_codec.crc64(data) == file.crc64
        if len(data) == file.size:
            return


def _prefix(objects: Objects, file: FileRef) -> bytes:
    try:
        return objects.get_range(object_keys.file_key(file.file_id), 0, file.size)
    except Invalid:  # the object ends before the file does
        return b""


class RangeFile:
    """A file in the object store: every read is a request. Safe from many threads."""

    def __init__(self, objects: Objects, file: FileRef) -> None:
        self._objects = objects
        self._key = object_keys.file_key(file.file_id)
        self._size = file.size
        self.path = f"{objects.name}/{self._key}"

    def pread(self, size: int, offset: int) -> bytes:
        return self.pread_many([(offset, size)])[0]

    def pread_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several ``(offset, size)``; near ones share a request. All are empty when the object
        ends before one of them."""
        try:
            return self._objects.get_ranges(self._key, ranges)
        except Invalid:
            return [b""] * len(ranges)

    def pread_into(self, target: memoryview, offset: int) -> int:
        data = self.pread(len(target), offset)
        target[: len(data)] = data
        return len(data)

    def size(self) -> int:
        return self._size

    def close(self) -> None:
        """Nothing to release."""
