"""Objects come in here: what the store asks of S3, Azure, GCS, a local folder or memory.

Rules that the rest of the code leans on:

- **An object never changes.** ``create`` gives a name to the first who asks for it; ``put`` is for
  names that nobody else can think of (they contain a random id). Nothing is ever overwritten, so
  nothing that was read goes stale, and no compare-and-swap is needed.
- **What ``create`` is given contains an id of this attempt.** A reply can be lost after the object
  was stored, and the second try then meets the object of the first. ``create`` reads it back and
  takes equal bytes for its own. Two writers who would write the same bytes must therefore not: the
  body carries a random id, new for every attempt to commit (not for every retry). Name it as
  ``writer`` and it is checked that it is there.
- **An object appears whole or not at all**, and is read by everybody once the call has returned.
- **Bytes are not trusted.** A store or the way to it may flip bits; whoever reads checks its own
  checksums. What is checked here is the length: an answer is whole, or it raises.
- After ``Unreachable`` a write may or may not have happened, or may happen a little later.
  Repeating it with the same bytes is always safe.

A key is made of segments of ASCII letters, digits and ``-_.=`` with ``/`` between them, none of
which begins with a dot: what every store and file system takes for the same name, and none for
another. No key is a folder of another one. Objects with other names are not ours: not listed.

``cloud.py`` has the real stores, ``local.py`` the local folder, ``retrying.py`` the
patience; ``strandline.testing.sim_objects.SimObjects`` is the simulated twin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from strandline.errors import AlreadyThere, Invalid, NotFound, Unreachable
from strandline.platform.disk import Buffer, ReadFile

KEY_SIZE_MAX = 512
CHUNK_SIZE = 8 * 1024 * 1024
_KEY = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9_.=-]*(?:/[A-Za-z0-9_=-][A-Za-z0-9_.=-]*)*", re.ASCII)


class Info(msgspec.Struct, frozen=True):
    """What a store tells about an object without its bytes."""

    key: str
    size: int
    modified_us: int
    etag: str | None
    """Without quotes; None where the store has none."""


class Created(msgspec.Struct, frozen=True):
    """The object is there and it is ours."""

    etag: str | None
    recognised: bool
    """It was there already, with exactly these bytes: an earlier try of ours."""


class Objects(Protocol):
    """An object store under a prefix. Blocking; safe from many threads.

    Every failure is a ``StrandlineError``: ``NotFound``, ``AlreadyThere``, ``Invalid`` or one of
    the kinds of ``Unavailable``.
    """

    name: str
    """How messages name the store. No secrets."""

    def create(self, key: str, data: Buffer, writer: str | None = None) -> Created:
        """Store it only where nothing is; ``AlreadyThere`` when the name is another writer's."""
        ...

    def put(self, key: str, data: Buffer) -> int:
        """Store it under a name that is ours alone; returns its size."""
        ...

    def put_file(self, key: str, file: ReadFile) -> int:
        """The same for a file of any size, a few chunks in memory at a time."""
        ...

    def put_stream(self, key: str, chunks: Iterable[Buffer]) -> int:
        """The same for bytes that can be had only once. An error of the iterator leaves nothing."""
        ...

    def get(self, key: str) -> bytes: ...

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Exactly so many bytes; ``Invalid`` when the object ends before them."""
        ...

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Several ``(start, length)`` at once, as ``get_range``; near ones share a request."""
        ...

    def head(self, key: str) -> Info: ...

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[Info]:
        """What lies in the folder ``prefix`` and below, in the order of keys, from behind a key."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Remove them. Absent is fine."""
        ...

    def close(self) -> None:
        """Let go of what is held. The store may be used again, and then closed again."""
        ...


def check_key(key: str) -> str:
    """The key, when it is one."""
    if len(key) > KEY_SIZE_MAX or not _KEY.fullmatch(key):
        raise Invalid(
            f"{key[:80]!r} is no object key: use segments of letters, digits and -_.= that do not "
            f"begin with a dot, {KEY_SIZE_MAX} characters at most"
        )
    return key


def is_key(name: str) -> bool:
    return len(name) <= KEY_SIZE_MAX and _KEY.fullmatch(name) is not None


def check_prefix(prefix: str) -> str:
    """The folder without a slash at its end; the empty one is everything."""
    return check_key(prefix.removesuffix("/")) if prefix else ""


def check_ranges(key: str, ranges: Sequence[tuple[int, int]]) -> None:
    if any(start < 0 or length < 0 for start, length in ranges):
        raise Invalid(f"a range of {key} begins before the object or has a negative length")


def check_writer(key: str, data: Buffer, writer: str | None) -> None:
    if writer is not None and writer.encode() not in bytes(data):
        raise Invalid(f"the body for {key} does not contain its writer's id {writer!r}")


def too_short(key: str, start: int, length: int, size: int) -> Invalid:
    return Invalid(
        f"bytes {start} to {start + length} of {key} were asked for, but it ends at byte {size}"
    )


def recognise(objects: Objects, key: str, data: Buffer) -> Created:
    """Whose object is it that is there already? ``AlreadyThere`` when it is not ours.

    A bit that flips on the way back must not turn our object into a stranger's: only two different
    answers of the right size are believed.
    """
    stranger = AlreadyThere(
        f"{key} in {objects.name} was written by somebody else: read it, then decide"
    )
    try:
        info = objects.head(key)
        if info.size != len(data):
            raise stranger
        if objects.get(key) == data or objects.get(key) == data:
            return Created(info.etag, recognised=True)
    except NotFound:
        raise Unreachable(
            f"{key} in {objects.name} was there and then was not: try again"
        ) from None
    raise stranger


def chunks_of(file: ReadFile) -> Iterator[bytes]:
    """The bytes of a file, a chunk at a time."""
    offset = 0
    while chunk := file.pread(CHUNK_SIZE, offset):
        yield chunk
        offset += len(chunk)
