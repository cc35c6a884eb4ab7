"""Readers of payloads, by the version number that is stored with a payload.

versions = PayloadVersions()
versions.register(1, json.loads)
versions.deserialize(point.version, point.payload)
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from strandline.errors import Conflict, Invalid
from strandline.views.series.meta import VERSION_MAX

Reader = Callable[[bytes], Any]


class PayloadVersions:
    """Readers of payloads by version. Safe to call from many threads."""

    def __init__(self) -> None:
        self._readers: dict[int, Reader] = {}
        self._register_lock = threading.Lock()

    def register(self, version: int, reader: Reader) -> None:
        """Register the reader of a version. It cannot be replaced."""
        check_version(version)
        with self._register_lock:
            if self._readers.setdefault(version, reader) is not reader:
                raise Conflict(f"payload version {version} has another reader: use a new number")

    def can_deserialize(self, version: int) -> bool:
        """Whether there is a reader for this version."""
        return version in self._readers

    def deserialize(self, version: int, payload: bytes) -> Any:
        """The payload as its reader returns it."""
        reader = self._readers.get(version)
        if reader is None:
            raise Invalid(f"payload version {version} has no reader: register one")
        return reader(payload)


def check_version(version: int) -> None:
    """Raise Invalid unless this is a version number."""
    if type(version) is not int or not 0 <= version <= VERSION_MAX:
        raise Invalid(f"version {version!r} is not an integer from 0 to {VERSION_MAX}")
