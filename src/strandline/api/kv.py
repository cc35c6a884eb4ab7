"""Key-value views on the wire. A version is the seq of a record; 0 is no key."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from strandline.api.bytes_fields import Base64, Json, Text


class ByKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: Text = UNSET
    key_base64: Base64 = UNSET


class Get(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key as it is, or as it was."""

    key: Text = UNSET
    key_base64: Base64 = UNSET
    version: int | None = None
    """As it was at this version of the view."""
    ts_us: int | None = None
    """As it was at this time."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    us: int
    """When it was written."""
    key: Text = UNSET
    key_base64: Base64 = UNSET
    value: Json = UNSET
    value_base64: Base64 = UNSET
    expires_us: int | UnsetType = UNSET


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A key, if it is there."""

    found: bool
    entry: Entry | UnsetType = UNSET


class Keys(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    keys: list[ByKey]


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A value, if it is there."""

    found: bool
    value: Json = UNSET
    value_base64: Base64 = UNSET


class Values(msgspec.Struct, frozen=True, kw_only=True):
    values: list[Value]
    """In the order of the keys."""


class Put(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: Text = UNSET
    key_base64: Base64 = UNSET
    value: Json = UNSET
    value_base64: Base64 = UNSET
    ttl_ms: float | None = None
    nx: bool = False
    xx: bool = False
    version: int | None = None


class Versioned(msgspec.Struct, frozen=True, kw_only=True):
    """The version that a key has now, 0 when it is not there."""

    version: int


class NewValue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: Text = UNSET
    key_base64: Base64 = UNSET
    value: Json = UNSET
    value_base64: Base64 = UNSET


class PutMany(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    values: list[NewValue]
    ttl_ms: float | None = None


class VersionsDone(msgspec.Struct, frozen=True, kw_only=True):
    versions: list[int]


class Delete(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: Text = UNSET
    key_base64: Base64 = UNSET
    version: int | None = None


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    deleted: bool
    """Whether it was there."""


class Operation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A put, or a delete."""

    delete: bool = False
    key: Text = UNSET
    key_base64: Base64 = UNSET
    value: Json = UNSET
    value_base64: Base64 = UNSET
    ttl_ms: float | None = None
    nx: bool = False
    xx: bool = False
    version: int | None = None


class Batch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    operations: list[Operation]


class Seen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key that a transaction has read, and its version then; 0 is no key."""

    version: int
    key: Text = UNSET
    key_base64: Base64 = UNSET


class Write(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a key becomes; without a value it is deleted."""

    key: Text = UNSET
    key_base64: Base64 = UNSET
    value: Json = UNSET
    value_base64: Base64 = UNSET
    expires_us: int = 0
    """When it ends; 0 is never."""
    ttl_ms: float | None = None
    """Instead of that: so long from now on, by the server's clock."""


class Commit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A transaction: nothing is written unless every key that was read is as it was seen."""

    seen: list[Seen] = []
    writes: list[Write]


class Incr(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: Text = UNSET
    key_base64: Base64 = UNSET
    delta: int = 1


class Number(msgspec.Struct, frozen=True, kw_only=True):
    number: int


class Touch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ttl_ms: float
    key: Text = UNSET
    key_base64: Base64 = UNSET


class JsonPlace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: Text = UNSET
    key_base64: Base64 = UNSET
    path: str = "$"


class JsonSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str
    value: msgspec.Raw
    key: Text = UNSET
    key_base64: Base64 = UNSET


class JsonFound(msgspec.Struct, frozen=True, kw_only=True):
    found: bool
    value: Json = UNSET


class OldVersion(msgspec.Struct, frozen=True, kw_only=True):
    """What a key was once; without a value it was deleted."""

    version: int
    us: int
    deleted: bool
    value: Json = UNSET
    value_base64: Base64 = UNSET
    expires_us: int | UnsetType = UNSET


class History(msgspec.Struct, frozen=True, kw_only=True):
    versions: list[OldVersion]
    """Newest first."""


class Scan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Entries in order of their keys, a page at a time."""

    prefix: Text = UNSET
    prefix_base64: Base64 = UNSET
    first: Text = UNSET
    first_base64: Base64 = UNSET
    next: Text = UNSET
    next_base64: Base64 = UNSET
    after: Text = UNSET
    """The last key of the page before."""
    after_base64: Base64 = UNSET
    limit: int = 100
    reverse: bool = False
    keys_only: bool = False


class Scanned(msgspec.Struct, frozen=True, kw_only=True):
    entries: list[Entry]
    more: bool
    """Whether there may be more behind the last one."""


class Wait(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Wait until a key is there, with a version behind ``after``."""

    key: Text = UNSET
    key_base64: Base64 = UNSET
    after: int = 0
    wait_ms: int = 30_000


class WatchQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of a key, of a prefix or of all; an SSE stream of ``event: change``.

    ``id`` is how far the stream is: go on with ``after``, or ``Last-Event-ID``.
    """

    key: str | None = None
    key_base64: bytes | None = None
    prefix: str | None = None
    prefix_base64: bytes | None = None
    after: int | None = None
    """Behind this version; without it from now on."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    us: int
    deleted: bool
    key: Text = UNSET
    key_base64: Base64 = UNSET
    value: Json = UNSET
    value_base64: Base64 = UNSET
    expires_us: int | UnsetType = UNSET
    expired: bool = False


class Changes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of a key, of a prefix or of all behind a version, a page at a time."""

    key: Text = UNSET
    key_base64: Base64 = UNSET
    prefix: Text = UNSET
    prefix_base64: Base64 = UNSET
    after: int = 0
    wait_ms: int = 0
    """How long to wait for the first one."""


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    changes: list[Change]
    next_after: int
    """Where to go on, also when nothing fitted."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    head: int
    """The version of the newest change."""


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """What a compaction did."""

    expired: int
    forgotten: int
    released: int


class ValueQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names a key whose value is the body itself."""

    key: str | None = None
    key_base64: bytes | None = None
    ttl_ms: float | None = None
    nx: bool = False
    xx: bool = False
    version: int | None = None
