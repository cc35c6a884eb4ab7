"""Converts errors of the operating system to Strandline errors, with advice. Pure.

    ENOSPC, EDQUOT, EFBIG    DiskFull      free space
    EMFILE                   Unavailable   the limit of open files of this process is reached
    ENFILE                   Unavailable   that of the whole machine is reached
    ENOMEM, MemoryError      Unavailable   out of memory
    EAGAIN                   Unavailable   the limit of threads or processes is reached
    any other OSError        Unavailable   the disk

A caller may retry after any of them.
"""

from __future__ import annotations

import errno

from strandline.errors import DiskFull, StrandlineError, Unavailable

NO_THREADS = (
    "stop other threads, or raise the limit of threads of this user (ulimit -u) or container, "
    "then retry"
)
_NO_MEMORY = "free memory, or raise the limit of this process or container, then retry"
_NO_FILES = "close files, or raise the limit of open files of this process (ulimit -n), then retry"
_ADVICE = {
    errno.EMFILE: _NO_FILES,
    errno.ENFILE: "close files in other processes, or raise fs.file-max, then retry",
    errno.ENOMEM: _NO_MEMORY,
    errno.EAGAIN: NO_THREADS,
}
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Failure = OSError | MemoryError


def advice(error: BaseException | None, otherwise: str) -> str:
    """How to remove the cause of a failure; ``otherwise`` when the cause is the disk."""
    if isinstance(error, MemoryError):
        return _NO_MEMORY
    return _ADVICE.get(error.errno or 0, otherwise) if isinstance(error, OSError) else otherwise


def as_unavailable(error: Failure, what: str, verb: str = "written") -> StrandlineError:
    """The error for a failed operation on ``what``."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return DiskFull(f"no room for {what} ({error}): free space, then retry")
    reason = str(error) or "out of memory"
    remedy = advice(error, "check the disk, then retry")
    return Unavailable(f"{what} could not be {verb} ({reason}): {remedy}")
