"""State that sessions share: the tables, pages that are in no file yet, and files being uploaded.

A committed page is in one of two places, which a read checks in this order:

    waiting     committed, in no file yet: leftovers of many sessions, which share a file
    table       its file is being uploaded (``flying``, in memory) or is in the object store

Small files will soon be merged with others. Where that would cost a request for each, they stay in
memory as well: the newest, up to half of a full file.

Full files of a session are uploaded before the session commits; the commit enters their pages into
the table. Two locks: ``committing`` is held by a commit and by a whole checkpoint, so a commit is
completely in one checkpoint or in the next. ``lock`` is held briefly, inside it or alone.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from strandline.config.settings import ReservoirSettings
from strandline.errors import Closed, Conflict, Corrupt, Invalid, StrandlineError
from strandline.reservoir import object_keys
from strandline.reservoir.data_files.data_file_builder import DataFile
from strandline.reservoir.data_files.data_file_codec import FLAG_ZSTD
from strandline.reservoir.data_files.data_file_table import FileRef
from strandline.reservoir.data_files.page_compression import unpack
from strandline.reservoir.data_files.page_table import PageLocation
from strandline.reservoir.data_files.upload_queue import UploadQueue
from strandline.reservoir.page_reader import PageReader
from strandline.reservoir.reservoir_state import ReservoirState

CLOSED = "this reservoir is closed: open it again"
READ_PLACES_MAX = 65_536


class ReservoirPool:
    """Shared state of the sessions of a reservoir. Safe from many threads."""

    def __init__(
        self,
        state: ReservoirState,
        reader: PageReader,
        uploads: UploadQueue,
        settings: ReservoirSettings,
    ) -> None:
        self.state = state
        self.uploads = uploads
        self.committing = threading.RLock()
        self.file_bytes = settings.file_bytes
        self.flags = FLAG_ZSTD if settings.compression == "zstd" else 0
        self.failure: StrandlineError | None = None
        """The reason why writes fail, or None."""
        self.placed = 0
        """Data files with committed pages since the last checkpoint."""
        self.abandoned: list[int] = []
        """Uploaded files that no commit lists."""
        self.next_version = state.version + 1
        """The checkpoint that will contain the next commit."""
        self._closed = False
        self._reader = reader
        self.lock = threading.Lock()
        self._waiting: dict[int, bytes] = {}
        self._waiting_bytes = 0
        self._uploading: dict[int, DataFile] = {}
        self._stored_small: dict[int, DataFile] = {}
        self._stored_small_bytes = 0
        self._stored_small_bytes_max = settings.file_bytes // 2 if reader.is_distant else 0
        self._small_bytes = settings.compact_share * settings.file_bytes
        self._numbers = itertools.count()
        self._owners: dict[int, int] = {}
        self._read_page = reader.read
        self._read_places: dict[int, tuple[PageLocation, FileRef]] = {}
        """Places of pages that were read since the last commit: finding one is most of a read."""

    @property
    def waiting_bytes(self) -> int:
        return self._waiting_bytes

    @property
    def stored_small_bytes(self) -> int:
        """Bytes of small files in memory that the object store has as well."""
        return self._stored_small_bytes

    def __len__(self) -> int:
        """Committed pages."""
        with self.lock:
            new = sum(self.state.pages.find(page_id) is None for page_id in self._waiting)
            return len(self.state.pages) + new

    def check(self) -> None:
        """Raise if writes fail."""
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        """Make every later call raise."""
        with self.lock:
            self._closed = True
            self.failure = Closed(CLOSED)
            self._read_places.clear()

    @contextlib.contextmanager
    def all_or_nothing(self, what: str) -> Iterator[None]:
        """Steps that leave an inconsistent state when interrupted: then all later writes fail."""
        try:
            yield
        except BaseException:
            self.failure = Closed(f"{what} was interrupted: open the reservoir again")
            raise

    def read(self, page_id: int) -> bytes | None:
        """A committed page, None when there is none."""
        read_place = self._read_places.get(page_id)  # no lock: every commit clears the dict
        if read_place is not None:
            try:
                return self._read_page(page_id, *read_place)
            except Corrupt:
                pass  # it may have been moved meanwhile, and its old file deleted
        previous: PageLocation | None = None
        while True:
            with self.lock:
                if self._closed:
                    raise Closed(CLOSED)
                if type(page_id) is not int:
                    raise Invalid(f"{page_id!r} is not a page id: use a whole number")
                stored = self._waiting.get(page_id)
                if stored is not None:
                    return unpack(stored, self.flags, page_id)
                place = self.state.pages.find(page_id)
                if place is None:
                    return None
                ref = self.state.files.live[place.file_id].ref
                blob = self._uploading.get(place.file_id)
                if blob is not None:
                    stored = _in_memory(blob, page_id)
                if stored is None and not ref.flags & FLAG_ZSTD:
                    self._cache_place(page_id, place, ref)
            try:
                return self._page(page_id, place, ref, stored)
            except Corrupt:
                if place == previous:
                    raise
                previous = place

    def read_sent(self, page_id: int, blob: DataFile, at: int) -> bytes:
        """A page of a file that a session has sent and not committed."""
        with self.lock:
            stored = blob.stored(at)
        return self._page(
            page_id, PageLocation._make(blob.rows[at].tolist()), blob.entry.ref, stored
        )

    def reserve_page(self, page_id: int, session: int) -> None:
        """Reserve a page for the uncommitted changes of one session."""
        if self.failure is not None:
            raise self.failure
        owner = self._owners.setdefault(page_id, session)  # in one step, so without the lock
        if owner != session:
            raise _owned_by_other(page_id, owner)

    def reserve_pages(
        self, page_ids: Sequence[int], session: int, is_mine: Callable[[int], bool]
    ) -> None:
        """Reserve all of these pages, or only those that the session had reserved before."""
        self.check()
        owners = list(map(self._owners.setdefault, page_ids, itertools.repeat(session)))
        if owners.count(session) == len(owners):
            return
        new = [
            page_id
            for page_id, owner in zip(page_ids, owners, strict=True)
            if owner == session and not is_mine(page_id)
        ]
        self.release_pages([new])
        page_id, owner = next(
            (page_id, owner)
            for page_id, owner in zip(page_ids, owners, strict=True)
            if owner != session
        )
        raise _owned_by_other(page_id, owner)

    def release_pages(self, groups: Iterable[Iterable[int]]) -> None:
        """Release pages whose changes were committed or rolled back; duplicates are fine."""
        for page_ids in groups:
            collections.deque(map(self._owners.pop, page_ids, itertools.repeat(None)), maxlen=0)

    def send(self, pages: Mapping[int, bytes]) -> DataFile:
        """Begin the upload of a full file; its pages are not in the table yet."""
        self.check()
        self.uploads.reserve()
        try:
            with self.lock:
                number, version = next(self._numbers), self.next_version
            file_id = object_keys.data_file_id(self.state.term, number)
            blob = self._blob(pages, file_id, version)
        except BaseException:
            self.uploads.release()
            raise
        with self.lock:
            self._uploading[file_id] = blob
        self.uploads.send(blob)
        return blob

    def stored(self, file_id: int) -> None:
        """Release the memory of an uploaded file, unless it will soon be merged."""
        with self.lock:
            blob = self._uploading.pop(file_id, None)
            if blob is None:
                return
            self._stored_small[file_id] = blob
            self._stored_small_bytes += blob.entry.ref.size
            if blob.entry.ref.size >= self._small_bytes:
                self._drop_stored(file_id)
            while self._stored_small_bytes > self._stored_small_bytes_max:
                self._drop_stored(next(iter(self._stored_small)))

    def drop_stored(self, file_ids: Iterable[int]) -> None:
        """Release the memory of files that will not be merged."""
        with self.lock:
            for file_id in file_ids:
                self._drop_stored(file_id)

    def content(self, file_id: int) -> bytes | None:
        """A whole file, if it is in memory."""
        with self.lock:
            blob = self._uploading.get(file_id) or self._stored_small.get(file_id)
            pieces = None if blob is None else blob.pieces()
        return None if pieces is None else b"".join(pieces)

    def is_uploading(self, file_id: int) -> bool:
        return file_id in self._uploading

    def commit(
        self, sent: Sequence[DataFile], rest: Mapping[int, bytes], deleted: Iterable[int]
    ) -> None:
        """Make a session's changes visible to all: full files, leftovers, and deleted pages.

        Steps that can fail come first: the changes become visible all together.
        """
        with self.committing:
            self.check()
            self.send_full()
            with self.all_or_nothing("a commit"), self.lock:
                for blob in sent:
                    blob.entry.added_at = self.next_version
                    self._place(blob)
                self._remove(deleted)
                self._add_waiting(rest)

    def add(self, pages: Mapping[int, bytes]) -> None:
        """Add committed pages that move to a new file, for a compaction."""
        with self.lock:
            self._add_waiting(pages)
        self.send_full()

    def send_full(self) -> None:
        """Send waiting pages while they fill files."""
        while self._waiting_bytes >= self.file_bytes:
            chosen, size = {}, 0
            for page_id, stored in self._waiting.items():
                chosen[page_id] = stored
                size += len(stored)
                if size >= self.file_bytes:
                    break
            self._send_waiting(chosen)

    def flush(self) -> None:
        """Send all waiting pages, in a last file that may not be full."""
        self.send_full()
        if self._waiting:
            self._send_waiting(self._waiting)

    def bundle(self, version: int) -> DataFile:
        """The waiting pages as the first part of a checkpoint's object."""
        blob = self._blob(self._waiting, object_keys.bundle_id(version), version)
        with self.lock:
            self._uploading[blob.file_id] = blob
            self._place(blob)
        return blob

    def is_waiting(self, page_id: int) -> bool:
        return page_id in self._waiting

    def waiting_ids(self) -> list[int]:
        return list(self._waiting)

    def abandon(self, blobs: Iterable[DataFile]) -> None:
        """Mark the files of a session that was rolled back for deletion."""
        with self.lock:
            self.abandoned += [blob.file_id for blob in blobs]

    def _drop_stored(self, file_id: int) -> None:
        blob = self._stored_small.pop(file_id, None)
        if blob is not None:
            self._stored_small_bytes -= blob.entry.ref.size
            blob.drop()

    def _cache_place(self, page_id: int, place: PageLocation, ref: FileRef) -> None:
        if len(self._read_places) >= READ_PLACES_MAX:
            self._read_places.clear()
        self._read_places[page_id] = place, ref

    def _send_waiting(self, pages: Mapping[int, bytes]) -> None:
        blob = self.send(pages)
        with self.lock:
            self._place(blob)

    def _add_waiting(self, pages: Mapping[int, bytes]) -> None:
        self._read_places.clear()
        replaced = self._waiting.get
        self._waiting_bytes += sum(map(len, pages.values()))
        self._waiting_bytes -= sum(len(replaced(page_id, b"")) for page_id in pages)
        self._waiting.update(pages)

    def _page(self, page_id: int, place: PageLocation, ref: FileRef, stored: bytes | None) -> bytes:
        if stored is None:
            stored = self._reader.read(page_id, place, ref)
        return unpack(stored, ref.flags, page_id)

    def _blob(self, pages: Mapping[int, bytes], file_id: int, version: int) -> DataFile:
        return DataFile(
            pages,
            reservoir_id=self.state.reservoir_id,
            file_id=file_id,
            version=version,
            flags=self.flags,
        )

    def _place(self, blob: DataFile) -> None:
        """Enter the pages of a file into the table, in place of their old entries."""
        self._read_places.clear()
        old = self.state.pages.put(blob.ids, blob.rows)
        self.state.files.add(blob.entry)
        self.state.files.count_dead(old["file_id"], old["size"])
        self.placed += not object_keys.is_bundle(blob.file_id)
        if self._waiting:
            for page_id in blob.ids.tolist():
                stored = self._waiting.pop(page_id, None)
                if stored is not None:
                    self._waiting_bytes -= len(stored)

    def _remove(self, page_ids: Iterable[int]) -> None:
        self._read_places.clear()
        ids = np.unique(np.fromiter(page_ids, dtype="<i8"))
        for page_id in ids.tolist():
            stored = self._waiting.pop(page_id, None)
            if stored is not None:
                self._waiting_bytes -= len(stored)
        old = self.state.pages.remove(ids)
        self.state.files.count_dead(old["file_id"], old["size"])


def _in_memory(blob: DataFile, page_id: int) -> bytes | None:
    at = blob.find(page_id)
    assert at is not None, "the table refers to this file"
    return blob.stored(at)


def _owned_by_other(page_id: int, owner: int) -> Conflict:
    return Conflict(
        f"page {page_id} has uncommitted changes of session {owner}: a page belongs to one session "
        "at a time"
    )
