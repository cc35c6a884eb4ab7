"""Promise: a file that bypasses the page cache gives and takes the same bytes as any other."""

from __future__ import annotations

import errno
import fcntl
import os
import random
from pathlib import Path

import pytest

from strandline.platform.direct_file import DIRECT_BLOCK, OsDirectFile
from strandline.platform.disk import Disk, OsDisk
from strandline.testing.sim_disk import SimDisk

SIZE = 3 * DIRECT_BLOCK + 700
LARGE = 2 * 1024 * 1024 + 99


@pytest.fixture(params=["os", "refused at opening", "refused at use", "sim"])
def disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Disk:
    if request.param == "refused at opening":
        _refuse(monkeypatch, "open", lambda path, flags, *rest: flags & os.O_DIRECT)
    if request.param == "refused at use":
        for call in ("preadv", "pwrite"):
            _refuse(monkeypatch, call, lambda fd, *rest: _is_direct(fd))
    return SimDisk() if request.param == "sim" else OsDisk()


def _refuse(monkeypatch: pytest.MonkeyPatch, call: str, is_refused) -> None:
    real = getattr(os, call)

    def refusing(*given):
        if is_refused(*given):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(*given)

    monkeypatch.setattr(os, call, refusing)


def _is_direct(fd: int) -> bool:
    return fd >= 0 and bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT)


@pytest.fixture
def path(disk: Disk, tmp_path: Path) -> str:
    disk.make_dirs(str(tmp_path))
    return str(tmp_path / "file")


def test_any_range_is_read_as_it_is(disk: Disk, path: str):
    rng = random.Random(1)
    content = rng.randbytes(SIZE)
    disk.durable_replace(path, content)
    edges = [0, 1, 511, 512, DIRECT_BLOCK - 1, DIRECT_BLOCK, SIZE - 1, SIZE, SIZE + 5000]
    file = disk.open_direct(path)

    for offset in edges:
        for size in (*edges, rng.randrange(SIZE)):
            assert file.pread(size, offset) == content[offset : offset + size], (offset, size)

    assert file.size() == SIZE
    file.close()


def test_a_read_into_memory_goes_as_far_as_the_file(disk: Disk, path: str):
    disk.durable_replace(path, b"0123456789")
    target = bytearray(6)
    file = disk.open_direct(path)

    got = file.pread_into(memoryview(target), 7)

    assert (got, bytes(target)) == (3, b"789\0\0\0")
    file.close()


def test_any_run_of_writes_leaves_what_was_written(disk: Disk, path: str):
    rng = random.Random(2)
    disk.reserve(path, SIZE)
    model = bytearray(SIZE)

    for _ in range(60):
        offset = rng.choice([0, DIRECT_BLOCK, rng.randrange(SIZE)])
        data = rng.randbytes(rng.randrange(1, SIZE - offset + 1))
        cut = rng.randrange(len(data))
        disk.write_direct(path, offset, [data[:cut], memoryview(data)[cut:]])
        model[offset : offset + len(data)] = data

    found = disk.read(path)
    assert found[:SIZE] == model
    assert found[SIZE:] == bytes(len(found) - SIZE)
    assert len(found) < SIZE + DIRECT_BLOCK


def test_more_than_one_step_is_written_and_read(disk: Disk, path: str):
    content = random.Random(3).randbytes(LARGE)
    disk.reserve(path, LARGE)

    disk.write_direct(path, 0, [content[:1000], content[1000:]])

    file = disk.open_direct(path)
    assert file.pread(LARGE, 0) == content
    file.close()


def test_absent_and_closed_files_are_errors(disk: Disk, path: str):
    with pytest.raises(FileNotFoundError):
        disk.open_direct(path)
    with pytest.raises(FileNotFoundError):
        disk.write_direct(path, 0, [b"x"])
    disk.durable_replace(path, b"0123456789")
    file = disk.open_direct(path)
    with pytest.raises(OSError, match="Invalid argument"):
        file.pread(4, -1)
    file.close()
    file.close()

    with pytest.raises(OSError, match="Bad file descriptor"):
        file.pread(1, 0)


def test_errors_of_the_disk_are_not_taken_for_a_missing_feature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "file"
    path.write_bytes(bytes(SIZE))
    file = OsDirectFile(str(path))

    def failing(*given: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "preadv", failing)

    with pytest.raises(OSError, match="Input/output error"):
        file.pread(10, 0)
    file.close()
