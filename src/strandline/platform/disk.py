"""The file system: every file operation of the store is one of these calls.

Rules that the rest of the code relies on:

- ``prepare`` creates a file of zeros whose blocks are allocated and synced, its name included. A
  write inside it can therefore not run out of space. ``reserve`` is the faster variant for a writer
  that cannot wait: also zeros, also allocated, but a sync inside it must update the file's extents.
- A ``LogFile`` is written through a shared mapping (``mapping[a:b] = data``: no system call, and a
  killed process loses nothing that was stored) or with ``write`` for large data; both write to the
  page cache. ``sync`` makes everything written before it durable. It runs on the descriptor that
  has been open since before the writes, because Linux reports a lost page once per open file. After
  one failed ``sync`` the content on disk is unknown: never sync that file again.
- ``durable_replace`` and ``DurableFile.commit`` are the only ways to make a file appear with
  content: write a temporary file, sync it, rename it, sync the directory. ``commit_new`` links
  instead of renaming, so that of many writers of one name exactly one succeeds.
- Reading is ``pread`` into new bytes, never a mapping: a truncated file must raise, not kill.

``strandline.testing.sim_disk.SimDisk`` implements the same protocol over simulated sectors.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
from collections.abc import Iterable, Sequence
from typing import Protocol

from strandline.platform import page_cache
from strandline.platform.direct_file import OsDirectFile, write_direct

Buffer = bytes | bytearray | memoryview
PREPARE_WRITE_SIZE = 64 * 1024  # sets the folio size: see the Disk facts in docs/benchmarks.md
IOV_MAX = 1024


class Mapping(Protocol):
    """Bytes of a log file that are written by assignment, without a system call."""

    def __setitem__(self, where: slice, data: Buffer, /) -> None: ...


class Words(Protocol):
    """The same bytes as little-endian 8-byte numbers, each written in one step."""

    def __setitem__(self, index: int, number: int, /) -> None: ...


class ReadFile(Protocol):
    """A file open for reading at explicit offsets. Safe from many threads."""

    path: str

    def pread(self, size: int, offset: int) -> bytes:
        """Up to ``size`` bytes; fewer only at the end of the file."""
        ...

    def pread_into(self, target: memoryview, offset: int) -> int:
        """Fill the given memory up to the end of the file; returns the number of bytes read."""
        ...

    def size(self) -> int: ...

    def close(self) -> None: ...


class LogFile(ReadFile, Protocol):
    """A prepared file that is written in place. One writer at a time; any thread may sync."""

    mapping: Mapping
    words: Words

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers, one after another, or raise OSError."""
        ...

    def sync(self) -> None:
        """Make every byte written before this call durable."""
        ...


class DurableFile(Protocol):
    """A new file that exists under its name only after ``commit``. Owned by one thread."""

    def write(self, buffers: Sequence[Buffer]) -> int:
        """Append the buffers; returns the offset of the first byte."""
        ...

    def commit(self) -> None:
        """Sync the bytes, give the file its name, sync the directory, close."""
        ...

    def commit_new(self) -> None:
        """Like ``commit``, but raises FileExistsError if the name is taken; then ``abandon``."""
        ...

    def abandon(self) -> None:
        """Close and remove what was written. Does nothing after ``commit``."""
        ...


class Lock(Protocol):
    """A lock on the store that is released when the process ends."""

    def release(self) -> None: ...

    def fileno(self) -> int:
        """The descriptor that a child process inherits so that the lock lasts as long as the
        child; -1 if the lock has none."""
        ...


class Disk(Protocol):
    """A file system. Paths are strings; every failure is an OSError. Safe from many threads."""

    def boot_id(self) -> str:
        """Changes when the machine restarts."""
        ...

    def page_cache_id(self, path: str) -> str:
        """Identifies the page cache of a directory; changes when unsynced writes may be lost."""
        ...

    def random_id(self) -> bytes:
        """Sixteen random bytes, for identities."""
        ...

    def free_bytes(self, path: str) -> int: ...

    def make_dirs(self, path: str) -> None:
        """Create the directory and its parents, durably. Existing is fine."""
        ...

    def list_dir(self, path: str) -> list[str]:
        """Sorted names; empty when the directory does not exist."""
        ...

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def read(self, path: str) -> bytes: ...

    def open_read(self, path: str) -> ReadFile: ...

    def open_direct(self, path: str) -> ReadFile:
        """Like ``open_read``, but reads leave nothing in the page cache (``direct_file.py``)."""
        ...

    def write_direct(self, path: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write into an existing file; nothing stays in the page cache, nothing is synced. A
        file that becomes longer may end with up to 4095 zeros."""
        ...

    def prepare(self, path: str, size: int) -> None:
        """Create a file of zeros, allocated and synced with its directory."""
        ...

    def reserve(self, path: str, size: int) -> None:
        """Create a file that reads as zeros, allocated but not written or synced: faster, but
        slower to sync later. The first ``sync`` of it, and of its directory, make it durable."""
        ...

    def open_log(self, path: str) -> LogFile: ...

    def create(self, path: str, *, aside: str | None = None) -> DurableFile:
        """Start a new file; until it is committed its bytes are in the file ``aside``."""
        ...

    def durable_replace(self, path: str, content: Buffer) -> None:
        """Replace the content as a whole: after a power loss the file has the old or the new."""
        ...

    def modified_us(self, path: str) -> int:
        """The time of the last write, in microseconds since 1970 UTC."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory; durable after ``sync_dir``."""
        ...

    def sync_dir(self, path: str) -> None: ...

    def remove(self, path: str) -> None:
        """Remove a file or an empty directory. Absent is fine."""
        ...

    def lock(self, path: str, content: bytes) -> Lock | None:
        """Take the lock, or return None if another process holds it. The content is for people
        only: on a full disk it may be missing."""
        ...


class OsFile:
    """A file of the operating system, open for reading."""

    _fd = -1  # for __del__ when there is nothing to open

    def __init__(self, path: str, flags: int) -> None:
        self.path = path
        self._fd = os.open(path, flags | os.O_CLOEXEC)

    def pread(self, size: int, offset: int) -> bytes:
        data = os.pread(self._fd, size, offset)
        if len(data) == size or not data:
            return data
        parts = [data]
        count = len(data)
        while count < size and (data := os.pread(self._fd, size - count, offset + count)):
            parts.append(data)
            count += len(data)
        return b"".join(parts)

    def pread_into(self, target: memoryview, offset: int) -> int:
        got = 0
        while got < len(target) and (step := os.preadv(self._fd, [target[got:]], offset + got)):
            got += step
        return got

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class OsLogFile(OsFile):
    """A prepared file with a shared mapping for stores."""

    def __init__(self, path: str) -> None:
        super().__init__(path, os.O_RDWR)
        if self.size() == 0:
            self.close()
            raise OSError(errno.EINVAL, "an empty file is not a log file", path)
        mapping = mmap.mmap(self._fd, 0)
        self.mapping: Mapping = mapping
        self.words: Words = memoryview(mapping)[: len(mapping) // 8 * 8].cast("Q")

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        _write_all(self._fd, offset, buffers)

    def sync(self) -> None:
        os.fdatasync(_open_fd(self._fd, self.path))

    def close(self) -> None:
        # The mapping is dereferenced, not closed: a reader may still hold a slice of it.
        super().close()


class OsDurableFile:
    """Bytes under a temporary name until ``commit``."""

    def __init__(self, path: str, aside: str | None = None) -> None:
        self._path = path
        self._aside = aside or path + ".tmp"
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._fd = os.open(self._aside, flags, 0o600)
        self._size = 0

    def write(self, buffers: Sequence[Buffer]) -> int:
        offset = self._size
        self._size += _write_all(self._fd, offset, buffers)
        return offset

    def commit(self) -> None:
        os.fsync(_open_fd(self._fd, self._path))
        os.replace(self._aside, self._path)
        _sync_dir(os.path.dirname(self._path))
        self._close()

    def commit_new(self) -> None:
        os.fsync(_open_fd(self._fd, self._path))
        os.link(self._aside, self._path)
        _sync_dir(os.path.dirname(self._path))
        self.abandon()

    def abandon(self) -> None:
        if self._fd >= 0:
            self._close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._aside)

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        os.close(fd)


class OsLock:
    """An flock, released when the last process that shares the descriptor ends.

    The owner unlocks explicitly, because a forked child may still share the descriptor for a short
    time. A forked child must not unlock: it only closes its descriptor.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._owner = os.getpid()

    def fileno(self) -> int:
        return self._fd

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            if os.getpid() == self._owner:
                fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)


class OsDisk:
    """The file system of this machine."""

    def boot_id(self) -> str:
        return page_cache.boot_id()

    def page_cache_id(self, path: str) -> str:
        return page_cache.page_cache_id(path)

    def random_id(self) -> bytes:
        return os.urandom(16)

    def free_bytes(self, path: str) -> int:
        stat = os.statvfs(path)
        return stat.f_bavail * stat.f_frsize

    def make_dirs(self, path: str) -> None:
        parent = os.path.dirname(path.rstrip("/")) or ("/" if path.startswith("/") else ".")
        if os.path.isdir(path):
            # It may have been created by a process that was killed before the sync. A parent
            # that is not readable does not belong to the store.
            with contextlib.suppress(PermissionError):
                _sync_dir(parent)
            return
        self.make_dirs(parent)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        _sync_dir(parent)

    def list_dir(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def read(self, path: str) -> bytes:
        file = self.open_read(path)
        try:
            return file.pread(file.size(), 0)
        finally:
            file.close()

    def open_read(self, path: str) -> ReadFile:
        return OsFile(path, os.O_RDONLY)

    def open_direct(self, path: str) -> ReadFile:
        return OsDirectFile(path)

    def write_direct(self, path: str, offset: int, buffers: Sequence[Buffer]) -> None:
        write_direct(path, offset, buffers)

    def prepare(self, path: str, size: int) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            zeros = bytes(PREPARE_WRITE_SIZE)
            for offset in range(0, size, PREPARE_WRITE_SIZE):
                _write_all(fd, offset, [zeros[: size - offset]])
            os.fsync(fd)
            _sync_dir(os.path.dirname(path))
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise
        finally:
            os.close(fd)

    def reserve(self, path: str, size: int) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, size)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise
        finally:
            os.close(fd)

    def open_log(self, path: str) -> LogFile:
        return OsLogFile(path)

    def create(self, path: str, *, aside: str | None = None) -> DurableFile:
        return OsDurableFile(path, aside)

    def durable_replace(self, path: str, content: Buffer) -> None:
        file = OsDurableFile(path)
        try:
            file.write([content])
            file.commit()
        finally:
            file.abandon()

    def modified_us(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1000

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def sync_dir(self, path: str) -> None:
        _sync_dir(path)

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            if os.path.isdir(path):
                os.rmdir(path)
            else:
                os.unlink(path)

    def lock(self, path: str, content: bytes) -> Lock | None:
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not _is_still_at(path, fd):
                    os.close(fd)  # its owner removed the file: other processes lock a new one
                    continue
                os.ftruncate(fd, 0)
                os.pwrite(fd, content, 0)
            except BlockingIOError:
                os.close(fd)
                return None
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    os.close(fd)  # an open descriptor would hold the lock until the process ends
                    raise
            return OsLock(fd)


def _is_still_at(path: str, fd: int) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _open_fd(fd: int, path: str) -> int:
    """The descriptor; raises OSError if it is closed, where fsync would raise ValueError."""
    if fd < 0:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), path)
    return fd


def _write_all(fd: int, offset: int, buffers: Sequence[Buffer]) -> int:
    """Write every byte at the offset, also if the kernel accepts only a part at a time."""
    start = offset
    for group in _groups(buffers):
        size = sum(len(buffer) for buffer in group)
        done = os.pwritev(fd, group, offset)
        if done < size:
            rest = memoryview(b"".join(group))
            while done < size:
                step = os.pwrite(fd, rest[done:], offset + done)
                if step == 0:
                    raise OSError(errno.EIO, "the disk wrote no bytes", "")
                done += step
        offset += size
    return offset - start


def _groups(buffers: Sequence[Buffer]) -> Iterable[Sequence[Buffer]]:
    if len(buffers) <= IOV_MAX:
        return (buffers,)
    return (buffers[first : first + IOV_MAX] for first in range(0, len(buffers), IOV_MAX))


def _sync_dir(path: str) -> None:
    fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
