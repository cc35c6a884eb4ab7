"""Object stores as they are out there, and how one is opened from its url.

    s3://bucket/prefix       Amazon S3 and what speaks like it: Ceph, MinIO, R2
    az://container/prefix    Azure Blob Storage
    gs://bucket/prefix       Google Cloud Storage
    memory://                in this process, gone with it
    file:///folder, folder   a local folder (``local.py``)

Options are those of the library (obstore), by their short names: ``endpoint``, ``region``,
``access_key_id``, ``account_name``, ...; what is not given comes from the environment
(``AWS_ENDPOINT_URL``, ``AWS_ACCESS_KEY_ID``, ``AZURE_STORAGE_ACCOUNT_KEY``,
``GOOGLE_APPLICATION_CREDENTIALS``, ...). docs/guide/object-stores.md has the common ones.

What had to be known about the library, all of it seen on real sockets:

- It tells AlreadyExists for our own object when the reply of the first try was lost, and also for a
  409 that only means that two requests met. ``create`` reads back, and tries again when there is
  nothing. So its own repeating is off, but for the parts of a stream.
- A range that ends behind the object is answered with less, silently; so lengths are checked. One
  that begins there is an error, or a panic when it was joined with another; so we join them.
- A HEAD has no body: whether the bucket or the object is missing only a GET can tell.
- ETags come in quotes, which Ceph does not take back; they are removed.
- Deleting what is absent is an error at some stores and none at others.
- It sends no checksum headers of the newer kind unless asked to, which old gateways refuse; the
  body is signed, so it is checked on its way in all the same.
- Plain http must be allowed. It is, for addresses of this machine only.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import obstore
from obstore import store as stores
from obstore.exceptions import AlreadyExistsError

from strandline.config.settings import ObjectSettings
from strandline.errors import (
    Denied,
    Invalid,
    NoBucket,
    NotFound,
    Unavailable,
    UnfitStore,
    Unreachable,
)
from strandline.platform.disk import Buffer, Disk, OsDisk, ReadFile
from strandline.platform.objectstore.errors import FAILURES, failure, is_out_of_range
from strandline.platform.objectstore.local import FolderObjects
from strandline.platform.objectstore.protocol import (
    CHUNK_SIZE,
    Created,
    Info,
    Objects,
    check_key,
    check_prefix,
    check_ranges,
    check_writer,
    chunks_of,
    is_key,
    recognise,
    too_short,
)
from strandline.platform.objectstore.retrying import Retrying

PARTS_AT_ONCE = 4  # of CHUNK_SIZE each: what a stream may hold in memory
LISTED_AT_ONCE = 1000
DELETED_AT_ONCE = 1000
NEAR = 1024 * 1024  # ranges closer than this share a request
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")


def open_objects(
    url: str,
    *,
    options: Mapping[str, str] | None = None,
    settings: ObjectSettings | None = None,
    disk: Disk | None = None,
) -> Objects:
    """The store at the url. Nothing is asked of it yet: ``probe`` does that."""
    patience = settings or ObjectSettings()
    scheme, separator, rest = url.partition("://")
    if not separator or scheme == "file":
        folder = rest if separator else url
        if separator and not folder.startswith("/"):
            raise Invalid(f"{url!r} names no folder: write file:///folder with three slashes")
        return FolderObjects(os.path.abspath(folder), disk or OsDisk())
    if scheme == "memory":
        memory = stores.MemoryStore()
        return StoreObjects(url, memory, memory)
    bucket, _, prefix = rest.partition("/")
    make = _MAKERS.get(scheme)
    if make is None or not bucket:
        known = ", ".join(f"{name}://bucket/prefix" for name in _MAKERS)
        raise Invalid(f"{url!r} names no object store: use {known}, memory:// or a folder")
    inside = check_prefix(prefix.strip("/"))
    once, again = (
        _make(make, url, bucket, inside, options or {}, patience, tries=tries)
        for tries in (1, patience.attempts_max)
    )
    return Retrying(StoreObjects(url, once, again), patience)


def names_at(url: str, folder: str) -> Iterator[str]:
    """Every name in a folder of a bucket and below, also those that are no keys; of nobody's disk.

    ``Objects`` lists what is ours. Whoever reads what others have put there wants to know of all.
    """
    scheme, _, bucket = url.partition("://")
    make = _MAKERS.get(scheme)
    if make is None:
        return
    patience = ObjectSettings()
    store = _make(make, url, bucket, "", {}, patience, tries=patience.attempts_max)
    try:
        for page in obstore.list(store, folder or None, chunk_size=LISTED_AT_ONCE):
            yield from (meta["path"] for meta in page)
    except FAILURES as error:
        raise failure(error, folder, url) from error


class StoreObjects:
    """A store of the library, each request made once. Safe from many threads."""

    def __init__(
        self, name: str, once: stores.ObjectStore, parts_again: stores.ObjectStore
    ) -> None:
        self.name = name
        self._store = once
        self._parts_again = parts_again

    def create(self, key: str, data: Buffer, writer: str | None = None) -> Created:
        check_key(key)
        check_writer(key, data, writer)
        try:
            with self._failures(key):
                result = obstore.put(self._store, key, data, mode="create")
        except AlreadyExistsError:
            return recognise(self, key, data)
        except NotFound as error:  # of nothing that the caller could look for
            raise Unreachable(str(error)) from error
        return Created(_unquoted(result["e_tag"]), recognised=False)

    def put(self, key: str, data: Buffer) -> int:
        check_key(key)
        with self._failures(key):
            obstore.put(
                self._store, key, data, chunk_size=CHUNK_SIZE, max_concurrency=PARTS_AT_ONCE
            )
        return len(data)

    def put_file(self, key: str, file: ReadFile) -> int:
        return self.put_stream(key, chunks_of(file))

    def put_stream(self, key: str, chunks: Iterable[Buffer]) -> int:
        check_key(key)
        source = _Counted(chunks)
        try:
            with self._failures(key, source):
                obstore.put(
                    self._parts_again,
                    key,
                    source,
                    chunk_size=CHUNK_SIZE,
                    max_concurrency=PARTS_AT_ONCE,
                )
        except (Denied, NoBucket):
            raise
        except (Unavailable, NotFound):
            # Perhaps the upload was ended by a request whose reply was lost, and is not known any
            # more. The name is ours alone, so an object of this size is ours.
            if not source.ended or not self._has_size(key, source.size):
                raise
        return source.size

    def get(self, key: str) -> bytes:
        check_key(key)
        with self._failures(key):
            answer = obstore.get(self._store, key)
            data = bytes(answer.bytes())
        if len(data) != answer.meta["size"]:
            raise Unreachable(f"{key} in {self.name} came incomplete: try again")
        return data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.get_ranges(key, [(start, length)])[0]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        check_key(key)
        check_ranges(key, ranges)
        joined = _joined(ranges)
        if not joined:
            self.head(key)
            return [b""] * len(ranges)
        try:
            with self._failures(key):
                pieces = obstore.get_ranges(
                    self._store,
                    key,
                    starts=[start for start, _ in joined],
                    lengths=[length for _, length in joined],
                    coalesce=0,
                )
        except _OutOfRange:
            pieces = []
        if [len(piece) for piece in pieces] != [length for _, length in joined]:
            self._explain_short(key, joined)
        found = [
            (start, memoryview(piece)) for (start, _), piece in zip(joined, pieces, strict=True)
        ]
        return [_cut(found, start, length) for start, length in ranges]

    def head(self, key: str) -> Info:
        check_key(key)
        try:
            with self._failures(key):
                return _info(obstore.head(self._store, key))
        except NotFound:
            with self._failures(key):  # tells a missing bucket from a missing object
                return _info(obstore.get(self._store, key).meta)

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[Info]:
        folder = check_prefix(prefix)
        return self._listing(folder, start_after)

    def delete(self, keys: Iterable[str]) -> None:
        doomed = [check_key(key) for key in keys]
        for first in range(0, len(doomed), DELETED_AT_ONCE):
            some = doomed[first : first + DELETED_AT_ONCE]
            try:
                with self._failures(some[0]):
                    obstore.delete(self._store, some)
            except NotFound:
                for key in some:
                    with contextlib.suppress(NotFound), self._failures(key):
                        obstore.delete(self._store, key)

    def close(self) -> None:
        """Connections close with the last reference."""

    def _listing(self, folder: str, after: str | None) -> Iterator[Info]:
        last = ""
        with self._failures(folder):
            pages = obstore.list(
                self._store, folder or None, offset=after, chunk_size=LISTED_AT_ONCE
            )
        while True:
            with self._failures(folder):
                page = next(pages, None)
            if page is None:
                return
            for meta in page:
                if not is_key(meta["path"]) or meta["path"] <= (after or ""):
                    continue  # Azure begins with that key, its emulator with the first of all
                if meta["path"] <= last:
                    raise UnfitStore(f"{self.name} does not list its objects in order")
                last = meta["path"]
                yield _info(meta)

    def _has_size(self, key: str, size: int) -> bool:
        with contextlib.suppress(NotFound):
            return self.head(key).size == size
        return False

    def _explain_short(self, key: str, ranges: Sequence[tuple[int, int]]) -> None:
        size = self.head(key).size
        for start, length in ranges:
            if start + length > size:
                raise too_short(key, start, length, size)
        raise Unreachable(f"a range of {key} in {self.name} came incomplete: try again")

    @contextlib.contextmanager
    def _failures(self, key: str, source: _Counted | None = None) -> Iterator[None]:
        try:
            yield
        except AlreadyExistsError:
            raise
        except FAILURES as error:
            if source is not None and source.failure is error:
                raise
            if is_out_of_range(error):
                raise _OutOfRange from None
            raise failure(error, key, self.name) from error


class _OutOfRange(Exception):  # never leaves this module
    pass


class _Counted:
    """Chunks on their way into the library: counted, and their own errors told from its."""

    def __init__(self, chunks: Iterable[Buffer]) -> None:
        self._chunks = iter(chunks)
        self.size = 0
        self.ended = False
        self.failure: BaseException | None = None

    def __iter__(self) -> _Counted:
        return self

    def __next__(self) -> Buffer:
        try:
            chunk = next(self._chunks)
        except StopIteration:
            self.ended = True
            raise
        except BaseException as error:
            self.failure = error
            raise
        self.size += len(chunk)
        return chunk


def _make(
    make: Callable[..., stores.ObjectStore],
    url: str,
    bucket: str,
    prefix: str,
    options: Mapping[str, str],
    patience: ObjectSettings,
    *,
    tries: int,
) -> stores.ObjectStore:
    client: dict[str, Any] = {
        "timeout": timedelta(seconds=patience.request_s_max),
        "connect_timeout": timedelta(seconds=patience.connect_s_max),
    }
    if _is_plain_http_here(options):
        client["allow_http"] = True
    retries = {
        "max_retries": tries - 1,
        "retry_timeout": timedelta(seconds=patience.retry_s_max),
        "backoff": {"init_backoff": timedelta(seconds=patience.delay_s_first)},
    }
    try:
        return make(
            bucket,
            prefix=prefix or None,
            config=dict(options),
            client_options=client,
            retry_config=retries,
        )
    except FAILURES as error:
        raise Invalid(f"{url} cannot be opened: {str(error).partition(chr(10))[0]}") from error


def _is_plain_http_here(options: Mapping[str, str]) -> bool:
    environment = next((os.environ[name] for name in ENDPOINTS if os.environ.get(name)), "")
    endpoint = urlsplit(options.get("endpoint", environment))
    if endpoint.scheme != "http":
        return False
    try:
        return ipaddress.ip_address(endpoint.hostname or "").is_loopback
    except ValueError:
        return endpoint.hostname == "localhost"


def _info(meta: Mapping[str, Any]) -> Info:
    modified_us = int(meta["last_modified"].timestamp() * 1_000_000)
    return Info(meta["path"], meta["size"], modified_us, _unquoted(meta["e_tag"]))


def _unquoted(etag: str | None) -> str | None:
    return None if etag is None else etag.strip('"')


def _joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The fewest ranges that hold all of these, but for those of no bytes."""
    joined: list[tuple[int, int]] = []
    for start, length in sorted(each for each in ranges if each[1]):
        if joined and start - sum(joined[-1]) <= NEAR:
            first, _ = joined[-1]
            joined[-1] = (first, max(sum(joined[-1]), start + length) - first)
        else:
            joined.append((start, length))
    return joined


def _cut(pieces: Sequence[tuple[int, memoryview]], start: int, length: int) -> bytes:
    if not length:
        return b""
    first, piece = next(each for each in reversed(pieces) if each[0] <= start)
    return bytes(piece[start - first : start - first + length])


_MAKERS: dict[str, Callable[..., stores.ObjectStore]] = {
    "s3": stores.S3Store,
    "az": stores.AzureStore,
    "gs": stores.GCSStore,
}
