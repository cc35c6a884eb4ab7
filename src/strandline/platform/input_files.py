"""Finds input files of users by path, folder, pattern or url, and opens them for Arrow.

    orders.csv, data/, data/*.parquet, data/**/*.json    on this machine, with any names
    s3://bucket/data/, gs://bucket/data/*.csv, …         in an object store, through ``Objects``

A folder selects all files below it, in the order of names. Names there that begin with ``_`` or
``.`` (``_SUCCESS``, ``.crc``) are metadata of other programs and are skipped. A folder named
``day=2026-11-16`` adds a column to all rows below it, as in Hive, Spark and DuckDB.
"""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import msgspec
from pyarrow import fs

from strandline.errors import Invalid, NotFound, ObjectStoreDenied, StrandlineError, Unavailable
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.arrow_fs import file_system
from strandline.platform.objectstore.cloud import names_at, open_objects
from strandline.platform.objectstore.protocol import Objects, is_key

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_WILDCARDS = "*?["


class SourceFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file and its state at the time it was found."""

    url: str
    """Its absolute path, or its url in an object store."""
    size: int
    version: str
    """Its ETag or modification time: distinguishes it from another file of the same name."""
    folders: tuple[tuple[str, str | None], ...] = ()
    """Columns from the names of its folders."""


def find_sources(locations: Sequence[str]) -> list[SourceFile]:
    """The files that these paths, folders, patterns and urls select, each once, in order."""
    files: dict[str, SourceFile] = {}
    for location in locations:
        before = len(files)
        matches = list(_in_object_store(location) if _is_url(location) else _on_disk(location))
        for file in matches:
            files.setdefault(file.url, file)
        if len(files) == before and not matches:
            raise Invalid(f"there are no files at {location}: check the path or pattern")
    return list(files.values())


def open_source(file: SourceFile) -> Any:
    """The file for Arrow: ``read``, ``seek``, ``size``. It must be unchanged since it was found."""
    try:
        if _is_url(file.url):
            base, key = _split(file.url)
            system, prefix = file_system(_objects(base))
            opened = system.open_input_file(prefix + key)
        else:
            opened = fs.LocalFileSystem().open_input_file(file.url)
    except StrandlineError:
        raise
    except FileNotFoundError:
        raise NotFound(f"{file.url} no longer exists: it did when the work was planned") from None
    except OSError as error:
        raise Unavailable(f"{file.url} cannot be read ({error})") from error
    if opened.size() != file.size:
        opened.close()
        raise Invalid(f"{file.url} has changed since the work was planned: start again")
    return opened


def _is_url(location: str) -> bool:
    return "://" in location and not location.startswith("file://")


def _on_disk(location: str) -> Iterator[SourceFile]:
    path = os.path.abspath(location.removeprefix("file://"))
    disk = OsDisk()
    try:
        if disk.is_dir(path):
            yield from _below(disk, path, path)
        elif disk.exists(path):
            yield _file(disk, path, path)
        else:
            root = _folder_before_wildcards(path)
            for match in sorted(glob.glob(path, recursive=True)):
                if _is_metadata(os.path.relpath(match, root)):
                    continue
                yield from (
                    _below(disk, root, match) if disk.is_dir(match) else [_file(disk, match, root)]
                )
    except PermissionError as error:
        raise ObjectStoreDenied(
            f"{error.filename} is not readable: check its permissions"
        ) from error


def _below(disk: OsDisk, root: str, folder: str) -> Iterator[SourceFile]:
    for name in sorted(disk.list_dir(folder)):
        path = f"{folder}/{name}"
        if name.startswith(("_", ".")):
            continue
        if disk.is_dir(path):
            yield from _below(disk, root, path)
        else:
            yield _file(disk, path, root)


def _file(disk: OsDisk, path: str, root: str) -> SourceFile:
    file = disk.open_read(path)
    try:
        size = file.size()
    finally:
        file.close()
    version = str(disk.modified_us(path))
    folders = _columns(os.path.relpath(path, root)) if path != root else ()
    return SourceFile(url=path, size=size, version=version, folders=folders)


def _in_object_store(location: str) -> Iterator[SourceFile]:
    base, key = _split(location)
    objects = _objects(base)
    if not any(wildcard in key for wildcard in _WILDCARDS):
        folder = key.strip("/")
        if folder and not key.endswith("/"):
            try:
                info = objects.head(folder)
            except NotFound:
                pass
            else:
                yield _object(base, info.key, info.size, info.etag or str(info.modified_us), "")
                return
        pattern = f"{folder}/**" if folder else "**"
    else:
        folder = _folder_before_wildcards(f"/{key}").strip("/")
        pattern = key
    for name in names_at(base, folder):
        relative = name.removeprefix(f"{folder}/")
        if not is_key(name) and _matches(name, pattern) and not _is_metadata(relative):
            raise Invalid(
                f"{base}/{name} has an unsupported name: rename it to letters, digits "
                "and -_.=, or select the other files with a pattern"
            )
    for info in objects.list(folder):
        if _matches(info.key, pattern) and not _is_metadata(info.key.removeprefix(f"{folder}/")):
            version = info.etag or str(info.modified_us)
            yield _object(base, info.key, info.size, version, folder)


def _object(base: str, key: str, size: int, version: str, root: str) -> SourceFile:
    relative = key.removeprefix(f"{root}/") if root else key
    folders = _columns(relative) if relative != key or not root else ()
    return SourceFile(url=f"{base}/{key}", size=size, version=version, folders=folders)


def _split(url: str) -> tuple[str, str]:
    """The bucket url and the key."""
    scheme, _, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    return f"{scheme}://{bucket}", key


@lru_cache(maxsize=8)
def _objects(base: str) -> Objects:
    return open_objects(base)


def _folder_before_wildcards(path: str) -> str:
    """The folder before the first component of a path that contains a wildcard."""
    parts = path.split("/")
    first = next(
        (index for index, part in enumerate(parts) if any(s in part for s in _WILDCARDS)), -1
    )
    return "/".join(parts[:first]) or "/"


def _matches(name: str, pattern: str) -> bool:
    """Whether a name matches a pattern, folder by folder; ``**`` matches any number of folders."""
    if not pattern:
        return not name
    first, _, rest = pattern.partition("/")
    if first == "**":
        if not rest:
            return True
        parts = name.split("/")
        return any(_matches("/".join(parts[index:]), rest) for index in range(len(parts)))
    head, _, tail = name.partition("/")
    if not fnmatch.fnmatchcase(head, first):
        return False
    return _matches(tail, rest) if rest else True  # a folder selects the files below it


def _is_metadata(relative: str) -> bool:
    return any(part.startswith(("_", ".")) for part in relative.split("/"))


def _columns(relative: str) -> tuple[tuple[str, str | None], ...]:
    """Columns from the folders of a path: ``day=2026-11-16/hour=08/file``."""
    columns = []
    for folder in relative.split("/")[:-1]:
        name, equals, value = folder.partition("=")
        if equals and name:
            plain = unquote(value)
            columns.append((unquote(name), None if plain == HIVE_NULL else plain))
    return tuple(columns)
