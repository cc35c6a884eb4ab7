"""Retries requests to an object store: the only place where they are repeated.

A request is repeated only after ``ObjectStoreUnreachable``, a limited number of times, with pauses
that double and are lengthened at random. Every request may be repeated, because objects never
change: reads and deletes have the same result, a ``put`` stores the same bytes, a ``create``
recognises its own object (``protocol.py``). A listing continues after the last key that it
returned. A stream of chunks cannot be read twice: the store below repeats its parts, and other
failures are raised.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from strandline.config.settings import ObjectSettings
from strandline.errors import ObjectStoreUnreachable
from strandline.platform.disk import Buffer, ReadFile
from strandline.platform.objectstore.protocol import Created, ObjectInfo, Objects
from strandline.platform.objectstore.retry_policy import Attempts, PauseAfter
from strandline.platform.remote_wait import remote_wait

Result = TypeVar("Result")
DELAY_S_MAX = 10.0


class RetryingObjects:
    """An object store whose requests are repeated without a response. Safe from many threads."""

    def __init__(self, objects: Objects, settings: ObjectSettings) -> None:
        self.name = objects.name
        self._objects = objects
        self._settings = settings

    def create(self, key: str, data: Buffer, writer: str | None = None) -> Created:
        return self._retried(lambda: self._objects.create(key, data, writer))

    def put(self, key: str, data: Buffer) -> int:
        return self._retried(lambda: self._objects.put(key, data))

    def put_file(self, key: str, file: ReadFile) -> int:
        return self._retried(lambda: self._objects.put_file(key, file))

    def put_stream(self, key: str, chunks: Iterable[Buffer]) -> int:
        with remote_wait():
            return self._objects.put_stream(key, chunks)

    def get(self, key: str) -> bytes:
        return self._retried(lambda: self._objects.get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._retried(lambda: self._objects.get_range(key, start, length))

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return self._retried(lambda: self._objects.get_ranges(key, ranges))

    def head(self, key: str) -> ObjectInfo:
        return self._retried(lambda: self._objects.head(key))

    def delete(self, keys: Iterable[str]) -> None:
        listed = tuple(keys)  # an iterator could not be repeated
        self._retried(lambda: self._objects.delete(listed))

    def close(self) -> None:
        self._objects.close()

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[ObjectInfo]:
        after = start_after
        listing = self._objects.list(prefix, after)
        while True:
            try:
                with remote_wait():
                    info = next(listing, None)
            except ObjectStoreUnreachable:
                info, listing = self._retried(partial(_resume, self._objects, prefix, after))
            if info is None:
                return
            after = info.key
            yield info

    def _retried(self, request: Callable[[], Result]) -> Result:
        settings = self._settings
        attempts = Attempts(
            _retry_limit(settings), first_s=settings.delay_s_first, longest_s=DELAY_S_MAX
        )
        for attempt in attempts:
            with attempt, remote_wait():
                return request()
        raise AssertionError("the last attempt returns or raises")


def _retry_limit(settings: ObjectSettings) -> PauseAfter:
    """Retry after ``ObjectStoreUnreachable``, up to the number of attempts and the time in the
    settings.
    """
    tries, began_s = 0, time.monotonic()

    def pause_after(error: Exception) -> bool:
        nonlocal tries
        tries += 1
        is_late = time.monotonic() - began_s >= settings.retry_s_max
        return (
            isinstance(error, ObjectStoreUnreachable)
            and tries < settings.attempts_max
            and not is_late
        )

    return pause_after


def _resume(
    objects: Objects, prefix: str, after: str | None
) -> tuple[ObjectInfo | None, Iterator[ObjectInfo]]:
    listing = objects.list(prefix, after)
    return next(listing, None), listing
