"""Pins: while a process copies the files of a store, none of them is removed.

A pin is a file in ``pins/`` that its holder keeps locked, in the store's own process or in another.
The lock ends with the process, so a crash leaves no pin: a check that gets the lock has found the
pin of a dead process, and removes it.

A checkpoint that is read while a pin is held keeps all its files. Removal begins with a check of
the pins (``log/checkpoint/checkpoint_store.py``, ``log/checkpoint/relocator.py``). A removal that
checked before the pin existed spares what the newest checkpoint needed then, and the next
checkpoint is written by the same job, after it.
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

    def is_held(self) -> bool:
        """Whether a live process holds a pin."""
        for name in self._disk.list_dir(self._directory):
            path = f"{self._directory}/{name}"
            lock = self._disk.lock(path, b"")
            if lock is None:
                return True
            self._release(path, lock)
        return False

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep every file that the newest checkpoint needs, until the end of the ``with`` block."""
        path, lock = self._create()
        try:
            yield
        finally:
            self._release(path, lock)

    def _create(self) -> tuple[str, Lock]:
        while True:
            self._disk.make_dirs(self._directory)
            path = f"{self._directory}/{self._disk.random_id().hex()}"
            lock = self._disk.lock(path, b"")
            if lock is not None:
                if self._disk.exists(path):
                    return path, lock
                lock.release()  # a check locked the file first, and removed it as a dead pin

    def _release(self, path: str, lock: Lock) -> None:
        try:
            self._disk.remove(path)
        finally:
            lock.release()
