"""The rates of the disk alone: the same bytes through plain system calls."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

_SIZE_MIN = 4 << 20
_SIZE_MAX = 60 << 20
_ROUNDS = 5


class Raw:
    """A file of zeros that is written and read in place. Owned by one thread."""

    def __init__(self, path: str, seconds: float) -> None:
        self._seconds = seconds
        # As large as the measured file: a smaller one would stay in the cache of the processor.
        self._size = int(_SIZE_MAX * min(1.0, seconds)) + _SIZE_MIN
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        for offset in range(0, self._size, 1 << 20):
            os.pwrite(self._fd, bytes(1 << 20), offset)
        os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)

    def write(self, data: bytes) -> float:
        """Writes of these bytes per second."""
        return self._rate(len(data), lambda at: os.pwrite(self._fd, data, at))

    def write_and_sync(self, data: bytes) -> float:
        """Durable writes of these bytes per second."""

        def act(offset: int) -> None:
            os.pwrite(self._fd, data, offset)
            os.fdatasync(self._fd)

        return self._rate(len(data), act)

    def read(self, size: int) -> float:
        """Reads of this size per second."""
        return self._rate(size, lambda at: os.pread(self._fd, size, at))

    def _rate(self, step: int, act: Callable[[int], object]) -> float:
        offset = 0

        def step_once() -> None:
            nonlocal offset
            act(offset)
            offset = (offset + step) % (self._size - step)

        return rate(step_once, self._seconds)


def rate(act: Callable[[], object], seconds: float, *, times_max: int = 1 << 62) -> float:
    """Operations per second: the median of a few rounds."""
    round_max = max(1, times_max // _ROUNDS)
    return statistics.median(_round(act, seconds / _ROUNDS, round_max) for _ in range(_ROUNDS))


def _round(act: Callable[[], object], seconds: float, times_max: int) -> float:
    started_at = time.perf_counter()
    count = 0
    while count < times_max and time.perf_counter() - started_at < seconds:
        act()
        count += 1
    return count / (time.perf_counter() - started_at)
