"""The protocol of object stores: S3, Azure, GCS, a local folder or memory.

Rules that the rest of the code relies on:

- **An object never changes.** ``create`` succeeds for the first writer of a name; ``put`` is for
  names that no other writer can choose (they contain a random id). Nothing is overwritten, so data
  that was read never becomes stale, and no compare-and-swap is needed.
- **The body of ``create`` contains an id of this attempt.** A response can be lost after the object
  was stored; the retry then finds the object of the first try. ``create`` reads it back and treats
  equal bytes as its own. So two writers must never write the same bytes: the body contains a random
  id, new for every attempt to commit (not for every retry). If it is passed as ``writer``, its
  presence is checked.
- **An object appears whole or not at all**, and every reader sees it once the call has returned.
- **Bytes are not trusted.** A store or the network may flip bits; readers verify their own
  checksums. This layer checks the length: a read returns all bytes, or it raises.
- After ``ObjectStoreUnreachable`` a write may or may not have happened, or may happen a little
  later. Repeating it with the same bytes is always safe.

A key consists of segments of ASCII letters, digits and ``-_.=`` with ``/`` between them, none of
which begins with a dot: every store and file system treats equal keys, and only these, as the same
name. No key is a folder of another one. Objects with other names are foreign and not listed.

``cloud.py`` has the real stores, ``local.py`` the local folder, ``retrying.py`` the retries;
``strandline.testing.sim_objects.SimObjects`` is the simulated store.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from strandline.errors import Invalid, NotFound, ObjectExists, ObjectStoreUnreachable
from strandline.platform.disk import Buffer, ReadFile

KEY_SIZE_MAX = 512
CHUNK_SIZE = 8 * 1024 * 1024
_KEY = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9_.=-]*(?:/[A-Za-z0-9_=-][A-Za-z0-9_.=-]*)*", re.ASCII)


class ObjectInfo(msgspec.Struct, frozen=True):
    """The metadata of an object."""

    key: str
    size: int
    modified_us: int
    etag: str | None
    """Without quotes; None where the store has none."""


class Created(msgspec.Struct, frozen=True):
    """The object exists, and this writer created it."""

    etag: str | None
    recognised: bool
    """Whether it existed with exactly these bytes: an earlier try of this writer."""


class Objects(Protocol):
    """An object store under a prefix. Blocking; safe from many threads.

    Every failure is a ``StrandlineError``: ``NotFound``, ``ObjectExists``, ``Invalid`` or
    ``Unavailable`` and its subclasses.
    """

    name: str
    """How messages name the store. No secrets."""

    def create(self, key: str, data: Buffer, writer: str | None = None) -> Created:
        """Store a new object; ``ObjectExists`` if another writer has created one of this name."""
        ...

    def put(self, key: str, data: Buffer) -> int:
        """Store an object under a name that only this writer uses; returns its size."""
        ...

    def put_file(self, key: str, file: ReadFile) -> int:
        """The same for a file of any size, a few chunks in memory at a time."""
        ...

    def put_stream(self, key: str, chunks: Iterable[Buffer]) -> int:
        """The same for chunks that can be read once. If the iterator fails, nothing is stored."""
        ...

    def get(self, key: str) -> bytes: ...

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Exactly ``length`` bytes; ``Invalid`` when the object ends before that."""
        ...

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Several ``(start, length)``, as ``get_range``; ranges that are close share a request."""
        ...

    def head(self, key: str) -> ObjectInfo: ...

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[ObjectInfo]:
        """The objects in the folder ``prefix`` and below, in order of keys, after a key."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects. Absent ones are fine."""
        ...

    def close(self) -> None:
        """Release resources. The store may be used again, and then closed again."""
        ...


def check_key(key: str) -> str:
    """The key itself; Invalid if it is not a valid key."""
    if len(key) > KEY_SIZE_MAX or not _KEY.fullmatch(key):
        raise Invalid(
            f"{key[:80]!r} is not an object key: use segments of letters, digits and -_.= that do "
            f"not begin with a dot, {KEY_SIZE_MAX} characters at most"
        )
    return key


def is_key(name: str) -> bool:
    return len(name) <= KEY_SIZE_MAX and _KEY.fullmatch(name) is not None


def check_prefix(prefix: str) -> str:
    """The folder without a slash at its end; the empty one selects all objects."""
    return check_key(prefix.removesuffix("/")) if prefix else ""


def check_ranges(key: str, ranges: Sequence[tuple[int, int]]) -> None:
    if any(start < 0 or length < 0 for start, length in ranges):
        raise Invalid(f"a range of {key} begins before the object or has a negative length")


def check_writer(key: str, data: Buffer, writer: str | None) -> None:
    if writer is not None and writer.encode() not in bytes(data):
        raise Invalid(f"the body for {key} does not contain its writer's id {writer!r}")


def too_short(key: str, start: int, length: int, size: int) -> Invalid:
    return Invalid(
        f"bytes {start} to {start + length} of {key} were requested, but it ends at byte {size}"
    )


def check_own_object(objects: Objects, key: str, data: Buffer) -> Created:
    """Check whether an existing object is this writer's; ``ObjectExists`` if it is not.

    A bit that flips in a response must not make an own object look foreign: it is foreign only
    after two responses of the right size that differ from the data.
    """
    foreign = ObjectExists(
        f"{key} in {objects.name} was written by another writer: read it, then decide"
    )
    try:
        info = objects.head(key)
        if info.size != len(data):
            raise foreign
        if objects.get(key) == data or objects.get(key) == data:
            return Created(info.etag, recognised=True)
    except NotFound:
        raise ObjectStoreUnreachable(
            f"{key} in {objects.name} existed, and then it did not: try again"
        ) from None
    raise foreign


def chunks_of(file: ReadFile) -> Iterator[bytes]:
    """The bytes of a file, a chunk at a time."""
    offset = 0
    while chunk := file.pread(CHUNK_SIZE, offset):
        yield chunk
        offset += len(chunk)
