"""Counts the requests to an object store as they are billed.

    puts      a create or a put; of a stream, and of a put above ``CHUNK_SIZE``, each part, the
              request that begins it and the one that ends it
    gets      a get, a head, each range; near ranges share one, as in ``platform/objectstore/``
    lists     a page of up to 1000 names, at least one
    deletes   up to 1000 names
    bytes     of objects, into the store and out of it; not those of requests themselves

A request counts when it begins, whatever its result; those of a stream when it has ended, and bytes
when they have arrived. Retries inside the object store client are not counted. A local folder is
counted like a remote store, but pages and files to merge that are read directly from it are not
requests: the figures are those of the same work in a bucket, except for reading pages and for
merging files of an earlier opening.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from strandline.platform.disk import Buffer, ReadFile
from strandline.platform.objectstore.cloud import COALESCE_GAP, DELETE_BATCH_SIZE, LIST_PAGE_SIZE
from strandline.platform.objectstore.protocol import CHUNK_SIZE, Created, ObjectInfo, Objects

MILLION = 1_000_000
GB = 1_000_000_000


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices of requests, in any currency, for an estimate: a bill depends on regions, storage
    classes, free allowances and retries, and charges for space as well.

    The defaults are about the list prices in dollars of S3's standard class in its cheapest
    regions, used from within the region.
    """

    puts: float = 5.00
    """Price of a million puts."""
    gets: float = 0.40
    """Price of a million gets."""
    lists: float = 5.00
    """Price of a million pages of listings."""
    deletes: float = 0.0
    """Price of a million deletes."""
    gb_in: float = 0.0
    """Price of a GB (10^9 bytes) into the store."""
    gb_out: float = 0.0
    """Price of a GB out of it. To the internet it is about 0.09."""


LIST_PRICES = Prices()


class Requests(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of requests to an object store, and of bytes."""

    puts: int = 0
    gets: int = 0
    lists: int = 0
    deletes: int = 0
    bytes_in: int = 0
    """Into the store."""
    bytes_out: int = 0
    """Out of the store."""

    @property
    def total(self) -> int:
        """Requests of every kind."""
        return self.puts + self.gets + self.lists + self.deletes

    def __sub__(self, before: Requests) -> Requests:
        """The requests since then."""
        return Requests(
            puts=self.puts - before.puts,
            gets=self.gets - before.gets,
            lists=self.lists - before.lists,
            deletes=self.deletes - before.deletes,
            bytes_in=self.bytes_in - before.bytes_in,
            bytes_out=self.bytes_out - before.bytes_out,
        )

    def cost(self, prices: Prices = LIST_PRICES) -> float:
        """The approximate cost, in the currency of the prices."""
        requests = (
            self.puts * prices.puts
            + self.gets * prices.gets
            + self.lists * prices.lists
            + self.deletes * prices.deletes
        )
        moved = self.bytes_in * prices.gb_in + self.bytes_out * prices.gb_out
        return requests / MILLION + moved / GB


class CountedObjects:
    """An object store that counts its requests. Safe from many threads."""

    def __init__(self, objects: Objects) -> None:
        self.name = objects.name
        self._objects = objects
        self._lock = threading.Lock()
        self._puts = self._gets = self._lists = self._deletes = 0
        self._bytes_in = self._bytes_out = 0

    @property
    def real_folder(self) -> str | None:
        """The path of a local folder with the files, None for another object store."""
        folder: str | None = getattr(self._objects, "real_folder", None)
        return folder

    def requests(self) -> Requests:
        """All requests up to now."""
        with self._lock:
            return Requests(
                puts=self._puts,
                gets=self._gets,
                lists=self._lists,
                deletes=self._deletes,
                bytes_in=self._bytes_in,
                bytes_out=self._bytes_out,
            )

    def create(self, key: str, data: Buffer, writer: str | None = None) -> Created:
        self._count(puts=1)
        created = self._objects.create(key, data, writer)
        if created.recognised:  # a head and a get compared it with the own bytes
            self._count(gets=2, bytes_out=len(data))
        else:
            self._count(bytes_in=len(data))
        return created

    def put(self, key: str, data: Buffer) -> int:
        self._count(puts=1 if len(data) <= CHUNK_SIZE else _parts(len(data)))
        size = self._objects.put(key, data)
        self._count(bytes_in=size)
        return size

    def put_file(self, key: str, file: ReadFile) -> int:
        return self._count_stream(self._objects.put_file(key, file))

    def put_stream(self, key: str, chunks: Iterable[Buffer]) -> int:
        return self._count_stream(self._objects.put_stream(key, chunks))

    def get(self, key: str) -> bytes:
        self._count(gets=1)
        data = self._objects.get(key)
        self._count(bytes_out=len(data))
        return data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self._count(gets=1)
        data = self._objects.get_range(key, start, length)
        self._count(bytes_out=len(data))
        return data

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        gets, moved = _requests_of(ranges)
        self._count(gets=gets)
        found = self._objects.get_ranges(key, ranges)
        self._count(bytes_out=moved)
        return found

    def head(self, key: str) -> ObjectInfo:
        self._count(gets=1)
        return self._objects.head(key)

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[ObjectInfo]:
        return self._listing(self._objects.list(prefix, start_after))

    def delete(self, keys: Iterable[str]) -> None:
        names = tuple(keys)
        self._count(deletes=-(-len(names) // DELETE_BATCH_SIZE))
        self._objects.delete(names)

    def close(self) -> None:
        self._objects.close()

    def _listing(self, listing: Iterator[ObjectInfo]) -> Iterator[ObjectInfo]:
        self._count(lists=1)
        for number, info in enumerate(listing):
            if number and number % LIST_PAGE_SIZE == 0:
                self._count(lists=1)
            yield info

    def _count_stream(self, size: int) -> int:
        """Count a stream, whose size is known at its end."""
        self._count(puts=_parts(size), bytes_in=size)
        return size

    def _count(
        self,
        *,
        puts: int = 0,
        gets: int = 0,
        lists: int = 0,
        deletes: int = 0,
        bytes_in: int = 0,
        bytes_out: int = 0,
    ) -> None:
        with self._lock:
            self._puts += puts
            self._gets += gets
            self._lists += lists
            self._deletes += deletes
            self._bytes_in += bytes_in
            self._bytes_out += bytes_out


def _parts(size: int) -> int:
    """The number of requests that store so many bytes in parts."""
    return 2 + max(1, -(-size // CHUNK_SIZE))


def _requests_of(ranges: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The number of requests that fetch these ranges, and of the bytes."""
    gets = moved = end = 0
    for start, length in sorted(each for each in ranges if each[1]):
        if gets and start - end <= COALESCE_GAP:
            moved += max(0, start + length - end)
            end = max(end, start + length)
        else:
            gets, moved, end = gets + 1, moved + length, start + length
    return max(1, gets), moved
