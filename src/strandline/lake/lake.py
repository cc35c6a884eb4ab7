"""The lake of one store, as the rest of the store reads it: files by zones, through a cache.

A request names a seq; the result is the zone that holds it, verified. One zone costs one ranged
read (two for the first zone of a file: its index), and while a reader moves forward the next zones
are fetched and decoded on a thread of the lake. No append calls this module, and nothing here holds
a lock while it waits for the object store.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import Future

from strandline.config.settings import LakeSettings
from strandline.errors import Closed, Corrupt, Invalid, NotFound
from strandline.lake import object_keys
from strandline.lake.cold_index import ColdFile, ColdIndex
from strandline.lake.files.file_reader import LakeFileReader
from strandline.lake.files.zone import Zone
from strandline.lake.lake_identity import IdentityCheck
from strandline.lake.manifest.file_entry import LakeFile
from strandline.platform.objectstore.protocol import Objects
from strandline.platform.remote_wait import remote_wait
from strandline.platform.thread_pool import ThreadPool

_FILES_MAX = 256  # indexes of files in memory; each is tens of kilobytes

_ZoneKey = tuple[int, int, int]
"""Topic id, content hash of the file, number of the zone."""


class Lake:
    """Cold records of a store. Safe from many threads."""

    def __init__(self, objects: Objects, settings: LakeSettings) -> None:
        self.objects = objects
        self.settings = settings
        self.identity = IdentityCheck(objects)
        self.fetches = 0
        self.replaced_files: dict[str, str] = {}
        """Damaged local files for which a reader got the lake's copy, with the reason."""
        self._files: OrderedDict[tuple[int, int], LakeFileReader] = OrderedDict()
        self._zones: OrderedDict[_ZoneKey, Zone] = OrderedDict()
        self._pending: dict[_ZoneKey, Future[Zone]] = {}
        self._size = 0
        self._closed = False
        self._lock = threading.Lock()
        self._threads = ThreadPool(settings.read_threads, "strandline-lake")

    def zone(self, topic_id: int, cold: ColdIndex, seq: int) -> Zone:
        """The zone that covers a seq; LookupError when no file does."""
        index = cold.find(seq)
        if index < 0:
            raise LookupError(seq)
        file = self._file(topic_id, cold, index)
        number = file.zone_at(seq)
        is_sequential = self._is_next(topic_id, cold, index, number)
        zone = self._zone(topic_id, file, cold.contents[index], number)
        if is_sequential:
            self._fetch_ahead(topic_id, cold, index, number)
        return zone

    def zone_uncached(self, topic_id: int, cold: ColdIndex, index: int, seq: int) -> Zone:
        """The zone of a file that covers a seq, past the cache of zones."""
        file = self._file(topic_id, cold, index)
        return file.zone(file.zone_at(seq))

    def zones(self, topic_id: int, cold: ColdIndex, index: int) -> Iterator[Zone]:
        """All zones of a file, past the cache."""
        file = self._file(topic_id, cold, index)
        for number in range(len(file.zones)):
            yield file.zone(number)

    def zones_of(self, topic_id: int, listed: LakeFile) -> Iterator[Zone]:
        """The same for a file that a manifest lists."""
        file = self.open_file(topic_id, listed)
        for number in range(len(file.zones)):
            yield file.zone(number)

    def path_of(self, topic_id: int, name: str) -> str:
        """The path of a file in messages."""
        return f"{self.objects.name}/{object_keys.data_key(topic_id, name)}"

    def newest(self, topic_id: int, cold: ColdIndex, seq: int) -> tuple[int, int]:
        """Last seq and newest ts of the zone that covers a seq, from the file's index."""
        index = cold.find(seq)
        file = self._file(topic_id, cold, index)
        info = file.zones[file.zone_at(seq)]
        return info.last_seq, info.ts_max

    def close(self) -> None:
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.objects.close()

    def _file(self, topic_id: int, cold: ColdIndex, index: int) -> LakeFileReader:
        if self._closed:
            raise Closed("the store is closed: open it again")
        key = (topic_id, cold.contents[index])
        with self._lock:
            file = self._files.get(key)
            if file is not None:
                self._files.move_to_end(key)
                return file
        file = self.open_file(topic_id, cold.file(index))
        with self._lock:
            self._files[key] = file
            while len(self._files) > _FILES_MAX:
                self._files.popitem(last=False)
        return file

    def open_file(self, topic_id: int, listed: ColdFile | LakeFile) -> LakeFileReader:
        """A reader of one file, past all caches. Nothing is fetched yet."""
        key = object_keys.data_key(topic_id, listed.name())
        path = self.path_of(topic_id, listed.name())

        def fetch(start: int, length: int) -> bytes:
            self.fetches += 1
            try:
                self.identity.confirm()
                return self.objects.get_range(key, start, length)
            except (NotFound, Invalid) as error:
                damage = Corrupt(
                    "a lake file is missing" if isinstance(error, NotFound) else str(error),
                    path=path,
                    topic_id=topic_id,
                    first_seq=listed.first_seq,
                    last_seq=listed.last_seq,
                )
                damage.add_note("is it the right lake? See lake.url, --lake-url")
                raise damage from error

        return LakeFileReader(fetch, listed, topic_id, path)

    def _zone(self, topic_id: int, file: LakeFileReader, content: int, number: int) -> Zone:
        key = (topic_id, content, number)
        with self._lock:
            zone = self._zones.get(key)
            if zone is not None:
                self._zones.move_to_end(key)
                return zone
            fetch = self._pending.pop(key, None)
        # A fetch that has not begun yet is faster here than in the queue of the pool.
        if fetch is None or fetch.cancel():
            zone = file.zone(number)
        else:
            with remote_wait():
                zone = fetch.result()
        self._cache(key, zone)
        return zone

    def _cache(self, key: _ZoneKey, zone: Zone) -> None:
        with self._lock:
            old = self._zones.pop(key, None)
            self._size += zone.size - (old.size if old is not None else 0)
            self._zones[key] = zone
            while self._size > self.settings.cache_bytes and len(self._zones) > 1:
                self._size -= self._zones.popitem(last=False)[1].size

    def _is_next(self, topic_id: int, cold: ColdIndex, index: int, number: int) -> bool:
        """Whether the zone before this one was read recently."""
        if number:
            previous = (topic_id, cold.contents[index], number - 1)
        elif index:
            file = self._files.get((topic_id, cold.contents[index - 1]))
            if file is None:
                return False
            previous = (topic_id, cold.contents[index - 1], len(file.zones) - 1)
        else:
            return True
        return previous in self._zones  # without the lock: a wrong result costs one fetch

    def _fetch_ahead(self, topic_id: int, cold: ColdIndex, index: int, number: int) -> None:
        """Begin to fetch the next zones; of the next file only the first: its index is unread."""
        file = self._file(topic_id, cold, index)
        for following in range(number + 1, number + 1 + self.settings.read_threads):
            if following < len(file.zones):
                self._begin_fetch(file, (topic_id, cold.contents[index], following))
            elif following == len(file.zones) and index + 1 < len(cold):
                other = self._file(topic_id, cold, index + 1)
                self._begin_fetch(other, (topic_id, cold.contents[index + 1], 0))

    def _begin_fetch(self, file: LakeFileReader, key: _ZoneKey) -> None:
        with self._lock:
            if key in self._zones or key in self._pending or self._closed:
                return
            if len(self._pending) > self.settings.read_threads * 2:
                self._pending.pop(next(iter(self._pending))).cancel()
            fetch = self._threads.try_submit(file.zone, key[2])
            if fetch is not None:  # without a thread, the reader fetches it when it is needed
                self._pending[key] = fetch
