"""The place of each page. Arrays, not objects: five million pages take 160 MB, not a gigabyte.

    base      all pages at one time: ids in order, a row for each
    log       rows of later changes in order; a row of file 0 is a delete
    recent    page id -> its newest row in the log

A lookup reads ``recent``, then searches the base. Many changes are merged into a new base, which
copies it once. The changes since the last checkpoint are the end of the log. Owned by the holder of
the reservoir's lock.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from strandline.reservoir.data_files.data_file_codec import Ids

ROW = np.dtype([("file_id", "<u8"), ("offset", "<u4"), ("size", "<u4"), ("checksum", "<u8")])
"""The place of one page. File 0 is none."""

RECENT_MIN = 65_536
RECENT_SHARE = 8
"""Merge when one part in this many of the base has changed."""

_ROW = struct.Struct("<QIIQ")
_LOG_FIRST = 1024
_new = tuple.__new__  # every read needs a lookup, and ``_make`` costs one more call

Rows = NDArray[np.void]


class PageLocation(NamedTuple):
    """The file, offset, size and checksum of a page."""

    file_id: int
    offset: int
    size: int
    checksum: int


class PageTable:
    """Page id -> place."""

    def __init__(self) -> None:
        self._ids: Ids = np.empty(0, dtype="<i8")
        self._base: Rows = np.empty(0, dtype=ROW)
        self._base_bytes = memoryview(b"")
        self._ids_view = memoryview(b"")
        """The ids again: reading one takes a third of the time of reading it from the array."""
        self._log_ids: Ids = np.empty(_LOG_FIRST, dtype="<i8")
        self._log: Rows = np.empty(_LOG_FIRST, dtype=ROW)
        self._log_bytes = _bytes_of(self._log)
        self._logged = 0
        self._saved = 0
        self._recent: dict[int, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def find(self, page_id: int) -> PageLocation | None:
        """The place of a page, None when the page does not exist."""
        at = self._recent.get(page_id)
        if at is not None:
            found = _ROW.unpack_from(self._log_bytes, at * 24)
            return _new(PageLocation, found) if found[0] else None
        at = int(self._ids.searchsorted(page_id))
        if at == len(self._ids_view) or self._ids_view[at] != page_id:
            return None
        return _new(PageLocation, _ROW.unpack_from(self._base_bytes, at * 24))

    def find_many(self, ids: Ids) -> Rows:
        """The rows of these pages, with file 0 for missing ones."""
        found = np.zeros(len(ids), dtype=ROW)
        if len(self._ids):
            at = np.minimum(self._ids.searchsorted(ids), len(self._ids) - 1)
            there = self._ids[at] == ids
            found[there] = self._base[at[there]]
        if self._recent:
            look = map(self._recent.get, ids.tolist(), itertools.repeat(-1))
            at = np.fromiter(look, dtype="<i8", count=len(ids))
            there = at >= 0
            found[there] = self._log[at[there]]
        return found

    def put(self, ids: Ids, rows: Rows) -> Rows:
        """Set new places of pages (each once); return their old rows, with file 0 for new pages."""
        old = self.find_many(ids)
        self._count += int((rows["file_id"] != 0).sum()) - int((old["file_id"] != 0).sum())
        start = self._logged
        self._grow(start + len(ids))
        self._log_ids[start : start + len(ids)] = ids
        self._log[start : start + len(ids)] = rows
        self._logged += len(ids)
        self._recent.update(zip(ids.tolist(), range(start, self._logged), strict=True))
        return old

    def remove(self, ids: Ids) -> Rows:
        """Remove pages; return the old rows of those that existed."""
        old = self.find_many(ids)
        existed = old["file_id"] != 0
        removed = ids[existed]
        self.put(removed, np.zeros(len(removed), dtype=ROW))
        old_rows: Rows = old[existed]
        return old_rows

    def all_pages(self) -> tuple[Ids, Rows]:
        """All pages, in the order of their ids."""
        self._merge_log()
        return self._ids, self._base

    def changes(self) -> tuple[Ids, Rows, Ids]:
        """Pages with new places, and removed pages, since the last ``checkpointed``."""
        ids, rows = newest(
            self._log_ids[self._saved : self._logged], self._log[self._saved : self._logged]
        )
        alive = rows["file_id"] != 0
        return ids[alive], rows[alive], ids[~alive]

    def checkpointed(self) -> None:
        """Record that all changes up to now are in a checkpoint."""
        self._saved = self._logged
        if self._logged > max(RECENT_MIN, len(self._ids) // RECENT_SHARE):
            self._merge_log()

    def load(self, ids: Ids, rows: Rows) -> None:
        """Set the whole table, in order; changes follow."""
        self._set_base(ids, rows)

    def apply(self, parts: Sequence[tuple[Ids, Rows]]) -> None:
        """Apply changes to the base, the oldest first; file 0 is a delete."""
        ids, rows = newest(
            np.concatenate([np.empty(0, dtype="<i8"), *(part[0] for part in parts)]),
            np.concatenate([np.empty(0, dtype=ROW), *(part[1] for part in parts)]),
        )
        self._set_base(*_merge(self._ids, self._base, ids, rows))

    def pages_of(self, file_id: int) -> Ids:
        """The pages in a file; scans all pages."""
        ids, rows = self.all_pages()
        found: Ids = ids[rows["file_id"] == file_id]
        return found

    def _merge_log(self) -> None:
        """Merge the changes into the base. Those since the last checkpoint also stay in the log."""
        unsaved = self._log_ids[self._saved : self._logged], self._log[self._saved : self._logged]
        if not self._logged:
            return
        ids, rows = newest(self._log_ids[: self._logged], self._log[: self._logged])
        base = _merge(self._ids, self._base, ids, rows)
        self._set_base(*base)
        unsaved_ids, unsaved_rows = unsaved[0].copy(), unsaved[1].copy()
        self._recent = {}
        self._logged = self._saved = 0
        if len(unsaved_ids):  # a merge between checkpoints: unsaved changes stay in the log
            self._grow(len(unsaved_ids))
            self._log_ids[: len(unsaved_ids)] = unsaved_ids
            self._log[: len(unsaved_ids)] = unsaved_rows
            self._logged = len(unsaved_ids)
            self._recent.update(zip(unsaved_ids.tolist(), range(self._logged), strict=True))

    def _set_base(self, ids: Ids, rows: Rows) -> None:
        self._ids, self._base = np.ascontiguousarray(ids), np.ascontiguousarray(rows)
        self._base_bytes = _bytes_of(self._base)
        self._ids_view = self._ids.data if len(ids) else memoryview(b"")
        self._count = len(ids)

    def _grow(self, size: int) -> None:
        if size <= len(self._log):
            return
        capacity = max(size, 2 * len(self._log))
        for name in ("_log_ids", "_log"):
            old = getattr(self, name)
            new = np.empty(capacity, dtype=old.dtype)
            new[: self._logged] = old[: self._logged]
            setattr(self, name, new)
        self._log_bytes = _bytes_of(self._log)


def newest(ids: Ids, rows: Rows) -> tuple[Ids, Rows]:
    """The last row of each page, in the order of their ids."""
    if (ids[1:] > ids[:-1]).all():
        return ids, rows
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    last = np.ones(len(ids), dtype=bool)
    last[:-1] = ordered[1:] != ordered[:-1]
    return ordered[last], rows[order[last]]


def _merge(base_ids: Ids, base: Rows, ids: Ids, rows: Rows) -> tuple[Ids, Rows]:
    """Changes (in order, each page once) applied to a base; one pass over it."""
    if not len(ids):
        return base_ids, base
    if not len(base_ids):
        alive = rows["file_id"] != 0
        return ids[alive], rows[alive]
    at = base_ids.searchsorted(ids)
    there = np.zeros(len(ids), dtype=bool)
    inside = at < len(base_ids)
    there[inside] = base_ids[at[inside]] == ids[inside]
    alive = rows["file_id"] != 0
    merged = base.copy()
    merged[at[there & alive]] = rows[there & alive]
    new = ~there & alive
    gone = there & ~alive
    ids_out = base_ids
    if gone.any():
        keep = np.ones(len(base_ids), dtype=bool)
        keep[at[gone]] = False
        ids_out, merged = base_ids[keep], merged[keep]
        at = ids_out.searchsorted(ids)
    if new.any():
        ids_out = np.insert(ids_out, at[new], ids[new])
        merged = np.insert(merged, at[new], rows[new])
    return ids_out, merged


def _bytes_of(rows: Rows) -> memoryview:
    return rows.data.cast("B") if len(rows) else memoryview(b"")
