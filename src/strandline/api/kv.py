"""Key-value maps on the wire. A version is the seq of a record; 0: the key does not exist."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from strandline.api.bytes_fields import Base64, Json, Text


class KeyRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: Text = UNSET
    key_base64: Base64 = UNSET


class GetRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key and its value, now or at an earlier version or time."""

    key: Text = UNSET
    key_base64: Base64 = UNSET
    version: int | None = None
    """Read the value as of this version of the view."""
    ts_us: int | None = None
    """Read the value as of this time."""


class KvEntry(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    us: int
    """Time of the write."""
    key: Text = UNSET
    key_base64: Base64 = UNSET
    value: Json = UNSET
    value_base64: Base64 = UNSET
    expires_us: int | UnsetType = UNSET


class EntryResponse(msgspec.Struct, frozen=True, kw_only=True):
    """An entry, if the key exists."""

    found: bool
    entry: KvEntry | UnsetType = UNSET


class KeysRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    keys: list[KeyRequest]


class ValueResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A value, if the key exists."""

    found: bool
    value: Json = UNSET
    value_base64: Base64 = UNSET


class ValuesResponse(msgspec.Struct, frozen=True, kw_only=True):
    values: list[ValueResponse]
    """In the order of the keys."""


class PutRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: Text = UNSET
    key_base64: Base64 = UNSET
    value: Json = UNSET
    value_base64: Base64 = UNSET
    ttl_ms: float | None = None
    nx: bool = False
    xx: bool = False
    version: int | None = None


class VersionResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The current version of a key, 0 when it does not exist."""

    version: int


class NewValue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: Text = UNSET
    key_base64: Base64 = UNSET
    value: Json = UNSET
    value_base64: Base64 = UNSET


class PutManyRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    values: list[NewValue]
    ttl_ms: float | None = None


class VersionsResponse(msgspec.Struct, frozen=True, kw_only=True):
    versions: list[int]


class DeleteRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: Text = UNSET
    key_base64: Base64 = UNSET
    version: int | None = None


class DeleteResponse(msgspec.Struct, frozen=True, kw_only=True):
    deleted: bool
    """Whether the key existed."""


class BatchOperation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A put or a delete."""

    delete: bool = False
    key: Text = UNSET
    key_base64: Base64 = UNSET
    value: Json = UNSET
    value_base64: Base64 = UNSET
    ttl_ms: float | None = None
    nx: bool = False
    xx: bool = False
    version: int | None = None


class BatchRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    operations: list[BatchOperation]


class ReadVersion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key that a transaction has read, with the version read; 0: it did not exist."""

    version: int
    key: Text = UNSET
    key_base64: Base64 = UNSET


class TransactionWrite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A write of a transaction; without a value the key is deleted."""

    key: Text = UNSET
    key_base64: Base64 = UNSET
    value: Json = UNSET
    value_base64: Base64 = UNSET
    expires_us: int = 0
    """Time of expiry; 0: never."""
    ttl_ms: float | None = None
    """Alternative to ``expires_us``: time to live from now, by the server's clock."""


class CommitRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A transaction: nothing is written unless every key that was read has the version read."""

    seen: list[ReadVersion] = []
    writes: list[TransactionWrite]


class IncrRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: Text = UNSET
    key_base64: Base64 = UNSET
    delta: int = 1


class IncrResponse(msgspec.Struct, frozen=True, kw_only=True):
    number: int


class TouchRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ttl_ms: float
    key: Text = UNSET
    key_base64: Base64 = UNSET


class JsonPathRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: Text = UNSET
    key_base64: Base64 = UNSET
    path: str = "$"


class JsonSetRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str
    value: msgspec.Raw
    key: Text = UNSET
    key_base64: Base64 = UNSET


class JsonPathResponse(msgspec.Struct, frozen=True, kw_only=True):
    found: bool
    value: Json = UNSET


class KeyVersion(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier version of a key; without a value it was a delete."""

    version: int
    us: int
    deleted: bool
    value: Json = UNSET
    value_base64: Base64 = UNSET
    expires_us: int | UnsetType = UNSET


class HistoryResponse(msgspec.Struct, frozen=True, kw_only=True):
    versions: list[KeyVersion]
    """Newest first."""


class ScanRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of entries in key order."""

    prefix: Text = UNSET
    prefix_base64: Base64 = UNSET
    first: Text = UNSET
    first_base64: Base64 = UNSET
    next: Text = UNSET
    next_base64: Base64 = UNSET
    after: Text = UNSET
    """The last key of the previous page."""
    after_base64: Base64 = UNSET
    limit: int = 100
    reverse: bool = False
    keys_only: bool = False


class ScanResponse(msgspec.Struct, frozen=True, kw_only=True):
    entries: list[KvEntry]
    more: bool
    """Whether more entries may follow the last one."""


class WaitRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Wait until a key exists with a version greater than ``after``."""

    key: Text = UNSET
    key_base64: Base64 = UNSET
    after: int = 0
    wait_ms: int = 30_000


class WatchChangesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of a key, of a prefix or of all keys, as an SSE stream of ``event: change``.

    ``id`` is the position of the stream: resume with ``after``, or ``Last-Event-ID``.
    """

    key: str | None = None
    key_base64: bytes | None = None
    prefix: str | None = None
    prefix_base64: bytes | None = None
    after: int | None = None
    """Changes after this version; without it, changes from now on."""


class KvChange(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    us: int
    deleted: bool
    key: Text = UNSET
    key_base64: Base64 = UNSET
    value: Json = UNSET
    value_base64: Base64 = UNSET
    expires_us: int | UnsetType = UNSET
    expired: bool = False


class ChangesRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of the changes of a key, of a prefix or of all keys after a version."""

    key: Text = UNSET
    key_base64: Base64 = UNSET
    prefix: Text = UNSET
    prefix_base64: Base64 = UNSET
    after: int = 0
    wait_ms: int = 0
    """How long to wait for the first change."""


class ChangesResponse(msgspec.Struct, frozen=True, kw_only=True):
    changes: list[KvChange]
    next_after: int
    """The next ``after``, also when no change matched."""


class HeadResponse(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    head: int
    """The version of the newest change."""


class CompactKvResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a compaction."""

    expired: int
    forgotten: int
    released: int


class ValueQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The key and the options of a request whose body, or response, is the value itself."""

    key: str | None = None
    key_base64: bytes | None = None
    ttl_ms: float | None = None
    nx: bool = False
    xx: bool = False
    version: int | None = None
