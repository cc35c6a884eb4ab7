"""Files that a user brings: found by path, folder, pattern or url, and opened for Arrow to read.

    orders.csv, data/, data/*.parquet, data/**/*.json    on this machine, with any names
    s3://bucket/data/, gs://bucket/data/*.csv, …         in an object store, through ``Objects``

A folder stands for all that is below it, in the order of names. What begins with ``_`` or ``.``
there is somebody's note (``_SUCCESS``, ``.crc``), not data. A folder that is called
``day=2026-11-16`` gives all rows below it a column, as Hive, Spark and DuckDB have it.
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

from strandline.errors import Denied, Invalid, NotFound, StrandlineError, Unavailable
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.arrow_fs import file_system
from strandline.platform.objectstore.cloud import names_at, open_objects
from strandline.platform.objectstore.protocol import Objects, is_key

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_SIGNS = "*?["


class SourceFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it was when it was found."""

    url: str
    """Its whole path, or where it is in an object store."""
    size: int
    version: str
    """Its ETag, or when it was changed: what tells it from another file of that name."""
    folders: tuple[tuple[str, str | None], ...] = ()
    """Columns that the names of its folders tell."""


def find_sources(given: Sequence[str]) -> list[SourceFile]:
    """The files that these paths, folders, patterns and urls stand for, each once, in order."""
    found: dict[str, SourceFile] = {}
    for place in given:
        before = len(found)
        there = list(_in_store(place) if _is_url(place) else _on_disk(place))
        for file in there:
            found.setdefault(file.url, file)
        if len(found) == before and not there:
            raise Invalid(f"there are no files at {place}: check the path or pattern")
    return list(found.values())


def open_source(file: SourceFile) -> Any:
    """The file for Arrow: ``read``, ``seek``, ``size``. It must be as it was when it was found."""
    try:
        if _is_url(file.url):
            base, key = _split(file.url)
            system, before = file_system(_objects(base))
            opened = system.open_input_file(before + key)
        else:
            opened = fs.LocalFileSystem().open_input_file(file.url)
    except StrandlineError:
        raise
    except FileNotFoundError:
        raise NotFound(f"{file.url} is gone: it was there when the work was planned") from None
    except OSError as error:
        raise Unavailable(f"{file.url} cannot be read ({error})") from error
    if opened.size() != file.size:
        opened.close()
        raise Invalid(f"{file.url} has changed since the work was planned: begin again")
    return opened


def _is_url(place: str) -> bool:
    return "://" in place and not place.startswith("file://")


def _on_disk(place: str) -> Iterator[SourceFile]:
    path = os.path.abspath(place.removeprefix("file://"))
    disk = OsDisk()
    try:
        if disk.is_dir(path):
            yield from _below(disk, path, path)
        elif disk.exists(path):
            yield _file(disk, path, path)
        else:
            root = _before_signs(path)
            for match in sorted(glob.glob(path, recursive=True)):
                if _is_note(os.path.relpath(match, root)):
                    continue
                yield from (
                    _below(disk, root, match) if disk.is_dir(match) else [_file(disk, match, root)]
                )
    except PermissionError as error:
        raise Denied(f"{error.filename} may not be read: check its rights") from error


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


def _in_store(place: str) -> Iterator[SourceFile]:
    base, key = _split(place)
    objects = _objects(base)
    if not any(sign in key for sign in _SIGNS):
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
        folder = _before_signs(f"/{key}").strip("/")
        pattern = key
    for name in names_at(base, folder):
        inside = name.removeprefix(f"{folder}/")
        if not is_key(name) and _fits(name, pattern) and not _is_note(inside):
            raise Invalid(
                f"{base}/{name} has a name that cannot be read here: rename it to letters, digits "
                "and -_.=, or name the others by a pattern"
            )
    for info in objects.list(folder):
        if _fits(info.key, pattern) and not _is_note(info.key.removeprefix(f"{folder}/")):
            version = info.etag or str(info.modified_us)
            yield _object(base, info.key, info.size, version, folder)


def _object(base: str, key: str, size: int, version: str, root: str) -> SourceFile:
    inside = key.removeprefix(f"{root}/") if root else key
    folders = _columns(inside) if inside != key or not root else ()
    return SourceFile(url=f"{base}/{key}", size=size, version=version, folders=folders)


def _split(url: str) -> tuple[str, str]:
    """The bucket, and what is behind it."""
    scheme, _, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    return f"{scheme}://{bucket}", key


@lru_cache(maxsize=8)
def _objects(base: str) -> Objects:
    return open_objects(base)


def _before_signs(path: str) -> str:
    """The folder in front of the first part of a path that is a pattern."""
    parts = path.split("/")
    first = next((at for at, part in enumerate(parts) if any(s in part for s in _SIGNS)), -1)
    return "/".join(parts[:first]) or "/"


def _fits(name: str, pattern: str) -> bool:
    """Whether a name is what a pattern says, folder by folder; ``**`` is any number of them."""
    if not pattern:
        return not name
    first, _, rest = pattern.partition("/")
    if first == "**":
        if not rest:
            return True
        parts = name.split("/")
        return any(_fits("/".join(parts[at:]), rest) for at in range(len(parts)))
    head, _, tail = name.partition("/")
    if not fnmatch.fnmatchcase(head, first):
        return False
    return _fits(tail, rest) if rest else True  # a folder stands for what is below it


def _is_note(inside: str) -> bool:
    return any(part.startswith(("_", ".")) for part in inside.split("/"))


def _columns(inside: str) -> tuple[tuple[str, str | None], ...]:
    """What the folders of a path tell: ``day=2026-11-16/hour=08/file``."""
    told = []
    for folder in inside.split("/")[:-1]:
        name, equals, value = folder.partition("=")
        if equals and name:
            plain = unquote(value)
            told.append((unquote(name), None if plain == HIVE_NULL else plain))
    return tuple(told)
