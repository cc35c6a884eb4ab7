"""Session: one thread's reads and writes of pages, its own changes over the committed pages.

- ``write`` and ``delete`` are visible to this session at once, to all others after ``commit``, and
  durable when ``Reservoir.checkpoint`` has returned. The last change of a page wins.
- A page with uncommitted changes belongs to one session: a ``write`` of another is a ``Conflict``.
- Full files are uploaded while the session continues to write. ``rollback``, or closing the session
  without a commit, makes them garbage.
- ``commit`` waits for a running checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from strandline.errors import Closed, Invalid
from strandline.platform.disk import Buffer
from strandline.reservoir.data_files.data_file_builder import DataFile
from strandline.reservoir.data_files.data_file_codec import PAGE_ID_MAX
from strandline.reservoir.data_files.page_compression import PAGE_BYTES_MAX, pack, too_large, unpack
from strandline.reservoir.pool import ReservoirPool

_PUT_PAGES = 1024


class Session:
    """Reads and writes pages. Owned by one thread."""

    def __init__(self, pool: ReservoirPool, number: int) -> None:
        self.number = number
        self._pool: ReservoirPool | None = pool
        self._flags = pool.flags
        self._pages: dict[int, bytes] = {}
        self._bytes = 0
        self._sent: list[DataFile] = []
        self._deleted: set[int] = set()
        self._claimed: list[Sequence[int]] = []
        """Pages that are reserved and perhaps not written, after a failed ``write_many``."""

    def write(self, page_id: int, data: Buffer) -> None:
        """Write the bytes of a page."""
        if type(page_id) is not int or not 0 < page_id <= PAGE_ID_MAX:
            raise _not_a_page_id(page_id)
        stored = data if type(data) is bytes and not self._flags else pack(data, self._flags)
        if len(stored) > PAGE_BYTES_MAX:
            raise too_large(page_id)
        pool = self._open()
        pool.reserve_page(page_id, self.number)
        old = self._pages.get(page_id)  # from here on as in _put_one, without the call
        self._bytes += len(stored) if old is None else len(stored) - len(old)
        self._pages[page_id] = stored
        if self._deleted:
            self._deleted.discard(page_id)
        if self._bytes >= pool.file_bytes:
            self._send()

    def write_many(self, page_ids: Sequence[int], pages: Sequence[Buffer]) -> None:
        """Write many pages; the last bytes of a repeated page count."""
        if len(page_ids) != len(pages):
            raise Invalid(f"{len(page_ids)} page ids and {len(pages)} pages: give one for each")
        stored = _pack_all(pages, self._flags)
        if max(map(len, stored), default=0) > PAGE_BYTES_MAX:
            raise too_large(page_ids[[len(data) > PAGE_BYTES_MAX for data in stored].index(True)])
        self._open().reserve_pages(_check_page_ids(page_ids), self.number, self._has_changed)
        for first in range(0, len(stored), _PUT_PAGES):
            try:
                self._put(page_ids[first : first + _PUT_PAGES], stored[first : first + _PUT_PAGES])
            except BaseException:
                self._claimed.append(tuple(page_ids[first:]))
                raise

    def read(self, page_id: int) -> bytes | None:
        """The bytes of a page, None when it does not exist."""
        stored = self._pages.get(page_id)
        if stored is not None:
            return unpack(stored, self._flags, page_id)
        if page_id in self._deleted:
            return None
        pool = self._open()
        for blob in reversed(self._sent):
            at = blob.find(page_id)
            if at is not None:
                return pool.read_sent(page_id, blob, at)
        return pool.read(page_id)

    def delete(self, page_id: int) -> None:
        """Delete a page; a no-op if it does not exist."""
        _check_page_ids((page_id,))
        self._open().reserve_page(page_id, self.number)
        stored = self._pages.pop(page_id, None)
        if stored is not None:
            self._bytes -= len(stored)
        self._deleted.add(page_id)

    def commit(self) -> None:
        """Make all changes visible to every session."""
        pool = self._open()
        pool.commit(self._sent, self._pages, self._deleted)
        self._reset(pool)

    def rollback(self) -> None:
        """Discard all changes since the last commit."""
        pool = self._open()
        pool.abandon(self._sent)
        self._reset(pool)

    def close(self) -> None:
        """End the session; uncommitted changes are discarded."""
        if self._pool is not None:
            self.rollback()
            self._pool = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put(self, page_ids: Sequence[int], stored: Sequence[bytes]) -> None:
        """Put a few pages at once, or one by one when a file becomes full."""
        sizes = sum(map(len, stored))
        if self._bytes + sizes >= self._open().file_bytes:
            for page_id, data in zip(page_ids, stored, strict=True):
                self._put_one(page_id, data)
            return
        count = len(self._pages)
        self._pages.update(zip(page_ids, stored, strict=True))
        self._deleted.difference_update(page_ids)
        if len(self._pages) == count + len(stored):
            self._bytes += sizes
        else:  # some were replaced
            self._bytes = sum(map(len, self._pages.values()))

    def _put_one(self, page_id: int, stored: bytes) -> None:
        old = self._pages.get(page_id)
        self._bytes += len(stored) if old is None else len(stored) - len(old)
        self._pages[page_id] = stored
        if self._deleted:
            self._deleted.discard(page_id)
        if self._bytes >= self._open().file_bytes:
            self._send()

    def _has_changed(self, page_id: int) -> bool:
        changed = page_id in self._pages or page_id in self._deleted
        return changed or any(blob.find(page_id) is not None for blob in self._sent)

    def _send(self) -> None:
        blob = self._open().send(self._pages)
        self._sent.append(blob)
        self._pages, self._bytes = {}, 0

    def _reset(self, pool: ReservoirPool) -> None:
        sent = (blob.ids.tolist() for blob in self._sent)
        pool.release_pages([self._pages, self._deleted, *sent, *self._claimed])
        self._pages, self._deleted, self._claimed = {}, set(), []
        self._sent, self._bytes = [], 0

    def _open(self) -> ReservoirPool:
        if self._pool is None:
            raise Closed("this session is closed: open another")
        return self._pool


def _pack_all(pages: Sequence[Buffer], flags: int) -> Sequence[bytes]:
    if not flags and set(map(type, pages)) <= {bytes}:
        return cast("Sequence[bytes]", pages)
    return [pack(data, flags) for data in pages]


def _check_page_ids(page_ids: Sequence[int]) -> Sequence[int]:
    if set(map(type, page_ids)) - {int} or (
        page_ids and not 0 < min(page_ids) <= max(page_ids) <= PAGE_ID_MAX
    ):
        for page_id in page_ids:
            if type(page_id) is not int or not 0 < page_id <= PAGE_ID_MAX:
                raise _not_a_page_id(page_id)
    return page_ids


def _not_a_page_id(page_id: object) -> Invalid:
    return Invalid(f"{page_id!r} is not a page id: use a whole number from 1 to 2**63 - 1")
