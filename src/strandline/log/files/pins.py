"""Pins: while somebody copies the files of a store, none of them is removed.

A pin is a file in ``pins/`` that its holder keeps locked, in the store's own process or in another.
The lock dies with the process, so a crash leaves no pin behind: whoever looks and gets the lock has
found a dead one's, and removes it.

A root that is read while a pin is held keeps all its files. Removing begins with a look at the pins
(``log/checkpoint/checkpoint_store.py``, ``log/checkpoint/relocator.py``); one that looked before
the pin was there spares what
the newest root needed then, and the next root is written by the same job, after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from strandline.platform.disk import Disk, Lock


class Pins:
    """The pins of one store. Safe from many threads and processes."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory

    def held(self) -> bool:
        """Whether anybody alive holds one."""
        for name in self._disk.list_dir(self._directory):
            path = f"{self._directory}/{name}"
            alone = self._disk.lock(path, b"")
            if alone is None:
                return True
            self._let_go(path, alone)
        return False

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep every file that the newest root needs, until the end of the block."""
        path, lock = self._make()
        try:
            yield
        finally:
            self._let_go(path, lock)

    def _make(self) -> tuple[str, Lock]:
        while True:
            self._disk.make_dirs(self._directory)
            path = f"{self._directory}/{self._disk.random_id().hex()}"
            lock = self._disk.lock(path, b"")
            if lock is not None:
                if self._disk.exists(path):
                    return path, lock
                lock.release()  # of a file that somebody took for a dead one's, and removed

    def _let_go(self, path: str, lock: Lock) -> None:
        try:
            self._disk.remove(path)
        finally:
            lock.release()
