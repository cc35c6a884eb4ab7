"""A few data files in an object store, their pages, and a cache over them."""

from __future__ import annotations

from dataclasses import dataclass

from strandline.platform.disk import Disk
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir import object_keys
from strandline.reservoir.cache.cache import FileCache
from strandline.reservoir.data_files import data_file_codec
from strandline.reservoir.data_files.data_file_table import FileRef
from strandline.reservoir.data_files.page_table import PageLocation
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects

FOLDER = "/cache/reservoir"
PAGE_SIZE = 100
DEADLINE_S = 30.0


@dataclass(frozen=True)
class StoredFile:
    """A data file of equal pages; page ids are its id times 1000, and on."""

    ref: FileRef
    data: bytes

    def page(self, number: int) -> tuple[int, PageLocation, FileRef]:
        """What a page reader asks for."""
        page_id = self.ref.file_id % 1000 * 1000 + number
        checksum = data_file_codec.page_checksum(self.content(number), page_id, self.ref.file_id)
        return (
            page_id,
            PageLocation(self.ref.file_id, number * PAGE_SIZE, PAGE_SIZE, checksum),
            self.ref,
        )

    def content(self, number: int) -> bytes:
        return self.data[number * PAGE_SIZE :][:PAGE_SIZE]

    @property
    def key(self) -> str:
        return object_keys.file_key(self.ref.file_id)

    @property
    def path(self) -> str:
        """In a cache, below its folder."""
        return f"{FOLDER}/{self.ref.file_id:016x}"


def made(file_id: int, pages: int = 10) -> StoredFile:
    """A file that is nowhere yet."""
    data = b"".join(b"%049d %049d\n" % (file_id, number) for number in range(pages))
    return StoredFile(FileRef(file_id, len(data), data_file_codec.crc64(data)), data)


def stored(objects: Objects, file_id: int, pages: int = 10) -> StoredFile:
    """A file in the object store, with bytes behind it that are not part of it."""
    file = made(file_id, pages)
    objects.put(file.key, file.data + b"what a checkpoint says")
    return file


def flipped(data: bytes, offset: int) -> bytes:
    return data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :]


def damage(disk: Disk, file: StoredFile, offset: int = 0) -> None:
    """Flip a bit of the cached copy."""
    local = disk.open_log(file.path)
    local.write(offset, [flipped(local.pread(1, offset), 0)])
    local.close()


def damage_object(objects: SimObjects, file: StoredFile, offset: int = 0) -> None:
    """Flip a bit of the object itself."""
    objects.put(file.key, flipped(objects.snapshot()[file.key].data, offset))


class World:
    """An object store, a local disk, and a cache for so many files of ten pages."""

    def __init__(self, *, files_max: float = 4, downloads_max: int = 2) -> None:
        self.objects = SimObjects()
        self.disk = SimDisk()
        self.downloads_max = downloads_max
        self.bytes_max = int(files_max * 10 * PAGE_SIZE)
        self.cache = self.opened()

    def opened(self) -> FileCache:
        """A cache on the folder, as the next process has it."""
        return FileCache(
            FOLDER,
            self.disk,
            self.objects,
            bytes_max=self.bytes_max,
            downloads_max=self.downloads_max,
        )

    def reopened(self, *files: StoredFile) -> FileCache:
        self.cache.close()
        self.cache = self.opened()
        self.cache.adopt(file.ref for file in files)
        return self.cache

    def stored(self, file_id: int, pages: int = 10) -> StoredFile:
        return stored(self.objects, file_id, pages)

    def names(self) -> list[str]:
        """Files in the folder."""
        return [name for name in self.disk.list_dir(FOLDER) if name != "LOCK"]

    def ids(self) -> list[int]:
        """Whole files in the folder."""
        return [int(name, 16) for name in self.names()]

    @property
    def gets(self) -> int:
        """Requests for bytes."""
        return self.objects.calls["get_ranges"] + self.objects.calls["get"]
