"""The process itself: what must happen in a forked child, and tuning that only a program may do."""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from typing import Protocol


class Forkable(Protocol):
    """Something that must not be used in a forked child."""

    def forked(self) -> None: ...


_watched: weakref.WeakSet[Forkable] = weakref.WeakSet()


def tell_when_forked(thing: Forkable) -> None:
    """Call ``forked`` on it in every child that this process forks."""
    _watched.add(thing)


def process_id() -> int:
    return os.getpid()


def cores() -> int:
    """How many processors this process may use."""
    return max(1, len(os.sched_getaffinity(0)))


def resident_bytes(process: int) -> int:
    """Memory that a process holds now; 0 where that cannot be told."""
    try:
        with open(f"/proc/{process}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def tune_for_throughput() -> None:
    """Settings for a process that is ours alone: the command line, a server. Never for a library.

    A short switch interval lets the sync thread in while another thread appends; the malloc
    thresholds keep large buffers from being mapped and unmapped at every use (4x on 1 KB batches).
    """
    sys.setswitchinterval(0.0002)
    try:
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD
        mallopt(-1, 512 << 20)  # M_TRIM_THRESHOLD
    except (AttributeError, OSError):
        return  # not glibc: slower, nothing else


def _tell() -> None:
    for thing in list(_watched):
        thing.forked()


os.register_at_fork(after_in_child=_tell)
