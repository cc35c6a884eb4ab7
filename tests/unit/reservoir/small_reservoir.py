"""A reservoir of small files in a simulated world, and a store that answers when it is told to."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from strandline.config.settings import ReservoirSettings
from strandline.reservoir import object_keys
from strandline.reservoir.reservoir import Reservoir
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects

FILE_BYTES = 1000
DEADLINE_S = 30.0
FULL = b"f" * FILE_BYTES
"""A page that fills a file by itself."""


class World:
    """An object store that outlives the reservoirs that are opened on it."""

    def __init__(self, **settings: object) -> None:
        self.objects = SimObjects()
        self.disk = SimDisk()
        self.clock = SimClock()
        self.settings: dict[str, object] = {"file_bytes": FILE_BYTES, **settings}

    def open(
        self, *, at: int | None = None, readonly: bool = False, **changed: object
    ) -> Reservoir:
        """As the next process does, with settings of its own."""
        return Reservoir(
            self.objects,
            settings=ReservoirSettings(**{**self.settings, **changed}),
            at=at,
            readonly=readonly,
            disk=self.disk,
            clock=self.clock,
        )

    def data_keys(self) -> set[str]:
        return {key for key in self.objects.snapshot() if key.startswith(object_keys.DATA)}

    def versions(self) -> list[int]:
        """Checkpoints that are there."""
        return [
            found
            for key in sorted(self.objects.snapshot())
            if (found := object_keys.version_of(key))
        ]


def commit(reservoir: Reservoir, pages: Mapping[int, bytes | None]) -> None:
    """Write and delete (None) in a session of its own."""
    with reservoir.session() as session:
        for page_id, data in pages.items():
            if data is None:
                session.delete(page_id)
            else:
                session.write(page_id, data)
        session.commit()


def pages_of(reservoir: Reservoir, ids: range = range(1, 50)) -> dict[int, bytes]:
    """The committed pages among these."""
    found = ((page_id, reservoir.read(page_id)) for page_id in ids)
    return {page_id: data for page_id, data in found if data is not None}


class Gate:
    """Holds some requests of an object store until it is opened."""

    def __init__(self, operation: str, key_contains: str = "") -> None:
        self._operation = operation
        self._contains = key_contains
        self._open = threading.Event()
        self.arrived = threading.Semaphore(0)
        self.count = 0

    def __call__(self, operation: str, key: str) -> None:
        if operation == self._operation and self._contains in key:
            self.count += 1
            self.arrived.release()
            assert self._open.wait(DEADLINE_S)

    def wait_arrived(self, count: int = 1) -> None:
        """Until so many more requests stand before the gate."""
        for _ in range(count):
            assert self.arrived.acquire(timeout=DEADLINE_S)

    def open(self) -> None:
        self._open.set()


@contextmanager
def gated(objects: SimObjects, operation: str, key_contains: str = "") -> Iterator[Gate]:
    """A gate before the store, open at the end whatever happens."""
    gate = Gate(operation, key_contains)
    objects.on_call = gate
    try:
        yield gate
    finally:
        gate.open()
        objects.on_call = None
