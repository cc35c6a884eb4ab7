"""Uploads the objects of a backup, each once, and reads back what it wrote.

An object that the newest backup names and the listing shows with the right size is not uploaded: a
program that deletes it meanwhile damages the newest backup first. An object that no backup names is
left over from a failed attempt. It is read and used again while it is young; older ones may be
pruned at any time, and are written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from xxhash import xxh3_128

from strandline.backup.descriptor import BackupObject
from strandline.backup.object_keys import FOLDERS
from strandline.errors import Corrupt
from strandline.platform.objectstore.protocol import CHUNK_SIZE, ObjectInfo, Objects

GRACE_S = 86_400.0
"""Minimum age of a deleted object that no backup names: twice the longest time of a backup."""

Chunks = Callable[[], Iterable[bytes]]
_Report = Callable[[int], None]
"""Called with the number of bytes processed since the last call."""


class BackupUploader:
    """Uploads objects of one backup. Owned by one thread."""

    def __init__(
        self, objects: Objects, known: Mapping[str, BackupObject], *, now_us: int, tell: _Report
    ) -> None:
        self.copied_bytes = 0
        self._objects = objects
        self._known = known
        self._report = tell
        self._listed: dict[str, ObjectInfo] = {}
        for folder in FOLDERS:
            self._listed.update((info.key, info) for info in objects.list(folder))
        self._oldest_usable_us = now_us - round(GRACE_S / 2 * 1e6)

    def find(self, key: str) -> BackupObject | None:
        """The object with this key if the newest backup has it."""
        known, info = self._known.get(key), self._listed.get(key)
        if known is None or info is None or info.size != known.size:
            return None
        self._report(known.size)
        return known

    def copy(self, key: str, content: str, size: int, chunks: Chunks) -> BackupObject:
        """Upload an object unless it exists; return it, verified."""
        known = self.find(key)
        if known is not None and known.content == content:
            return known
        target = BackupObject(key, size, content)
        if not self._is_leftover(target):
            self._objects.put_stream(key, chunks())
            self.copied_bytes += size
            self._read_back(target)
        self._report(size)
        return target

    def _is_leftover(self, target: BackupObject) -> bool:
        """Whether a failed attempt has uploaded this object, recently and completely."""
        info = self._listed.get(target.key)
        if info is None or info.size != target.size or info.modified_us < self._oldest_usable_us:
            return False
        return digest(fetch(self._objects, target)) == target.content

    def _read_back(self, target: BackupObject) -> None:
        """Check the stored bytes. Only the second bad response counts as damage."""
        for _ in range(2):
            if digest(fetch(self._objects, target)) == target.content:
                return
        self._objects.delete([target.key])
        raise Corrupt(
            "an object reads back as other bytes than were written: try again",
            path=f"{self._objects.name}/{target.key}",
        )


def fetch(objects: Objects, target: BackupObject) -> Iterator[bytes]:
    """The bytes of an object in chunks, unverified; too few when the object is too short."""
    return ranges(objects, target.key, target.size)


def ranges(objects: Objects, key: str, size: int) -> Iterator[bytes]:
    for start in range(0, size, CHUNK_SIZE):
        yield objects.get_range(key, start, min(CHUNK_SIZE, size - start))


def digest(chunks: Iterable[bytes]) -> str:
    """xxh3-128 of all bytes, in hex."""
    hasher = xxh3_128()
    for chunk in chunks:
        hasher.update(chunk)
    return hasher.hexdigest()
