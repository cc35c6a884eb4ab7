"""What the operating system refused, as one of our errors, with the advice that fits. Pure.

    ENOSPC, EDQUOT, EFBIG    DiskFull      free space
    EMFILE                   Unavailable   this process has as many open files as it may have
    ENFILE                   Unavailable   so has the whole machine
    ENOMEM, MemoryError      Unavailable   there is no memory
    EAGAIN                   Unavailable   there are as many threads or processes as allowed
    any other OSError        Unavailable   the disk

A caller may retry after each of them.
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
    """What removes the cause of a failure, when its cause is not the disk."""
    if isinstance(error, MemoryError):
        return _NO_MEMORY
    return _ADVICE.get(error.errno or 0, otherwise) if isinstance(error, OSError) else otherwise


def as_unavailable(error: Failure, what: str, verb: str = "written") -> StrandlineError:
    """The error for a caller whose work on ``what`` the system refused."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return DiskFull(f"no room for {what} ({error}): free space, then retry")
    reason = str(error) or "out of memory"
    then = advice(error, "check the disk, then retry")
    return Unavailable(f"{what} could not be {verb} ({reason}): {then}")
