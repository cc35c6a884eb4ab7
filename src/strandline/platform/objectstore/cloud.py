"""Opens object stores by url, and implements the protocol over the obstore library.

    s3://bucket/prefix       Amazon S3 and compatible stores: Ceph, MinIO, R2
    az://container/prefix    Azure Blob Storage
    gs://bucket/prefix       Google Cloud Storage
    memory://                in this process, lost when it ends
    file:///folder, folder   a local folder (``local.py``)

Options are those of the library (obstore), by their short names: ``endpoint``, ``region``,
``access_key_id``, ``account_name``, ...; options that are not given come from the environment
(``AWS_ENDPOINT_URL``, ``AWS_ACCESS_KEY_ID``, ``AZURE_STORAGE_ACCOUNT_KEY``,
``GOOGLE_APPLICATION_CREDENTIALS``, ...). docs/guide/object-stores.md has the common ones.

Behaviour of the library that this code depends on, all of it observed on real sockets:

- It reports AlreadyExists for our own object when the first response was lost, and also for a 409
  that only signals that two requests collided. ``create`` reads the object back, and tries again
  when there is none. So the retries of the library are off, except for the parts of a stream.
- A range beyond the end of the object silently returns fewer bytes; so lengths are checked. One
  that begins there is an error, or a panic when it was coalesced: so ranges are coalesced here.
- A HEAD response has no body: only a GET shows whether the bucket or the object is missing.
- ETags come in quotes, which Ceph does not accept; the quotes are removed.
- Deleting an absent object is an error at some stores and none at others.
- It sends no checksum headers of the newer kind unless configured, which old gateways reject; the
  body is signed, so the store still verifies it.
- Plain http must be allowed. It is allowed for addresses of this machine only.
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
    BucketNotFound,
    Invalid,
    NotFound,
    ObjectStoreDenied,
    ObjectStoreUnreachable,
    Unavailable,
    UnsupportedObjectStore,
)
from strandline.platform.disk import Buffer, Disk, OsDisk, ReadFile
from strandline.platform.objectstore.errors import FAILURES, failure, is_out_of_range
from strandline.platform.objectstore.local import FolderObjects
from strandline.platform.objectstore.protocol import (
    CHUNK_SIZE,
    Created,
    ObjectInfo,
    Objects,
    check_key,
    check_own_object,
    check_prefix,
    check_ranges,
    check_writer,
    chunks_of,
    is_key,
    too_short,
)
from strandline.platform.objectstore.retrying import RetryingObjects

PARTS_CONCURRENT_MAX = 4  # of CHUNK_SIZE each: the memory limit of a stream
LIST_PAGE_SIZE = 1000
DELETE_BATCH_SIZE = 1000
COALESCE_GAP = 1024 * 1024  # ranges closer than this share a request
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")


def open_objects(
    url: str,
    *,
    options: Mapping[str, str] | None = None,
    settings: ObjectSettings | None = None,
    disk: Disk | None = None,
) -> Objects:
    """The store at the url. Sends no request: ``probe`` checks the store."""
    settings = settings or ObjectSettings()
    scheme, separator, rest = url.partition("://")
    if not separator or scheme == "file":
        folder = rest if separator else url
        if separator and not folder.startswith("/"):
            raise Invalid(f"{url!r} does not name a folder: use file:///folder with three slashes")
        return FolderObjects(os.path.abspath(folder), disk or OsDisk())
    if scheme == "memory":
        memory = stores.MemoryStore()
        return CloudObjects(url, memory, memory)
    bucket, _, prefix = rest.partition("/")
    constructor = _MAKERS.get(scheme)
    if constructor is None or not bucket:
        known = ", ".join(f"{name}://bucket/prefix" for name in _MAKERS)
        raise Invalid(f"{url!r} does not name an object store: use {known}, memory:// or a folder")
    key_prefix = check_prefix(prefix.strip("/"))
    once, with_retries = (
        _open_store(
            constructor, url, bucket, key_prefix, options or {}, settings, attempts=attempts
        )
        for attempts in (1, settings.attempts_max)
    )
    return RetryingObjects(CloudObjects(url, once, with_retries), settings)


def names_at(url: str, folder: str) -> Iterator[str]:
    """Every name in a folder of a bucket and below, also names that are not keys. No local disk.

    ``Objects`` lists valid keys only. A reader of files that others wrote needs all names.
    """
    scheme, _, bucket = url.partition("://")
    constructor = _MAKERS.get(scheme)
    if constructor is None:
        return
    settings = ObjectSettings()
    store = _open_store(constructor, url, bucket, "", {}, settings, attempts=settings.attempts_max)
    try:
        for page in obstore.list(store, folder or None, chunk_size=LIST_PAGE_SIZE):
            yield from (meta["path"] for meta in page)
    except FAILURES as error:
        raise failure(error, folder, url) from error


class CloudObjects:
    """A store of the library; each request is sent once. Safe from many threads."""

    def __init__(
        self, name: str, once: stores.ObjectStore, multipart_store: stores.ObjectStore
    ) -> None:
        self.name = name
        self._store = once
        self._multipart_store = multipart_store

    def create(self, key: str, data: Buffer, writer: str | None = None) -> Created:
        check_key(key)
        check_writer(key, data, writer)
        try:
            with self._failures(key):
                result = obstore.put(self._store, key, data, mode="create")
        except AlreadyExistsError:
            return check_own_object(self, key, data)
        except NotFound as error:  # a create reads no object, so the caller cannot act on it
            raise ObjectStoreUnreachable(str(error)) from error
        return Created(_unquoted(result["e_tag"]), recognised=False)

    def put(self, key: str, data: Buffer) -> int:
        check_key(key)
        with self._failures(key):
            obstore.put(
                self._store, key, data, chunk_size=CHUNK_SIZE, max_concurrency=PARTS_CONCURRENT_MAX
            )
        return len(data)

    def put_file(self, key: str, file: ReadFile) -> int:
        return self.put_stream(key, chunks_of(file))

    def put_stream(self, key: str, chunks: Iterable[Buffer]) -> int:
        check_key(key)
        source = _CountedChunks(chunks)
        try:
            with self._failures(key, source):
                obstore.put(
                    self._multipart_store,
                    key,
                    source,
                    chunk_size=CHUNK_SIZE,
                    max_concurrency=PARTS_CONCURRENT_MAX,
                )
        except (ObjectStoreDenied, BucketNotFound):
            raise
        except (Unavailable, NotFound):
            # A request whose reply was lost may have completed the upload, which the store then
            # no longer lists. Only this writer uses the name, so an object of this size is ours.
            if not source.ended or not self._has_size(key, source.size):
                raise
        return source.size

    def get(self, key: str) -> bytes:
        check_key(key)
        with self._failures(key):
            response = obstore.get(self._store, key)
            data = bytes(response.bytes())
        if len(data) != response.meta["size"]:
            raise ObjectStoreUnreachable(
                f"{key} in {self.name} was received incompletely: try again"
            )
        return data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.get_ranges(key, [(start, length)])[0]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        check_key(key)
        check_ranges(key, ranges)
        merged = _merged(ranges)
        if not merged:
            self.head(key)
            return [b""] * len(ranges)
        try:
            with self._failures(key):
                chunks = obstore.get_ranges(
                    self._store,
                    key,
                    starts=[start for start, _ in merged],
                    lengths=[length for _, length in merged],
                    coalesce=0,
                )
        except _OutOfRange:
            chunks = []
        if [len(chunk) for chunk in chunks] != [length for _, length in merged]:
            self._explain_short(key, merged)
        received = [
            (start, memoryview(chunk)) for (start, _), chunk in zip(merged, chunks, strict=True)
        ]
        return [_cut(received, start, length) for start, length in ranges]

    def head(self, key: str) -> ObjectInfo:
        check_key(key)
        try:
            with self._failures(key):
                return _info(obstore.head(self._store, key))
        except NotFound:
            with self._failures(key):  # distinguishes a missing bucket from a missing object
                return _info(obstore.get(self._store, key).meta)

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[ObjectInfo]:
        folder = check_prefix(prefix)
        return self._listing(folder, start_after)

    def delete(self, keys: Iterable[str]) -> None:
        keys_to_delete = [check_key(key) for key in keys]
        for first in range(0, len(keys_to_delete), DELETE_BATCH_SIZE):
            batch = keys_to_delete[first : first + DELETE_BATCH_SIZE]
            try:
                with self._failures(batch[0]):
                    obstore.delete(self._store, batch)
            except NotFound:
                for key in batch:
                    with contextlib.suppress(NotFound), self._failures(key):
                        obstore.delete(self._store, key)

    def close(self) -> None:
        """Connections close when the last reference is dropped."""

    def _listing(self, folder: str, after: str | None) -> Iterator[ObjectInfo]:
        last = ""
        with self._failures(folder):
            pages = obstore.list(
                self._store, folder or None, offset=after, chunk_size=LIST_PAGE_SIZE
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
                    raise UnsupportedObjectStore(f"{self.name} does not list its objects in order")
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
        raise ObjectStoreUnreachable(
            f"a range of {key} in {self.name} was received incompletely: try again"
        )

    @contextlib.contextmanager
    def _failures(self, key: str, source: _CountedChunks | None = None) -> Iterator[None]:
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


class _CountedChunks:
    """Counts chunks that the library reads, and records the errors of their iterator."""

    def __init__(self, chunks: Iterable[Buffer]) -> None:
        self._chunks = iter(chunks)
        self.size = 0
        self.ended = False
        self.failure: BaseException | None = None

    def __iter__(self) -> _CountedChunks:
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


def _open_store(
    constructor: Callable[..., stores.ObjectStore],
    url: str,
    bucket: str,
    prefix: str,
    options: Mapping[str, str],
    settings: ObjectSettings,
    *,
    attempts: int,
) -> stores.ObjectStore:
    client: dict[str, Any] = {
        "timeout": timedelta(seconds=settings.request_s_max),
        "connect_timeout": timedelta(seconds=settings.connect_s_max),
    }
    if _is_plain_http_here(options):
        client["allow_http"] = True
    retries = {
        "max_retries": attempts - 1,
        "retry_timeout": timedelta(seconds=settings.retry_s_max),
        "backoff": {"init_backoff": timedelta(seconds=settings.delay_s_first)},
    }
    try:
        return constructor(
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


def _info(meta: Mapping[str, Any]) -> ObjectInfo:
    modified_us = int(meta["last_modified"].timestamp() * 1_000_000)
    return ObjectInfo(meta["path"], meta["size"], modified_us, _unquoted(meta["e_tag"]))


def _unquoted(etag: str | None) -> str | None:
    return None if etag is None else etag.strip('"')


def _merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The fewest ranges that contain all of these; empty ranges are omitted."""
    merged: list[tuple[int, int]] = []
    for start, length in sorted(each for each in ranges if each[1]):
        if merged and start - sum(merged[-1]) <= COALESCE_GAP:
            first, _ = merged[-1]
            merged[-1] = (first, max(sum(merged[-1]), start + length) - first)
        else:
            merged.append((start, length))
    return merged


def _cut(chunks: Sequence[tuple[int, memoryview]], start: int, length: int) -> bytes:
    if not length:
        return b""
    first, chunk = next(each for each in reversed(chunks) if each[0] <= start)
    return bytes(chunk[start - first : start - first + length])


_MAKERS: dict[str, Callable[..., stores.ObjectStore]] = {
    "s3": stores.S3Store,
    "az": stores.AzureStore,
    "gs": stores.GCSStore,
}
