"""The lake of one store, as the rest of the store uses it: files read by zones, through a cache.

Records are asked for by seq; the answer is the zone that holds it, verified. One zone costs one
ranged read (two for the first of a file: its index), and while a reader goes forward the next zone
is fetched and decoded on a thread of the lake's own. Nothing here is called by an append, and
nothing here holds a lock while it waits for the object store.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import Future

from strandline.config.settings import LakeSettings
from strandline.errors import Closed, Corrupt, Invalid, NotFound
from strandline.lake import object_keys
from strandline.lake.cold_index import Cold, ColdFile
from strandline.lake.files.file_reader import LakeFileReader
from strandline.lake.files.zone import Zone
from strandline.lake.lake_identity import IdentityCheck
from strandline.lake.manifest.file_entry import LakeFile
from strandline.platform.objectstore.protocol import Objects
from strandline.platform.remote_wait import remote_wait
from strandline.platform.thread_pool import ThreadPool

_FILES_MAX = 256  # indexes of files in memory; each is tens of kilobytes

_Place = tuple[int, int, int]
"""Topic id, content of the file, number of the zone."""


class Lake:
    """Cold records of a store. Safe from many threads."""

    def __init__(self, objects: Objects, settings: LakeSettings) -> None:
        self.objects = objects
        self.settings = settings
        self.identity = IdentityCheck(objects)
        self.fetches = 0
        self.stand_ins: dict[str, str] = {}
        """Local files that failed a reader, whom the lake's copy was given, and how they failed."""
        self._files: OrderedDict[tuple[int, int], LakeFileReader] = OrderedDict()
        self._zones: OrderedDict[_Place, Zone] = OrderedDict()
        self._coming: dict[_Place, Future[Zone]] = {}
        self._size = 0
        self._closed = False
        self._lock = threading.Lock()
        self._threads = ThreadPool(settings.read_threads, "strandline-lake")

    def zone(self, topic_id: int, cold: Cold, seq: int) -> Zone:
        """The zone that answers for a seq; LookupError when no file does."""
        place = cold.find(seq)
        if place < 0:
            raise LookupError(seq)
        file = self._file(topic_id, cold, place)
        number = file.zone_at(seq)
        came_from = self._is_next(topic_id, cold, place, number)
        found = self._zone(topic_id, file, cold.contents[place], number)
        if came_from:
            self._fetch_ahead(topic_id, cold, place, number)
        return found

    def zone_again(self, topic_id: int, cold: Cold, place: int, seq: int) -> Zone:
        """The zone of a file that answers for a seq, past the cache of zones."""
        file = self._file(topic_id, cold, place)
        return file.zone(file.zone_at(seq))

    def zones(self, topic_id: int, cold: Cold, place: int) -> Iterator[Zone]:
        """All zones of a file, past the cache."""
        file = self._file(topic_id, cold, place)
        for number in range(len(file.zones)):
            yield file.zone(number)

    def zones_of(self, topic_id: int, listed: LakeFile) -> Iterator[Zone]:
        """The same for a file that a manifest lists."""
        file = self.open_file(topic_id, listed)
        for number in range(len(file.zones)):
            yield file.zone(number)

    def path_of(self, topic_id: int, name: str) -> str:
        """How messages name a file."""
        return f"{self.objects.name}/{object_keys.data_key(topic_id, name)}"

    def newest(self, topic_id: int, cold: Cold, seq: int) -> tuple[int, int]:
        """Last seq and newest ts of the zone that answers for a seq, from the file's index."""
        place = cold.find(seq)
        file = self._file(topic_id, cold, place)
        info = file.zones[file.zone_at(seq)]
        return info.last_seq, info.ts_max

    def close(self) -> None:
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.objects.close()

    def _file(self, topic_id: int, cold: Cold, place: int) -> LakeFileReader:
        if self._closed:
            raise Closed("the store is closed: open it again")
        key = (topic_id, cold.contents[place])
        with self._lock:
            file = self._files.get(key)
            if file is not None:
                self._files.move_to_end(key)
                return file
        file = self.open_file(topic_id, cold.file(place))
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
        place = (topic_id, content, number)
        with self._lock:
            found = self._zones.get(place)
            if found is not None:
                self._zones.move_to_end(place)
                return found
            coming = self._coming.pop(place, None)
        # One that has not begun yet is quicker done here.
        if coming is None or coming.cancel():
            found = file.zone(number)
        else:
            with remote_wait():
                found = coming.result()
        self._keep(place, found)
        return found

    def _keep(self, place: _Place, found: Zone) -> None:
        with self._lock:
            old = self._zones.pop(place, None)
            self._size += found.size - (old.size if old is not None else 0)
            self._zones[place] = found
            while self._size > self.settings.cache_bytes and len(self._zones) > 1:
                self._size -= self._zones.popitem(last=False)[1].size

    def _is_next(self, topic_id: int, cold: Cold, place: int, number: int) -> bool:
        """Whether somebody has just read the zone before this one."""
        if number:
            before = (topic_id, cold.contents[place], number - 1)
        elif place:
            file = self._files.get((topic_id, cold.contents[place - 1]))
            if file is None:
                return False
            before = (topic_id, cold.contents[place - 1], len(file.zones) - 1)
        else:
            return True
        return before in self._zones

    def _fetch_ahead(self, topic_id: int, cold: Cold, place: int, number: int) -> None:
        """Begin with the next zones; of the next file only its first: its index is not here yet."""
        file = self._file(topic_id, cold, place)
        for following in range(number + 1, number + 1 + self.settings.read_threads):
            if following < len(file.zones):
                self._begin(file, (topic_id, cold.contents[place], following))
            elif following == len(file.zones) and place + 1 < len(cold):
                other = self._file(topic_id, cold, place + 1)
                self._begin(other, (topic_id, cold.contents[place + 1], 0))

    def _begin(self, file: LakeFileReader, place: _Place) -> None:
        with self._lock:
            if place in self._zones or place in self._coming or self._closed:
                return
            if len(self._coming) > self.settings.read_threads * 2:
                self._coming.pop(next(iter(self._coming))).cancel()
            coming = self._threads.try_submit(file.zone, place[2])
            if coming is not None:  # without a thread, the reader fetches it when it is needed
                self._coming[place] = coming
