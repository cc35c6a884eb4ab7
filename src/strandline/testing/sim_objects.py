"""Simulated object store: in memory, with injected failures, for tests.

    objects = SimObjects()
    objects.fail("create", nth=2, how="after")    # stored, but the response is lost
    for n in range(1, calls + 1):                 # every call of a workload, in every way
        objects = SimObjects(); objects.fail_at(n, "before")

Every request is processed as in ``fault_injection.py``: it is counted, ``on_call(operation, key)``
runs without any lock held (it may block, cut the connection or raise), then connection, credentials
and faults are checked. Operations are ``create put put_file put_stream get get_ranges head list
delete``; ``get_range`` is a ``get_ranges`` of one, a listing is a ``list`` per page. A ``create``
that finds the name taken also calls ``head`` and ``get``, like the real one.

    how          result for the caller        executed
    before       Unreachable                  no
    after        Unreachable                  yes: the response is lost
    denied       Denied                       no
    flipped      one bit is flipped           yes
    truncated    the last byte is missing     yes

``Retrying(SimObjects(), settings)`` is a store with the retries of the real one.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from strandline.errors import NotFound, ObjectStoreDenied, ObjectStoreUnreachable
from strandline.platform.clock import Clock
from strandline.platform.disk import Buffer, ReadFile
from strandline.platform.objectstore.protocol import (
    Created,
    ObjectInfo,
    check_key,
    check_own_object,
    check_prefix,
    check_ranges,
    check_writer,
    chunks_of,
    too_short,
)
from strandline.testing.crash_choices import Choices, Uniform
from strandline.testing.fault_injection import ANY, Hook

How = Literal["before", "after", "denied", "flipped", "truncated"]
CreateDefect = Literal["no", "overwrites", "races"]
READS = ("get", "get_ranges")
OPERATIONS = ("create", "put", "put_file", "put_stream", *READS, "head", "list", "delete")


class StoredObject(msgspec.Struct, frozen=True):
    """An object: its bytes, its number in the order of writes, and its time."""

    data: bytes
    number: int
    modified_us: int


Snapshot: TypeAlias = dict[str, StoredObject]


class ObjectFault:
    """One planned failure. ``fired`` counts how often it occurred."""

    def __init__(self, operation: str, nth: int, how: How, *, once: bool, contains: str) -> None:
        self.how: How = how
        self.fired = 0
        self._operation = operation
        self._nth = nth
        self._once = once
        self._contains = contains
        self._matched = 0

    def strikes(self, operation: str, key: str) -> bool:
        """Count a matching call; returns whether it fails."""
        if self._operation not in (ANY, operation) or self._contains not in key:
            return False
        self._matched += 1
        fails = self._matched == self._nth or (self._matched > self._nth and not self._once)
        self.fired += fails
        return fails


class SimObjects:
    """A simulated object store. Safe from many threads; the same calls give the same store."""

    def __init__(
        self, *, name: str = "sim://objects", clock: Clock | None = None, page_size: int = 1000
    ) -> None:
        self.name = name
        self.on_call: Hook | None = None
        """Called at every request with the operation and the key, but not inside itself."""
        self.calls: Counter[str] = Counter()
        self.bytes_in: Counter[str] = Counter()
        self.bytes_out: Counter[str] = Counter()
        self.broken_create: CreateDefect = "no"
        """``overwrites``: ignores an existing object. ``races``: checks, then stores; between the
        two it calls ``on_call("create.store", key)``."""
        self.lagging_list = 0
        """The number of newest objects that are not listed yet."""
        self.denied = False
        """Whether every call is rejected because of its credentials."""
        self._clock = clock
        self._page_size = page_size
        self._lock = threading.Lock()
        self._objects: Snapshot = {}
        self._numbers = 0
        self._faults: list[ObjectFault] = []
        self._in_flight_choices: Choices | None = None
        self._cuts = 0

    @property
    def calls_total(self) -> int:
        """The number of calls; inside ``on_call`` this call is included."""
        return self.calls.total()

    def fail(
        self,
        operation: str = ANY,
        nth: int = 1,
        *,
        how: How = "before",
        once: bool = True,
        key_contains: str = "",
    ) -> ObjectFault:
        """Make the nth matching call from now fail, once or always. ``"*"`` is any operation."""
        if operation not in (ANY, *OPERATIONS):
            raise ValueError(f"{operation!r} is not an operation that can fail")
        fault = ObjectFault(operation, nth, how, once=once, contains=key_contains)
        with self._lock:
            self._faults.append(fault)
        return fault

    def fail_at(self, n: int, how: How) -> ObjectFault:
        """Make the nth call of any operation from now fail."""
        return self.fail(ANY, n, how=how)

    def cut(self, choices: random.Random | Choices) -> None:
        """Lose the connection until ``heal``. Each call in flight may have been executed."""
        with self._lock:
            self._in_flight_choices = (
                Uniform(choices) if isinstance(choices, random.Random) else choices
            )
            self._cuts += 1

    def heal(self) -> None:
        """Restore the connection and the credentials, and remove planned faults."""
        with self._lock:
            self._in_flight_choices = None
            self._faults.clear()
            self.denied = False

    def snapshot(self) -> Snapshot:
        """The objects that are stored now."""
        with self._lock:
            return dict(self._objects)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the objects of a snapshot; counts and faults stay."""
        with self._lock:
            self._objects = dict(snapshot)

    def fork(self) -> SimObjects:
        """The same objects in a new store: no faults, no hook, no counts."""
        copy = SimObjects(name=self.name, clock=self._clock, page_size=self._page_size)
        with self._lock:
            copy._objects, copy._numbers = dict(self._objects), self._numbers
        return copy

    def create(self, key: str, data: Buffer, writer: str | None = None) -> Created:
        check_key(key)
        check_writer(key, data, writer)
        fault = self._admit("create", key)
        with self._lock:
            exists = key in self._objects and self.broken_create != "overwrites"
            if not exists and self.broken_create != "races":
                self._store(key, bytes(data), "create")
        if not exists and self.broken_create == "races":
            if self.on_call is not None:
                self.on_call("create.store", key)
            with self._lock:
                self._store(key, bytes(data), "create")
        self._finish(key, fault)
        return check_own_object(self, key, data) if exists else Created(None, recognised=False)

    def put(self, key: str, data: Buffer) -> int:
        return self._put("put", key, bytes(data))

    def put_file(self, key: str, file: ReadFile) -> int:
        return self._put("put_file", key, b"".join(chunks_of(file)))

    def put_stream(self, key: str, chunks: Iterable[Buffer]) -> int:
        return self._put("put_stream", key, b"".join(chunks))

    def get(self, key: str) -> bytes:
        fault = self._admit("get", check_key(key))
        data = self._find(key).data
        self._finish(key, fault)
        return self._received("get", data, fault)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.get_ranges(key, [(start, length)])[0]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        check_ranges(key, ranges)
        fault = self._admit("get_ranges", check_key(key))
        data = self._find(key).data
        self._finish(key, fault)
        for start, length in ranges:
            if length and start + length > len(data):
                raise too_short(key, start, length, len(data))
        return [
            self._received("get_ranges", data[start : start + length], fault)
            for start, length in ranges
        ]

    def head(self, key: str) -> ObjectInfo:
        fault = self._admit("head", check_key(key))
        stored = self._find(key)
        self._finish(key, fault)
        return _info(key, stored)

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[ObjectInfo]:
        return self._listing(check_prefix(prefix), start_after or "")

    def delete(self, keys: Iterable[str]) -> None:
        keys_to_delete = [check_key(key) for key in keys]
        fault = self._admit("delete", " ".join(keys_to_delete))
        with self._lock:
            for key in keys_to_delete:
                self._objects.pop(key, None)
        self._finish(" ".join(keys_to_delete), fault)

    def close(self) -> None:
        """Does nothing."""

    def _listing(self, folder: str, after: str) -> Iterator[ObjectInfo]:
        prefix = f"{folder}/" if folder else ""
        while True:
            fault = self._admit("list", folder)
            with self._lock:
                newest = self._numbers - self.lagging_list
                page = sorted(
                    (key, stored)
                    for key, stored in self._objects.items()
                    if key.startswith(prefix) and key > after and stored.number <= newest
                )[: self._page_size]
            self._finish(folder, fault)
            yield from (_info(key, stored) for key, stored in page)
            if len(page) < self._page_size:
                return
            after = page[-1][0]

    def _put(self, operation: str, key: str, data: bytes) -> int:
        fault = self._admit(operation, check_key(key))
        with self._lock:
            self._store(key, data, operation)
        self._finish(key, fault)
        return len(data)

    def _store(self, key: str, data: bytes, operation: str) -> None:
        self._numbers += 1
        modified_us = self._numbers if self._clock is None else self._clock.now_us()
        self._objects[key] = StoredObject(data, self._numbers, modified_us)
        self.bytes_in[operation] += len(data)

    def _find(self, key: str) -> StoredObject:
        with self._lock:
            if key not in self._objects:
                raise NotFound(f"there is no object {key} in {self.name}")
            return self._objects[key]

    def _admit(self, operation: str, key: str) -> ObjectFault | None:
        """Admit a call, or raise before it is executed."""
        with self._lock:
            self.calls[operation] += 1
            cuts = self._cuts
        if self.on_call is not None:
            self.on_call(operation, key)
        with self._lock:
            occurring = [each for each in self._faults if each.strikes(operation, key)]
            fault = occurring[0] if occurring else None
            if self._in_flight_choices is not None:
                if cuts == self._cuts or not self._in_flight_choices.pick(2):
                    raise self._unreachable(key)
                return ObjectFault(operation, 1, "after", once=True, contains="")
        if self.denied or (fault is not None and fault.how == "denied"):
            raise ObjectStoreDenied(f"{key} in {self.name}: not allowed")
        if fault is not None and fault.how == "before":
            raise self._unreachable(key)
        return fault

    def _finish(self, key: str, fault: ObjectFault | None) -> None:
        """Raise after the call was executed, if its response is lost."""
        if fault is not None and fault.how == "after":
            raise self._unreachable(key)

    def _received(self, operation: str, data: bytes, fault: ObjectFault | None) -> bytes:
        """The bytes that the caller receives."""
        self.bytes_out[operation] += len(data)
        if fault is None or not data:
            return data
        if fault.how == "truncated":
            return data[:-1]
        middle = len(data) // 2
        return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]

    def _unreachable(self, key: str) -> ObjectStoreUnreachable:
        return ObjectStoreUnreachable(
            f"{key} in {self.name}: no response: check the network, try again later"
        )


def _info(key: str, stored: StoredObject) -> ObjectInfo:
    return ObjectInfo(key, len(stored.data), stored.modified_us, None)
