"""Reads and writes files without the page cache, and allocates page-aligned memory.

A local disk cache whose files are also in the page cache occupies memory for the same bytes: in a
container the page cache counts against the memory limit. With ``O_DIRECT`` the device transfers
whole blocks between the disk and page-aligned memory. So a read covers the blocks around the
requested bytes, and a write preserves the other bytes of its first and its last block. A file that
a write extends ends with a whole block, filled with zeros.

A file system without ``O_DIRECT`` rejects it at open or at the first read or write. Then the page
cache is used, and each call advises the kernel to drop the pages that the call loaded. Pages that
are not on disk cannot be dropped, so in this mode a write waits for the disk.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import threading
from collections.abc import Sequence

_Buffer = bytes | bytearray | memoryview
DIRECT_BLOCK = 4096
"""Offsets, sizes and addresses are multiples of this: no disk in use has larger blocks."""

_READ_SIZE = 64 * 1024
"""Buffer of each reading thread; a larger read allocates its own."""
_WRITE_SIZE = 1024 * 1024
_REFUSALS = (errno.EINVAL, errno.ENOTSUP)


def aligned_memory(size: int) -> memoryview:
    """Page-aligned memory to read files into.

    A copy out of the page cache into a large ``bytearray`` (16 bytes after the start of a page)
    runs at a fifth of the speed on some processors: docs/decisions/0018-aligned-memory.md.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # the kernel uses huge pages for private memory
    memory = mmap.mmap(-1, max(1, size), flags=flags)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without huge pages is only slower
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)[:size]


class _ThreadMemory(threading.local):
    def __init__(self) -> None:
        self.block = aligned_memory(_READ_SIZE)


_own = _ThreadMemory()


class OsDirectFile:
    """A file of the operating system. Safe from many threads; a write is owned by one."""

    _fd = -1  # for __del__ when there is nothing to open

    def __init__(self, path: str, *, writable: bool = False, direct: bool = True) -> None:
        self.path = path
        self.is_direct = direct
        """Whether the page cache is bypassed."""
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC
        try:
            self._fd = os.open(path, flags | (os.O_DIRECT if direct else 0))
        except OSError as error:
            if not direct or error.errno not in _REFUSALS:
                raise
            self._fd = os.open(path, flags)
            self.is_direct = False
        if not self.is_direct:
            self._stop_reading_ahead()

    def pread(self, size: int, offset: int) -> bytes:
        if size <= 0 or offset < 0:
            return os.pread(self._fd, size, offset)  # returns no bytes, or raises the right error
        before = offset % DIRECT_BLOCK
        span = -(-(before + size) // DIRECT_BLOCK) * DIRECT_BLOCK
        memory = _own.block if span <= _READ_SIZE else aligned_memory(span)
        count = self._fill(memory[:span], offset - before)
        return memory[before : min(before + size, count)].tobytes()

    def pread_into(self, target: memoryview, offset: int) -> int:
        data = self.pread(len(target), offset)
        target[: len(data)] = data
        return len(data)

    def write(self, offset: int, buffers: Sequence[_Buffer]) -> None:
        """Write all buffers, one after another, or raise OSError."""
        if self.is_direct:
            try:
                return self._write_blocks(offset, buffers)
            except OSError as error:
                self._use_page_cache(error)
        for buffer in buffers:
            self._store(memoryview(buffer), offset)
            offset += len(buffer)
        os.fdatasync(self._fd)
        os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()

    def _fill(self, memory: memoryview, offset: int) -> int:
        """Read whole blocks; returns the number of bytes read."""
        try:
            count = os.preadv(self._fd, [memory], offset)
        except OSError as error:
            self._use_page_cache(error)
            count = os.preadv(self._fd, [memory], offset)
        while 0 < count < len(memory) and count % DIRECT_BLOCK == 0:  # not yet the end of the file
            step = os.preadv(self._fd, [memory[count:]], offset + count)
            if not step:
                break
            count += step
        if not self.is_direct:
            os.posix_fadvise(self._fd, offset, len(memory), os.POSIX_FADV_DONTNEED)
        return count

    def _write_blocks(self, offset: int, buffers: Sequence[_Buffer]) -> None:
        memory = aligned_memory(_WRITE_SIZE)
        filled = offset % DIRECT_BLOCK
        offset -= filled
        if filled:
            self._fill(memory[:DIRECT_BLOCK], offset)
        for buffer in buffers:
            rest = memoryview(buffer)
            while rest:
                step = min(len(rest), _WRITE_SIZE - filled)
                memory[filled : filled + step] = rest[:step]
                filled, rest = filled + step, rest[step:]
                if filled == _WRITE_SIZE:
                    self._store(memory, offset)
                    offset, filled = offset + _WRITE_SIZE, 0
        after = -filled % DIRECT_BLOCK
        if after:
            last = aligned_memory(DIRECT_BLOCK)
            self._fill(last, offset + filled + after - DIRECT_BLOCK)
            memory[filled : filled + after] = last[-after:]
        self._store(memory[: filled + after], offset)

    def _store(self, rest: memoryview, offset: int) -> None:
        while rest:
            step = os.pwrite(self._fd, rest, offset)
            if step == 0:
                raise OSError(errno.EIO, "the disk wrote no bytes", self.path)
            rest, offset = rest[step:], offset + step

    def _use_page_cache(self, error: OSError) -> None:
        """Continue without ``O_DIRECT`` if the error is its rejection; otherwise raise it."""
        if not self.is_direct or error.errno not in _REFUSALS:
            raise error
        flags = fcntl.fcntl(self._fd, fcntl.F_GETFL)
        fcntl.fcntl(self._fd, fcntl.F_SETFL, flags & ~os.O_DIRECT)
        self.is_direct = False
        self._stop_reading_ahead()

    def _stop_reading_ahead(self) -> None:
        os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_RANDOM)


def write_direct(path: str, offset: int, buffers: Sequence[_Buffer]) -> None:
    """Write into an existing file."""
    file = OsDirectFile(path, writable=True)
    try:
        file.write(offset, buffers)
    finally:
        file.close()
