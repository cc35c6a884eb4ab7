"""Compaction: rewrites files with few live pages. Chooses the files, and moves their pages.

A file is a candidate when its live bytes are less than a share of a full file. Candidates are
collected until they would fill a new file; a rest that fills none is rewritten only when it has
many files, or at least half the bytes of a full one.

Bundles that no snapshot covers yet are not rewritten: their objects are needed for their
checkpoints. A file without live pages is not read at all.

A file that this checkpoint is the first to list has dead pages when they were written again after
its upload: for a map that is larger than its memory and its spill, nearly all of them. It is
rewritten when less than ``NEW_SHARE`` of it is live, so that no checkpoint stores more than one and
a half times its live bytes. No version needs the old file, and it is deleted at once.

Pages are copied only when the whole file is the one that the checkpoint lists (CRC-64) and each
page passes its own checksum. A damaged file stays unchanged: nothing is lost by not rewriting it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import numpy as np

from strandline.errors import Corrupt, Invalid
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir import object_keys
from strandline.reservoir.cache.cache import FileCache
from strandline.reservoir.data_files import data_file_codec
from strandline.reservoir.data_files.data_file_table import FileEntry, FileRef
from strandline.reservoir.data_files.page_compression import pack, unpack
from strandline.reservoir.pool import ReservoirPool
from strandline.reservoir.request_metering import CountedObjects

NEW_SHARE = 2 / 3
"""A file that no checkpoint lists yet is rewritten when a smaller share of it is live."""

LEFT_OVER_MAX = 5
"""More candidates than this are rewritten even if they do not fill a file."""


def is_movable(entry: FileEntry, version: int, snapshot_version: int) -> bool:
    """Whether the checkpoint of this version can drop a file."""
    file_id = entry.ref.file_id
    if entry.added_at >= version:
        return False
    return (
        not object_keys.is_bundle(file_id) or object_keys.bundle_version(file_id) < snapshot_version
    )


def superseded(entries: Iterable[FileEntry], version: int) -> list[FileEntry]:
    """The files to rewrite among those that the checkpoint of this version is the first to list."""
    return [
        entry
        for entry in entries
        if entry.added_at >= version
        and not entry.is_dead
        and entry.live_bytes < NEW_SHARE * entry.ref.size
    ]


def choose_files(
    entries: Iterable[FileEntry], *, file_bytes: int, share: float, waiting_bytes: int
) -> list[FileEntry]:
    """The files to rewrite among those that can be dropped and have live pages."""
    chosen: list[FileEntry] = []
    candidates: list[FileEntry] = []
    total = waiting_bytes
    for entry in entries:
        if entry.live_bytes >= share * file_bytes:
            continue
        candidates.append(entry)
        total += entry.live_bytes
        if total >= file_bytes:
            chosen += candidates
            candidates, total = [], 0
    is_half_full = total >= file_bytes / 2 and (not chosen or len(candidates) > 1)
    if len(candidates) > LEFT_OVER_MAX or (candidates and is_half_full):
        chosen += candidates
    return chosen


def fetch(objects: Objects, cache: FileCache | None, ref: FileRef) -> bytes:
    """A whole file: from an intact copy in the cache, which is not filled by this call; from a
    local folder without a counted request, as pages are read."""
    if cache is None and isinstance(objects, CountedObjects) and objects.real_folder is not None:
        with contextlib.suppress(OSError):
            data = _read(f"{objects.real_folder}/{object_keys.file_key(ref.file_id)}", ref.size)
            if data_file_codec.crc64(data) == ref.crc64:
                return data
    local = None if cache is None else cache.peek(ref.file_id)
    if cache is not None and local is not None:
        with contextlib.suppress(OSError):  # a bad block: the object store has the file too
            data = local.pread(ref.size, 0)
            if data_file_codec.crc64(data) == ref.crc64:
                return data
        cache.evict(ref.file_id, local)
    key = object_keys.file_key(ref.file_id)
    try:
        data = objects.get_range(key, 0, ref.size)
        # A bit may flip in transit: only the second bad response counts as damage.
        return (
            data
            if data_file_codec.crc64(data) == ref.crc64
            else objects.get_range(key, 0, ref.size)
        )
    except Invalid as error:
        raise Corrupt(
            f"a data file is truncated ({error})", path=f"{objects.name}/{key}"
        ) from error


def _read(path: str, size: int) -> bytes:
    file = OsDisk().open_read(path)
    try:
        return file.pread(size, 0)
    finally:
        file.close()


def move_pages(pool: ReservoirPool, ref: FileRef, data: bytes) -> None:
    """Commit the live pages of a file again, so that a new file holds them. Raises ``Corrupt``."""
    label = object_keys.file_key(ref.file_id)
    identity = pool.state.reservoir_id
    data_file_codec.check_file(
        data, label, reservoir_id=identity, file_id=ref.file_id, crc=ref.crc64
    )
    _, ids, offsets = data_file_codec.decode_index(data, label)
    with pool.lock:
        rows = pool.state.pages.find_many(ids)
    is_live = (rows["file_id"] == ref.file_id) & (rows["offset"] == offsets[:-1])
    moved: dict[int, bytes] = {}
    for at in np.flatnonzero(is_live).tolist():
        page_id = int(ids[at])
        if pool.is_waiting(page_id):
            continue  # a newer version of the page waits for its upload
        stored = data[offsets[at] : offsets[at + 1]]
        if data_file_codec.page_checksum(stored, page_id, ref.file_id) != rows[at]["checksum"]:
            raise Corrupt(f"page {page_id} fails its checksum", path=label, offset=int(offsets[at]))
        if ref.flags & data_file_codec.FLAG_ZSTD != pool.flags:
            stored = pack(unpack(stored, ref.flags, page_id), pool.flags)
        moved[page_id] = stored
    pool.add(moved)
