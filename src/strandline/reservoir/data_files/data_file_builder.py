"""A data file under construction: its pages in memory until it is stored.

The pages stay separate: they are only joined for object stores that need it. Joining sixty
megabytes into new memory takes longer than all other steps. When the file is stored, the pages are
dropped, and their places stay. A small file may keep them, for a merge with others (``pool.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from strandline.reservoir import object_keys
from strandline.reservoir.data_files import data_file_codec
from strandline.reservoir.data_files.data_file_codec import Ids
from strandline.reservoir.data_files.data_file_table import FileEntry, FileRef
from strandline.reservoir.data_files.page_table import ROW, Rows

CHUNK_SIZE = 1024 * 1024


class DataFile:
    """A full file. Only ``drop`` changes it."""

    __slots__ = ("_index", "_pages", "_places", "entry", "ids", "rows")

    def __init__(
        self,
        pages: Mapping[int, bytes],
        *,
        reservoir_id: bytes,
        file_id: int,
        version: int,
        flags: int = 0,
    ) -> None:
        """``version`` is the first checkpoint that will list the file."""
        flags |= data_file_codec.FLAG_BUNDLE if object_keys.is_bundle(file_id) else 0
        self._pages = list(pages.values())
        self._places: dict[int, int] | None = None
        self.ids: Ids = np.fromiter(pages, dtype="<i8", count=len(pages))
        sizes = np.fromiter(map(len, self._pages), dtype="<i8", count=len(pages))
        self._index, starts = data_file_codec.encode_index(
            self.ids, sizes, reservoir_id=reservoir_id, file_id=file_id, flags=flags
        )
        self.rows: Rows = np.empty(len(pages), dtype=ROW)
        self.rows["file_id"] = file_id
        self.rows["offset"] = starts[:-1]
        self.rows["size"] = sizes
        self.rows["checksum"] = data_file_codec.page_checksums(self._pages, self.ids, file_id)
        size, crc = 0, 0
        for chunk in self.chunks():
            size, crc = size + len(chunk), data_file_codec.crc64(chunk, crc)
        self.entry = FileEntry(
            ref=FileRef(file_id, size, crc, flags), pages=len(pages), added_at=version
        )

    @property
    def file_id(self) -> int:
        return self.entry.ref.file_id

    def chunks(self) -> Iterator[bytes]:
        """The bytes of the file, about a megabyte at a time."""
        yield self._index
        pages = self._pages
        step = max(1, CHUNK_SIZE * len(pages) // max(1, sum(map(len, pages))))
        for first in range(0, len(pages), step):
            yield b"".join(pages[first : first + step])

    def content(self) -> bytes:
        """The bytes of the file, joined."""
        return b"".join((self._index, *self._pages))

    def pieces(self) -> list[bytes] | None:
        """The bytes of the file as separate pieces; None after the pages are dropped."""
        pages = self._pages
        return [self._index, *pages] if pages else None

    def find(self, page_id: int) -> int | None:
        """The number of the row of a page, None when it is not in this file."""
        if self._places is None:  # built on demand: most files are never searched
            self._places = dict(zip(self.ids.tolist(), range(len(self.ids)), strict=True))
        return self._places.get(page_id)

    def stored(self, at: int) -> bytes | None:
        """The stored bytes of a page by the number of its row; None after ``drop``."""
        pages = self._pages
        return pages[at] if pages else None

    def drop(self) -> None:
        """Release the memory of the pages, which the object store has."""
        self._pages = []
