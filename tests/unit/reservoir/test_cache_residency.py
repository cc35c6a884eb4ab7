"""Promise: the files of a cache take no memory of the page cache, unless that is the setting."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import random
from pathlib import Path

import pytest

from strandline.platform.direct_file import DIRECT_BLOCK, OsDirectFile
from strandline.platform.disk import OsDisk
from strandline.reservoir.cache.cache import FileCache
from strandline.reservoir.compaction import fetch
from strandline.reservoir.page_reader import PageReader
from strandline.testing.sim_objects import SimObjects
from tests.unit.reservoir.cached_files import StoredFile, made, stored

PAGES = 20_000
BYTES_MAX = 64 * 1024 * 1024


def resident_bytes(folder: Path) -> int:
    """What the page cache holds of the files in a folder."""
    return sum(_resident(path) for path in folder.iterdir() if path.stat().st_size)


def _resident(path: Path) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    with path.open("rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    pages = (ctypes.c_ubyte * -(-len(mapping) // mmap.PAGESIZE))()
    start = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    assert libc.mincore(start, len(mapping), pages) == 0
    return sum(page & 1 for page in pages) * mmap.PAGESIZE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """On a file system that can drop what it has cached."""
    probe = tmp_path / "probe"
    probe.write_bytes(bytes(4 * DIRECT_BLOCK))
    file = OsDirectFile(str(probe), writable=True, direct=False)
    file.write(0, [bytes(4 * DIRECT_BLOCK)])
    file.close()
    if _resident(probe):
        pytest.skip("this file system is memory itself")
    return tmp_path / "cache"


@pytest.fixture
def without_direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that refuses ``O_DIRECT``."""
    real = os.open

    def refusing(path: str, flags: int, *rest: int) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", refusing)


def use(folder: Path, *, direct: bool) -> list[StoredFile]:
    """Write a file into a cache, download another, read pages of both, whole files too."""
    objects = SimObjects()
    files = [made(1, PAGES), stored(objects, 2, PAGES)]
    cache = FileCache(str(folder), OsDisk(), objects, bytes_max=BYTES_MAX, direct=direct)
    cache.add(files[0].ref, [files[0].data])
    reader = PageReader(objects, cache)
    rng = random.Random(1)
    for number in rng.sample(range(PAGES), 300):
        for file in files:
            assert reader.read(*file.page(number)) == file.content(number)
    for file in files:
        assert fetch(objects, cache, file.ref) == file.data
    assert cache.statistics().downloads == 1
    assert cache.statistics().failures == 0
    cache.close()
    return files


def test_files_of_a_cache_are_not_in_the_page_cache(folder: Path):
    use(folder, direct=True)

    assert resident_bytes(folder) == 0


@pytest.mark.usefixtures("without_direct")
def test_without_direct_io_the_page_cache_drops_them(folder: Path):
    use(folder, direct=True)

    assert resident_bytes(folder) == 0


def test_with_the_setting_off_the_page_cache_has_them(folder: Path):
    files = use(folder, direct=False)

    assert resident_bytes(folder) >= sum(file.ref.size for file in files)


def test_a_cache_is_kept_when_the_setting_changes(folder: Path):
    objects = SimObjects()
    file = stored(objects, 1)

    for direct in (True, False, True):
        cache = FileCache(str(folder), OsDisk(), objects, bytes_max=BYTES_MAX, direct=direct)
        cache.adopt([file.ref])
        assert cache.open(file.ref).pread(file.ref.size, 0) == file.data
        assert cache.statistics().bytes == file.ref.size
        cache.close()

    assert objects.calls["get_ranges"] == 1
