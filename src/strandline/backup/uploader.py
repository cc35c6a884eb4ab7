"""Copies bytes into a place for backups, each object once, and reads back what it wrote.

What the newest backup names and the place lists with the right size is there: whoever deletes it
meanwhile breaks the newest backup first. What lies there without a name is the rest of an attempt
that failed. It is read and used again while it is young; older rests may be about to be pruned,
and are written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from xxhash import xxh3_128

from strandline.backup.descriptor import Object
from strandline.backup.object_keys import FOLDERS
from strandline.errors import Corrupt
from strandline.platform.objectstore.protocol import CHUNK_SIZE, Info, Objects

GRACE_S = 86_400.0
"""How long an object without a name stays, at least: the longest a backup may take, twice."""

Chunks = Callable[[], Iterable[bytes]]
Tell = Callable[[int], None]
"""Called with the bytes that have been dealt with."""


class Copier:
    """Copies for one backup. Owned by one thread."""

    def __init__(
        self, objects: Objects, known: Mapping[str, Object], *, now_us: int, tell: Tell
    ) -> None:
        self.copied_bytes = 0
        self._objects = objects
        self._known = known
        self._tell = tell
        self._there: dict[str, Info] = {}
        for folder in FOLDERS:
            self._there.update((info.key, info) for info in objects.list(folder))
        self._young_us = now_us - round(GRACE_S / 2 * 1e6)

    def find(self, key: str) -> Object | None:
        """The object of this name when the newest backup has it."""
        known, there = self._known.get(key), self._there.get(key)
        if known is None or there is None or there.size != known.size:
            return None
        self._tell(known.size)
        return known

    def copy(self, key: str, content: str, size: int, chunks: Chunks) -> Object:
        """The object of this name with these bytes, verified in its place."""
        known = self.find(key)
        if known is not None and known.content == content:
            return known
        made = Object(key, size, content)
        if not self._is_rest(made):
            self._objects.put_stream(key, chunks())
            self.copied_bytes += size
            self._read_back(made)
        self._tell(size)
        return made

    def _is_rest(self, wanted: Object) -> bool:
        there = self._there.get(wanted.key)
        if there is None or there.size != wanted.size or there.modified_us < self._young_us:
            return False
        return digest(fetch(self._objects, wanted)) == wanted.content

    def _read_back(self, made: Object) -> None:
        """The place has the bytes that were written. Only a second bad answer is believed."""
        for _ in range(2):
            if digest(fetch(self._objects, made)) == made.content:
                return
        self._objects.delete([made.key])
        raise Corrupt(
            "an object reads back as other bytes than were written: try again",
            path=f"{self._objects.name}/{made.key}",
        )


def fetch(objects: Objects, wanted: Object) -> Iterator[bytes]:
    """The bytes of an object, a chunk at a time, unverified; short when the object is."""
    return ranges(objects, wanted.key, wanted.size)


def ranges(objects: Objects, key: str, size: int) -> Iterator[bytes]:
    for start in range(0, size, CHUNK_SIZE):
        yield objects.get_range(key, start, min(CHUNK_SIZE, size - start))


def digest(chunks: Iterable[bytes]) -> str:
    """xxh3-128 of all bytes, in hex."""
    hasher = xxh3_128()
    for chunk in chunks:
        hasher.update(chunk)
    return hasher.hexdigest()
