"""An object store as an Arrow file system, so that Arrow datasets and readers can read from it.

A folder on the real disk is Arrow's own local file system. Every other store (S3, Azure, Google,
memory, the simulated one) is read through ``Objects``: with the same credentials, retries and
errors as Strandline itself, whatever stores Arrow was built with. Read-only.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyarrow import fs

from strandline.errors import NotFound
from strandline.platform.objectstore.local import FolderObjects
from strandline.platform.objectstore.protocol import Objects


def file_system(objects: Objects) -> tuple[Any, str]:
    """Arrow's file system for the store, and the prefix that makes a path of a key."""
    if isinstance(objects, FolderObjects) and objects.real_folder is not None:
        return fs.LocalFileSystem(), f"{objects.real_folder.rstrip('/')}/"
    return fs.PyFileSystem(_Handler(objects)), ""


class _Handler(fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """The file system methods that Arrow calls. Safe from many threads, like the store."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handler) and other._objects is self._objects

    def __hash__(self) -> int:
        return hash(id(self._objects))

    def get_type_name(self) -> str:
        return "strandline"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[Any]:
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: Any) -> list[Any]:
        listing = self._objects.list(selector.base_dir)
        return [fs.FileInfo(info.key, fs.FileType.File, size=info.size) for info in listing]

    def open_input_file(self, path: str) -> Any:
        return pa.PythonFile(_Source(self._objects, path), mode="r")

    def open_input_stream(self, path: str) -> Any:
        return self.open_input_file(path)

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: FBT001 - pyarrow's call
        raise _read_only(path)

    def delete_dir(self, path: str) -> None:
        raise _read_only(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:  # noqa: FBT001, FBT002 - pyarrow's call
        raise _read_only(path)

    def delete_root_dir_contents(self) -> None:
        raise _read_only("")

    def delete_file(self, path: str) -> None:
        raise _read_only(path)

    def move(self, src: str, dest: str) -> None:
        raise _read_only(src)

    def copy_file(self, src: str, dest: str) -> None:
        raise _read_only(src)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        raise _read_only(path)

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise _read_only(path)

    def _info(self, path: str) -> Any:
        try:
            return fs.FileInfo(path, fs.FileType.File, size=self._objects.head(path).size)
        except NotFound:
            return fs.FileInfo(path, fs.FileType.NotFound)


class _Source(io.RawIOBase):
    """An object as a file. Arrow calls from one thread at a time."""

    def __init__(self, objects: Objects, key: str) -> None:
        self._objects = objects
        self._key = key
        self._offset = 0
        try:
            self._size = objects.head(key).size
        except NotFound as error:
            raise FileNotFoundError(str(error)) from error

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        return self._size

    def tell(self) -> int:
        return self._offset

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._offset, os.SEEK_END: self._size}[whence]
        self._offset = base + offset
        return self._offset

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._offset)
        length = left if size is None or size < 0 else min(size, left)
        data = self._objects.get_range(self._key, self._offset, length) if length else b""
        self._offset += len(data)
        return data


def _read_only(path: str) -> OSError:
    return io.UnsupportedOperation(f"the lake is read-only here: {path!r} is not written")
