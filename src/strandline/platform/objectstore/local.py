"""A local folder as an object store that survives power losses.

    <folder>/<key>               an object
    <folder>/.aside/<id>/LOCK    locked while a writer runs
    <folder>/.aside/<id>/<n>     its objects that are not committed yet

An object is written to a temporary file, synced, and given its name in one step: by a link, which
fails when the name is taken (``create``), or by a rename (``put``); then its directory is synced.
So a name never shows a partial object, exactly one of several creators succeeds, and an
acknowledged object survives a power loss. (The local store of the library that ``cloud.py`` uses
syncs nothing.)

A creator that finds the name taken syncs its directory before it reports that: no caller acts on an
object that a power loss could still remove. A failed sync of bytes discards that file; the next
attempt writes a new one.

The next writer removes temporary files of ended writers; the lock shows which writers still run. A
folder that does not exist is an empty store, and the first write creates it.

Folders stay when their last object is deleted, until ``remove_folder``. A folder is removed only
while it is empty, which the file system checks in one step. A writer that finds the folder of its
object removed creates it again before the object gets its name. A folder that is the store of a
running writer is not removed, because that writer relies on folders that it has synced.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from strandline.errors import (
    DiskFull,
    Invalid,
    NotFound,
    ObjectStoreDenied,
    StrandlineError,
    Unavailable,
)
from strandline.platform.disk import Buffer, Disk, DurableFile, Lock, OsDisk, ReadFile
from strandline.platform.objectstore.protocol import (
    Created,
    ObjectInfo,
    check_key,
    check_own_object,
    check_prefix,
    check_ranges,
    check_writer,
    chunks_of,
    is_key,
    too_short,
)
from strandline.platform.system_errors import advice

ASIDE = ".aside"
LOCK = "LOCK"
FOLDERS_KNOWN_MAX = 10_000
FOLDER_TRIES = 16
"""How often a folder is created again when other processes remove it at the same time."""


class FolderObjects:
    """Objects as files of a folder. Safe from many threads and processes."""

    def __init__(self, folder: str, disk: Disk) -> None:
        self.name = folder
        self._folder = folder.rstrip("/") or "/"
        self._disk = disk
        self._lock = threading.Lock()
        self._aside: str | None = None
        self._own_lock: Lock | None = None
        self._numbers = itertools.count()
        self._synced_folders: set[str] = set()

    @property
    def real_folder(self) -> str | None:
        """The folder, for programs that open the files; None on a simulated disk."""
        return self._folder if isinstance(self._disk, OsDisk) else None

    def create(self, key: str, data: Buffer, writer: str | None = None) -> Created:
        check_writer(key, data, writer)
        with self._writing(key):
            file = self._begin(key)
            try:
                file.write([data])
                self._commit(key, file.commit_new)
                return Created(None, recognised=False)
            except FileExistsError:
                if self._disk.is_dir(self._path(key)):
                    raise
                self._disk.sync_dir(_parent(self._path(key)))
            finally:
                file.abandon()
        return check_own_object(self, key, data)

    def put(self, key: str, data: Buffer) -> int:
        return self.put_stream(key, [data])

    def put_file(self, key: str, file: ReadFile) -> int:
        return self.put_stream(key, chunks_of(file))

    def put_stream(self, key: str, chunks: Iterable[Buffer]) -> int:
        size = 0
        with self._writing(key):
            file = self._begin(key)
        try:
            for chunk in chunks:
                size += len(chunk)
                with self._writing(key):
                    file.write([chunk])
            with self._writing(key):
                self._commit(key, file.commit)
        finally:
            with contextlib.suppress(OSError):  # the next writer removes a file that stays
                file.abandon()
        return size

    def get(self, key: str) -> bytes:
        with self._reading(key):
            return self._disk.read(self._path(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.get_ranges(key, [(start, length)])[0]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        check_ranges(key, ranges)
        with self._reading(key):
            file = self._disk.open_read(self._path(key))
            try:
                return [_read(file, key, start, length) for start, length in ranges]
            finally:
                file.close()

    def get_range_into(self, key: str, start: int, target: memoryview) -> None:
        """Like ``get_range``, into the caller's memory: for a folder this saves a copy."""
        check_ranges(key, [(start, len(target))])
        with self._reading(key):
            file = self._disk.open_read(self._path(key))
            try:
                if file.pread_into(target, start) < len(target):
                    raise too_short(key, start, len(target), file.size())
            finally:
                file.close()

    def head(self, key: str) -> ObjectInfo:
        with self._reading(key):
            return self._info(key)

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[ObjectInfo]:
        return self._walk(check_prefix(prefix), start_after or "")

    def delete(self, keys: Iterable[str]) -> None:
        parents = set()
        for key in keys:
            path = self._path(key)
            with self._writing(key):
                if not self._disk.is_dir(path) and self._disk.exists(path):
                    self._disk.remove(path)
                    parents.add(_parent(path))
        for folder in sorted(parents):
            with self._writing(folder):
                self._disk.sync_dir(folder)

    def remove_folder(self, prefix: str) -> bool:
        """Remove the folder of a prefix and those below it that hold no object; returns whether
        all of them were removed. Objects that are created at the same time stay, and so does a
        folder that is the store of a running writer."""
        path = f"{self._folder}/{check_prefix(prefix)}"
        with self._writing(prefix):
            if not self._disk.is_dir(path) or not self._remove_empty(path):
                return False
            self._disk.sync_dir(_parent(path))
        return True

    def close(self) -> None:
        """Remove temporary files and release the lock. A later write takes a new lock."""
        with self._lock:
            self._synced_folders.clear()  # without our lock other processes may remove them
            aside, own_lock, self._aside, self._own_lock = self._aside, self._own_lock, None, None
            if aside is not None and own_lock is not None:
                with contextlib.suppress(OSError):  # the next writer cleans up after us
                    _remove_aside(self._disk, aside, own_lock)

    def _begin(self, key: str) -> DurableFile:
        path = self._path(key)
        aside = self._own_aside()
        self._make_folder(_parent(path))
        return self._disk.create(path, aside=f"{aside}/{next(self._numbers)}")

    def _make_folder(self, folder: str) -> None:
        if folder not in self._synced_folders:
            for attempt in range(FOLDER_TRIES):
                try:
                    self._disk.make_dirs(folder)
                    break
                except FileNotFoundError:  # its parent was removed before it was created
                    if attempt == FOLDER_TRIES - 1:
                        raise
            if len(self._synced_folders) >= FOLDERS_KNOWN_MAX:
                self._synced_folders.clear()
            self._synced_folders.add(folder)

    def _commit(self, key: str, commit: Callable[[], None]) -> None:
        """Give an object its name; creates its folder again if another process removed it."""
        folder = _parent(self._path(key))
        for _ in range(FOLDER_TRIES - 1):
            try:
                return commit()
            except FileNotFoundError:
                self._synced_folders.discard(folder)
                self._make_folder(folder)
        commit()

    def _remove_empty(self, path: str) -> bool:
        """Remove the folder and all below it if they are empty; returns whether they are gone."""
        names = self._disk.list_dir(path)
        if ASIDE in names and not self._clean(f"{path}/{ASIDE}"):
            return False
        removed = [
            self._disk.is_dir(f"{path}/{name}") and self._remove_empty(f"{path}/{name}")
            for name in names
        ]
        if not all(removed):
            return False
        try:
            self._disk.remove(path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return False  # an object was created at the same time
        self._synced_folders.discard(path)
        return True

    def _own_aside(self) -> str:
        with self._lock:
            if self._aside is None:
                self._clean(f"{self._folder}/{ASIDE}")
                while self._own_lock is None:
                    aside = f"{self._folder}/{ASIDE}/{self._disk.random_id().hex()}"
                    # None or gone: another writer removed the new folder as that of an ended one.
                    with contextlib.suppress(FileNotFoundError):
                        self._disk.make_dirs(aside)
                        self._own_lock = self._disk.lock(f"{aside}/{LOCK}", b"")
                    self._aside = aside
            assert self._aside is not None
            return self._aside

    def _clean(self, asides: str) -> bool:
        """Remove files of ended writers; returns whether no running writer has any."""
        for name in self._disk.list_dir(asides):
            aside = f"{asides}/{name}"
            with contextlib.suppress(OSError):  # another writer cleans at the same time
                ended_lock = self._disk.lock(f"{aside}/{LOCK}", b"")
                if ended_lock is not None:
                    _remove_aside(self._disk, aside, ended_lock)
        return not self._disk.list_dir(asides)

    def _walk(self, folder: str, after: str) -> Iterator[ObjectInfo]:
        with self._reading(folder):
            path = f"{self._folder}/{folder}" if folder else self._folder
            entries = sorted(self._entries(path))
        for entry in entries:
            key = f"{folder}/{entry}" if folder else entry
            if key.endswith("/"):
                if not after.startswith(key) and key < after:
                    continue  # every key of this folder sorts before
                yield from self._walk(key[:-1], after)
            elif key > after:
                try:
                    with self._reading(key):
                        info = self._info(key)
                except NotFound:
                    continue  # deleted since it was listed
                yield info

    def _entries(self, path: str) -> Iterator[str]:
        """The names in a folder, those of folders with a slash: so they sort as keys do."""
        try:
            names = self._disk.list_dir(path)
        except NotADirectoryError:
            return
        for name in names:
            if is_key(name):
                yield f"{name}/" if self._disk.is_dir(f"{path}/{name}") else name

    def _info(self, key: str) -> ObjectInfo:
        path = self._path(key)
        file = self._disk.open_read(path)
        try:
            if self._disk.is_dir(path):
                raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
            return ObjectInfo(key, file.size(), self._disk.modified_us(path), None)
        finally:
            file.close()

    def _path(self, key: str) -> str:
        return f"{self._folder}/{check_key(key)}"

    @contextlib.contextmanager
    def _reading(self, key: str) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise NotFound(f"object not found: {key} in {self.name}") from None
        except OSError as error:
            raise _failure(error, f"{self.name}/{key}") from error

    @contextlib.contextmanager
    def _writing(self, key: str) -> Iterator[None]:
        try:
            yield
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            raise Invalid(
                f"{key} in {self.name} is not possible: a key is never a folder of another key"
            ) from None
        except OSError as error:
            raise _failure(error, f"{self.name}/{key}") from error


def _read(file: ReadFile, key: str, start: int, length: int) -> bytes:
    data = file.pread(length, start)
    if len(data) < length:
        raise too_short(key, start, length, file.size())
    return data


def _remove_aside(disk: Disk, aside: str, lock: Lock) -> None:
    """Remove the folder of a writer whose lock this process holds."""
    try:
        for name in disk.list_dir(aside):
            if name != LOCK:
                disk.remove(f"{aside}/{name}")
        disk.remove(f"{aside}/{LOCK}")
    finally:
        lock.release()
    disk.remove(aside)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _failure(error: OSError, where: str) -> StrandlineError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"no space left for {where}: free space, then try again")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return ObjectStoreDenied(
            f"{where} is not accessible ({error.strerror}): check its permissions"
        )
    remedy = advice(error, "check the disk, then try again")
    return Unavailable(f"{where} cannot be accessed ({error}): {remedy}")
