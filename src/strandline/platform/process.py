"""The process itself: callbacks in forked children, its resources, and tuning for programs."""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from typing import Protocol


class Forkable(Protocol):
    """An object that has to be reset in a forked child."""

    def forked(self) -> None: ...


_forkables: weakref.WeakSet[Forkable] = weakref.WeakSet()


def register_forkable(forkable: Forkable) -> None:
    """Call ``forked`` of an object in every child that this process forks."""
    _forkables.add(forkable)


def process_id() -> int:
    return os.getpid()


def cores() -> int:
    """The number of processors that this process may use."""
    return max(1, len(os.sched_getaffinity(0)))


def resident_bytes(process: int) -> int:
    """Resident memory of a process; 0 where it is not known."""
    try:
        with open(f"/proc/{process}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def tune_for_throughput() -> None:
    """Settings for a whole process, such as the command line or a server; never for a library.

    A short switch interval lets the sync thread run while another thread appends; the malloc
    thresholds keep large buffers from being mapped and unmapped at every use (4x on 1 KB batches).
    """
    sys.setswitchinterval(0.0002)
    try:
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD
        mallopt(-1, 512 << 20)  # M_TRIM_THRESHOLD
    except (AttributeError, OSError):
        return  # not glibc: only slower


def _notify_forked() -> None:
    for forkable in list(_forkables):
        forkable.forked()


os.register_at_fork(after_in_child=_notify_forked)
