"""Open files of the simulated disk, with the guarantees of those in ``platform/disk.py``.

A handle refers to the file, not to its name: it works after a rename or a removal.
"""

from __future__ import annotations

import errno
import os.path
from collections.abc import Callable, Sequence

from strandline.platform.disk import Buffer, Mapping, Words
from strandline.testing.fault_injection import Fault, FaultInjector
from strandline.testing.sim_sectors import Sectors
from strandline.testing.sim_tree import Volume, failure


class SimDescriptor:
    """A file with its path, its volume and its fault injection: the steps of larger calls."""

    def __init__(self, path: str, file: Sectors, volume: Volume, calls: FaultInjector) -> None:
        self.path = path
        self.file = file
        self.volume = volume
        self.calls = calls

    def write(self, operation: str, offset: int, buffers: Sequence[Buffer]) -> int:
        """Store all buffers; or the part that fits or that a fault allows, then raise."""
        fault = self.calls.enter(operation, self.path)
        data = b"".join(buffers)
        with self.calls.effect:
            written = self._allowed_size(offset, len(data), fault)
            self.file.store(offset, data[:written])
        self._check_complete(written, len(data), fault)
        return written

    def fill(self, operation: str, size: int) -> None:
        """Write zeros into an empty file."""
        fault = self.calls.enter(operation, self.path)
        with self.calls.effect:
            written = self._allowed_size(0, size, fault)
            self.file.resize(written)
        self._check_complete(written, size, fault)

    def sync(self, operation: str) -> None:
        """Make durable what was stored before this call, and nothing that is stored during it."""
        with self.calls.lock:
            begun_at = self.file.begin_sync()
        try:
            self.calls.enter(operation, self.path)
        except OSError:
            if self.calls.powered:
                with self.calls.lock:
                    self.file.end_sync(begun_at, reached_disk=False)
            raise
        with self.calls.effect:
            self.file.end_sync(begun_at)

    def discard(self) -> None:
        """Clean up after a failed call, if the power is on."""
        if self.calls.powered:
            with self.calls.lock:
                self.volume.unlink(self.path)

    def _allowed_size(self, offset: int, size: int, fault: Fault | None) -> int:
        size_max = size if fault is None or fault.short is None else fault.short
        room = self.volume.fitting_size(self.file, offset + size) - offset
        return max(0, min(size, size_max, room))

    def _check_complete(self, written: int, size: int, fault: Fault | None) -> None:
        if fault is not None or written < size:
            raise failure(errno.ENOSPC if fault is None else fault.errno, self.path)


class SimReadFile:
    """A simulated file, open for reading. Safe from many threads."""

    def __init__(self, descriptor: SimDescriptor) -> None:
        self.path = descriptor.path
        self._descriptor = descriptor
        self._open = True

    def pread(self, size: int, offset: int) -> bytes:
        calls = self._descriptor.calls
        calls.enter("pread", self.path)
        self._check_open()
        if size < 0 or offset < 0:
            raise failure(errno.EINVAL, self.path)
        with calls.lock:
            return self._descriptor.file.read(size, offset)

    def pread_into(self, target: memoryview, offset: int) -> int:
        data = self.pread(len(target), offset)
        target[: len(data)] = data
        return len(data)

    def size(self) -> int:
        self._descriptor.calls.enter("size", self.path)
        self._check_open()
        return self._descriptor.file.size

    def close(self) -> None:
        self._open = False

    def _check_open(self) -> None:
        if not self._open:
            raise failure(errno.EBADF, self.path)


class SimMapping:
    """Stores into a log file. A store is visible at once and durable after ``sync``."""

    def __init__(self, descriptor: SimDescriptor) -> None:
        self._path = descriptor.path
        self._file = descriptor.file
        self._calls = descriptor.calls
        self._size = descriptor.file.size

    def __setitem__(self, where: slice, data: Buffer, /) -> None:
        self._calls.enter("store", self._path)
        first, after, _ = where.indices(self._size)
        content = bytes(data)
        if len(content) != max(0, after - first):
            raise IndexError("mmap slice assignment is wrong size")
        with self._calls.effect:
            self._file.store(first, content, mapped=True)


class SimWords:
    """The same stores, eight bytes at a time."""

    def __init__(self, mapping: SimMapping) -> None:
        self._mapping = mapping

    def __setitem__(self, index: int, number: int, /) -> None:
        self._mapping[8 * index : 8 * index + 8] = number.to_bytes(8, "little")


class SimLogFile(SimReadFile):
    """A simulated log file: one writer at a time, any thread may sync."""

    def __init__(self, descriptor: SimDescriptor) -> None:
        if descriptor.file.size == 0:
            raise failure(errno.EINVAL, descriptor.path)
        super().__init__(descriptor)
        mapping = SimMapping(descriptor)
        self.mapping: Mapping = mapping
        self.words: Words = SimWords(mapping)

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        self._check_open()
        self._descriptor.write("write", offset, buffers)

    def sync(self) -> None:
        self._check_open()
        self._descriptor.sync("sync")


class SimDurableFile:
    """Bytes under a temporary name until ``commit``. Owned by one thread.

    ``durable_replace`` is the same work in one call: ``within`` is the name of the call whose steps
    these are.
    """

    def __init__(
        self,
        path: str,
        volume: Volume,
        calls: FaultInjector,
        *,
        within: str = "",
        aside: str | None = None,
    ) -> None:
        self._path = path
        self._aside = SimDescriptor(aside or path + ".tmp", Sectors(), volume, calls)
        self._within = within
        self._size = 0
        self._open = True
        with calls.lock:
            volume.link(self._aside.path, self._aside.file)

    def write(self, buffers: Sequence[Buffer]) -> int:
        self._check_open()
        operation = f"{self._within}.write" if self._within else "write"
        offset = self._size
        self._size += self._aside.write(operation, offset, buffers)
        return offset

    def commit(self) -> None:
        self._check_open()
        volume, calls = self._aside.volume, self._aside.calls
        if not self._within:
            calls.enter("commit", self._path)
        call = self._within or "commit"
        self._aside.sync(f"{call}.sync")
        calls.enter(f"{call}.rename", self._path)
        with calls.effect:
            volume.move(self._aside.path, self._path)
        sync_parent(volume, calls, f"{call}.sync_dir", self._path)
        self._open = False

    def commit_new(self) -> None:
        self._check_open()
        volume, calls = self._aside.volume, self._aside.calls
        calls.enter("commit_new", self._path)
        self._aside.sync("commit_new.sync")
        calls.enter("commit_new.link", self._path)
        with calls.effect:
            if volume.find(self._path) is not None:
                raise failure(errno.EEXIST, self._aside.path, self._path)
            volume.link(self._path, self._aside.file)
        sync_parent(volume, calls, "commit_new.sync_dir", self._path)
        self.abandon()

    def abandon(self) -> None:
        if not self._open:
            return
        if not self._within:
            self._aside.calls.enter("abandon", self._path)
        self._open = False
        self._aside.discard()

    def _check_open(self) -> None:
        if not self._open:
            raise failure(errno.EBADF, self._path)


class SimLock:
    """A lock that is free after ``release``, a kill or a power loss."""

    def __init__(self, free: Callable[[], None]) -> None:
        self._free: Callable[[], None] | None = free

    def fileno(self) -> int:
        return -1

    def release(self) -> None:
        free, self._free = self._free, None
        if free is not None:
            free()


def sync_parent(volume: Volume, calls: FaultInjector, operation: str, path: str) -> None:
    """Make the name of the path durable."""
    parent = os.path.dirname(path)
    calls.enter(operation, parent)
    with calls.effect:
        volume.sync(volume.folder(parent))
