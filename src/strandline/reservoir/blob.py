"""Pages packed into one file, in memory until it is stored.

Its pages are read from it while it is on its way; when it is stored it drops its bytes, and what is
left tells where the pages are.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from strandline.reservoir import codec, keys
from strandline.reservoir.codec import Ids
from strandline.reservoir.files import FileEntry, FileRef
from strandline.reservoir.pages import ROW, Rows


class Blob:
    """A full file. Nothing but ``drop`` changes it."""

    __slots__ = ("_index", "content", "entry", "ids", "rows")

    def __init__(self, pages: Mapping[int, bytes], *, reservoir_id: bytes, file_id: int,
                 version: int, flags: int = 0) -> None:  # fmt: skip
        """``version`` is that of the checkpoint that will list it first."""
        flags |= codec.FLAG_BUNDLE if keys.is_bundle(file_id) else 0
        stored = list(pages.values())
        self._index: dict[int, int] | None = None
        self.ids: Ids = np.fromiter(pages, dtype="<i8", count=len(pages))
        sizes = np.fromiter(map(len, stored), dtype="<i8", count=len(stored))
        index, starts = codec.encode_index(
            self.ids, sizes, reservoir_id=reservoir_id, file_id=file_id, flags=flags
        )
        self.content = b"".join((index, *stored))
        self.rows: Rows = np.empty(len(stored), dtype=ROW)
        self.rows["file_id"] = file_id
        self.rows["offset"] = starts[:-1]
        self.rows["size"] = sizes
        self.rows["checksum"] = codec.page_checksums(stored, self.ids, file_id)
        self.entry = FileEntry(
            ref=FileRef(file_id, len(self.content), codec.crc64(self.content), flags),
            pages=len(stored),
            added_at=version,
        )

    @property
    def file_id(self) -> int:
        return self.entry.ref.file_id

    def find(self, page_id: int) -> int | None:
        """The number of the row of a page, None when it is not in here."""
        if self._index is None:  # made when somebody asks: most files are never asked
            self._index = dict(zip(self.ids.tolist(), range(len(self.ids)), strict=True))
        return self._index.get(page_id)

    def drop(self) -> None:
        """The object store has the bytes. Whoever reads them here holds them by ``content``."""
        self.content = b""
