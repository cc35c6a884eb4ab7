"""The files of a reservoir, and how much of each is dead. Owned by the holder of the lock.

A page that is written again or deleted makes its old bytes dead. A file without live pages becomes
garbage: it stays while a recoverable version may need it, then it is deleted.

The object with which an opening began stays for its name, long after its content is needed. A
fenced writer that was paused would create exactly that name next; if it were free again, the writer
would not find out that it is fenced. In a checkpoint such names are rows of garbage, with a version
that never exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

FILE_ROW = np.dtype(
    [
        ("file_id", "<u8"),
        ("pages", "<u8"),
        ("dead_pages", "<u8"),
        ("size", "<u8"),
        ("dead_bytes", "<u8"),
        ("added_at", "<u8"),
        ("crc64", "<u8"),
        ("flags", "<u8"),
    ]
)
"""One file in a checkpoint; columns in this order."""

INDEX_BYTES = 12
"""Bytes of a page in the index of its file."""

GARBAGE_ROW = np.dtype([("file_id", "<u8"), ("deleted_at", "<u8")])


NAME_ONLY = (1 << 64) - 1
"""The version in the row of an object that stays for its name."""

NAMES_MAX = 1000
"""Maximum number of names of openings: a paused writer would have to miss as many openings."""


class FileRef(msgspec.Struct, frozen=True, gc=False):
    """The facts needed to fetch and verify a file."""

    file_id: int
    size: int
    crc64: int
    flags: int = 0


class FileEntry(msgspec.Struct, kw_only=True, gc=False):
    """One file that has live pages, or had some until recently."""

    ref: FileRef
    pages: int
    dead_pages: int = 0
    dead_bytes: int = 0
    added_at: int
    """The first version that lists it."""

    @property
    def live_bytes(self) -> int:
        """Bytes of a copy of the live pages."""
        return self.ref.size - self.dead_bytes - INDEX_BYTES * self.dead_pages

    @property
    def is_dead(self) -> bool:
        return self.dead_pages >= self.pages


class FileTable:
    """Live files and garbage, and which of them changed since the last checkpoint."""

    def __init__(self) -> None:
        self.live: dict[int, FileEntry] = {}
        self.garbage: dict[int, int] = {}
        """Files without a live page, with the version since which."""
        self.names: set[int] = set()
        """Ids of the objects with which openings began, as bundles."""
        self._changed: set[int] = set()
        self._dropped: set[int] = set()

    def add(self, entry: FileEntry) -> None:
        self.live[entry.ref.file_id] = entry
        self._changed.add(entry.ref.file_id)

    def count_dead(self, file_ids: NDArray[np.uint64], sizes: NDArray[np.int64]) -> None:
        """Count pages of these sizes in these files as dead; file 0 is none."""
        touched, place = np.unique(file_ids, return_inverse=True)
        counts = np.bincount(place, minlength=len(touched))
        totals = np.bincount(place, weights=sizes, minlength=len(touched))
        for file_id, count, total in zip(
            touched.tolist(), counts.tolist(), totals.tolist(), strict=True
        ):
            if file_id:
                entry = self.live[file_id]
                entry.dead_pages += count
                entry.dead_bytes += int(total)
                self._changed.add(file_id)

    def move_to_garbage(self, file_ids: Iterable[int], version: int) -> None:
        """These have no live page from this version on."""
        for file_id in file_ids:
            del self.live[file_id]
            self.garbage[file_id] = version
            self._changed.discard(file_id)
            self._dropped.add(file_id)

    def withdraw(self, file_ids: Iterable[int]) -> None:
        """These have no live page, and no checkpoint has listed them."""
        for file_id in file_ids:
            del self.live[file_id]
            self._changed.discard(file_id)

    def keep_name(self, file_id: int, version: int) -> None:
        """Keep the name of an opening's object; the oldest above the maximum become garbage."""
        self.names.add(file_id)
        self._dropped.add(file_id)
        for old in sorted(self.names)[:-NAMES_MAX]:
            self.names.remove(old)
            self.garbage[old] = version
            self._dropped.add(old)

    def forget(self, file_ids: Iterable[int]) -> None:
        """Remove deleted objects from the garbage."""
        for file_id in file_ids:
            self.garbage.pop(file_id, None)

    def rows(self, *, changed_only: bool) -> NDArray[np.void]:
        """Live files, for a checkpoint."""
        chosen = sorted(self._changed) if changed_only else sorted(self.live)
        return np.array([_row(self.live[file_id]) for file_id in chosen], dtype=FILE_ROW)

    def garbage_rows(self, *, changed_only: bool) -> NDArray[np.void]:
        known = self.garbage.keys() | self.names
        chosen = sorted(self._dropped & known if changed_only else known)
        rows = [(file_id, self.garbage.get(file_id, NAME_ONLY)) for file_id in chosen]
        return np.array(rows, dtype=GARBAGE_ROW)

    def checkpointed(self) -> None:
        """Record that all changes up to now are in a checkpoint."""
        self._changed.clear()
        self._dropped.clear()

    def apply(self, rows: NDArray[np.void], garbage: NDArray[np.void]) -> None:
        """Apply the rows of a checkpoint to the table."""
        for entry in _entries(rows):
            self.live[entry.ref.file_id] = entry
        for file_id, deleted_at in garbage.tolist():
            if deleted_at == NAME_ONLY:
                self.names.add(file_id)
                continue
            self.names.discard(file_id)
            self.live.pop(file_id, None)
            self.garbage[file_id] = deleted_at


def _row(entry: FileEntry) -> tuple[int, ...]:
    ref = entry.ref
    return (
        ref.file_id,
        entry.pages,
        entry.dead_pages,
        ref.size,
        entry.dead_bytes,
        entry.added_at,
        ref.crc64,
        ref.flags,
    )


def _entries(rows: NDArray[np.void]) -> Iterator[FileEntry]:
    for file_id, pages, dead_pages, size, dead_bytes, added_at, crc, flags in rows.tolist():
        yield FileEntry(
            ref=FileRef(file_id, size, crc, flags),
            pages=pages,
            dead_pages=dead_pages,
            dead_bytes=dead_bytes,
            added_at=added_at,
        )
