"""What we are measured against: the bare disk, memory, and SQLite, in the same run."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from bench.measure import fixed, rate

RECORD = b"x" * 100
PIECE = b"y" * (256 * 1024)
FILE_SIZE = 64 << 20
WARM_BYTES = 2 << 30


def warm_up(folder: Path, *, scale: float) -> None:
    """Let the machine hand out memory once: a guest's first touch of a page is ten times dearer."""
    path = folder / "warm"
    with path.open("wb") as file:
        for _ in range(fixed(WARM_BYTES // len(PIECE), scale)):
            file.write(PIECE)
    path.unlink()


class Peers:
    """Physical limits and peers, measured once at the start."""

    def __init__(self, folder: Path, *, scale: float) -> None:
        self._scale = scale
        self._folder = folder
        self._fd = os.open(folder / "raw", os.O_RDWR | os.O_CREAT, 0o600)
        for offset in range(0, FILE_SIZE, 65536):
            os.pwrite(self._fd, bytes(65536), offset)
        os.fsync(self._fd)
        self.pwrite_bytes = rate(self._pwrite_pieces)
        self.pwrite_small = rate(self._pwrite_small)
        self.sync_rate = rate(self._write_and_sync, rounds=3)
        self._source = bytes(FILE_SIZE)
        self._target = memoryview(bytearray(FILE_SIZE))
        self.memcpy_bytes = rate(self._memcpy)
        self.sqlite_many = rate(self._sqlite_many, rounds=3)
        self.sqlite_one = rate(self._sqlite_one, rounds=3)

    def _pwrite_pieces(self) -> int:
        for offset in range(0, FILE_SIZE, len(PIECE)):
            os.pwrite(self._fd, PIECE, offset)
        return FILE_SIZE

    def _pwrite_small(self) -> int:
        count = fixed(100_000, self._scale)
        for place in range(count):
            os.pwrite(self._fd, RECORD, place * 100)
        return count

    def _write_and_sync(self) -> int:
        count = fixed(1500, self._scale)
        for place in range(count):
            os.pwrite(self._fd, RECORD, place * 128)
            os.fdatasync(self._fd)
        return count

    def _memcpy(self) -> int:
        self._target[:] = self._source
        return FILE_SIZE

    def _sqlite(self, name: str) -> sqlite3.Connection:
        path = self._folder / name
        path.unlink(missing_ok=True)
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("pragma journal_mode=wal")
        connection.execute("pragma synchronous=normal")
        connection.execute("create table log (seq integer primary key, data blob)")
        return connection

    def _sqlite_many(self) -> int:
        connection = self._sqlite("many.db")
        rows = [(RECORD,)] * 1000
        count = fixed(50, self._scale)
        for _ in range(count):
            connection.execute("begin")
            connection.executemany("insert into log (data) values (?)", rows)
            connection.execute("commit")
        connection.close()
        return count * len(rows)

    def _sqlite_one(self) -> int:
        connection = self._sqlite("one.db")
        count = fixed(5000, self._scale)
        for _ in range(count):
            connection.execute("insert into log (data) values (?)", (RECORD,))
        connection.close()
        return count
