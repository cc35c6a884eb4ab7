"""A key-value view of a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence

import msgspec
from msgspec import UNSET

from strandline.api import kv as wire
from strandline.client import kv_codec
from strandline.client.asynchronous.endpoint import AsyncEndpoint
from strandline.client.asynchronous.transaction import AsyncTransaction
from strandline.client.bytes_fields import key_pair, maybe_key, value_pair
from strandline.errors import Invalid
from strandline.log.topic.validation import check_timeout
from strandline.views.kv import conditions
from strandline.views.kv import scan as kv_scan
from strandline.views.kv.compaction import KvCompactionResult
from strandline.views.kv.values import (
    Change,
    Delete,
    Entry,
    Key,
    Put,
    Version,
    expiry_of,
    plain_key,
    plain_value,
)

_WAIT_S_MAX = 25.0
_FIRST_PAGE_SIZE = 100
_PAGE_SIZE_MAX = 1000


class AsyncKv:
    """A key-value view. Safe from many tasks of one loop."""

    def __init__(self, endpoint: AsyncEndpoint, name: str) -> None:
        self.name = name
        self._endpoint = endpoint

    def __repr__(self) -> str:
        return f"AsyncKv({self.name!r})"

    @property
    async def head(self) -> int:
        """The version of the newest change: a watch from here gets all later changes."""
        return (await self._endpoint.get("", wire.HeadResponse)).head

    async def get(self, key: Key) -> bytes | None:
        """The value of a key; None if it is absent."""
        entry = await self.entry(key)
        return None if entry is None else entry.value

    async def entry(self, key: Key) -> Entry | None:
        """A key with its value, version and expiry; None if it is absent."""
        body = wire.GetRequest(**key_pair(plain_key(key)))
        return kv_codec.found_entry(await self._endpoint.post_safe("get", body, wire.EntryResponse))

    async def mget(self, keys: Sequence[Key]) -> list[bytes | None]:
        """The values of many keys, in their order."""
        body = wire.KeysRequest(keys=[wire.KeyRequest(**key_pair(plain_key(key))) for key in keys])
        return [
            kv_codec.value_of(each)
            for each in (await self._endpoint.post_safe("mget", body, wire.ValuesResponse)).values
        ]

    async def exists(self, key: Key) -> bool:
        return await self.entry(key) is not None

    async def put(
        self,
        key: Key,
        value: bytes,
        *,
        ttl: float | None = None,
        nx: bool = False,
        xx: bool = False,
        version: int | None = None,
    ) -> int:
        """Set the value of a key, for ``ttl`` seconds or without expiry; return the new version.

        ``nx`` requires the key to be absent, ``xx`` to be present, ``version`` to have this version
        (0: absent). Otherwise Conflict is raised and nothing is written.
        """
        conditions.check_conditions(nx=nx, xx=xx, version=version)
        body = wire.PutRequest(
            **key_pair(plain_key(key)),
            **value_pair(plain_value(value)),
            ttl_ms=self._ttl_ms(ttl),
            nx=nx,
            xx=xx,
            version=version,
        )
        return (await self._endpoint.post("put", body, wire.VersionResponse)).version

    async def put_many(self, values: Mapping[Key, bytes], *, ttl: float | None = None) -> list[int]:
        """Set many keys, all or none; return their versions. Faster than a batch."""
        new = [
            wire.NewValue(**key_pair(plain_key(key)), **value_pair(plain_value(value)))
            for key, value in values.items()
        ]
        ttl_ms = self._ttl_ms(ttl)
        if not new:
            return []
        body = wire.PutManyRequest(values=new, ttl_ms=ttl_ms)
        return (await self._endpoint.post("put_many", body, wire.VersionsResponse)).versions

    async def delete(self, key: Key, *, version: int | None = None) -> bool:
        """Delete a key, with ``version`` only if it has this one; return whether it existed."""
        conditions.check_conditions(nx=False, xx=False, version=version)
        body = wire.DeleteRequest(**key_pair(plain_key(key)), version=version)
        return (await self._endpoint.post("delete", body, wire.DeleteResponse)).deleted

    async def incr(self, key: Key, delta: int = 1) -> int:
        """Add to a counter, an integer stored as text that starts at 0; return the new number."""
        body = wire.IncrRequest(**key_pair(plain_key(key)), delta=delta)
        return (await self._endpoint.post("incr", body, wire.IncrResponse)).number

    async def touch(self, key: Key, ttl: float) -> int:
        """Set the time to live of a key in seconds from now; its version, 0 if it is absent."""
        ttl_ms = self._ttl_ms(ttl)
        if ttl_ms is None:
            raise Invalid("touch needs a time to live: use touch(key, ttl=SECONDS) or persist(key)")
        body = wire.TouchRequest(**key_pair(plain_key(key)), ttl_ms=ttl_ms)
        return (await self._endpoint.post("touch", body, wire.VersionResponse)).version

    async def persist(self, key: Key) -> int:
        """Remove the time to live of a key; its version, 0 if it is absent."""
        body = wire.KeyRequest(**key_pair(plain_key(key)))
        return (await self._endpoint.post("persist", body, wire.VersionResponse)).version

    async def json_get(self, key: Key, path: str = "$", default: object = None) -> object:
        """The value at a path of a JSON document; the default if it is absent."""
        body = wire.JsonPathRequest(**key_pair(plain_key(key)), path=path)
        response = await self._endpoint.post_safe("json_get", body, wire.JsonPathResponse)
        return default if response.value is UNSET else msgspec.json.decode(response.value)

    async def json_set(self, key: Key, path: str, value: object) -> int:
        """Set the value at a path of a JSON document (``$`` is all of it); the new version."""
        raw = msgspec.Raw(_json(value))
        body = wire.JsonSetRequest(**key_pair(plain_key(key)), path=path, value=raw)
        return (await self._endpoint.post("json_set", body, wire.VersionResponse)).version

    async def json_delete(self, key: Key, path: str) -> bool:
        """Delete a path of a JSON document; return whether it existed."""
        body = wire.JsonPathRequest(**key_pair(plain_key(key)), path=path)
        return (await self._endpoint.post("json_delete", body, wire.DeleteResponse)).deleted

    async def batch(self, operations: Sequence[Put | Delete]) -> list[int]:
        """Apply all operations or none; the version of each, 0 for a delete of an absent key.

        Conditions see the effects of earlier operations of the batch. A key that occurs twice is
        written once, with its last state.
        """
        body = wire.BatchRequest(operations=[self._operation(each) for each in operations])
        if not body.operations:
            return []
        return (await self._endpoint.post("batch", body, wire.VersionsResponse)).versions

    def transaction(self) -> AsyncTransaction:
        """Reads and writes that are applied together: ``with kv.transaction() as work``."""
        return AsyncTransaction(self._endpoint)

    async def history(self, key: Key) -> list[Version]:
        """The kept versions of a key, newest first, including deletes."""
        body = wire.KeyRequest(**key_pair(plain_key(key)))
        response = await self._endpoint.post_safe("history", body, wire.HistoryResponse)
        return [kv_codec.version_of(each) for each in response.versions]

    async def entry_at(
        self, key: Key, *, version: int | None = None, ts: int | None = None
    ) -> Entry | None:
        """The entry of a key at a version of the view, or at a time in microseconds since 1970.

        None if it had no value then; NotFound if that is before the kept history.
        """
        if (version is None) == (ts is None):
            raise Invalid("give one of version=VERSION and ts=MICROSECONDS")
        body = wire.GetRequest(**key_pair(plain_key(key)), version=version, ts_us=ts)
        return kv_codec.found_entry(await self._endpoint.post_safe("get", body, wire.EntryResponse))

    def scan(
        self,
        prefix: Key | None = None,
        *,
        first: Key | None = None,
        next: Key | None = None,
        after: Key | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> AsyncIterator[Entry]:
        """Entries in order of their keys: with a prefix, or from ``first`` on and before ``next``.

        ``after`` is a cursor: the key of the last entry that was read, in the same direction.
        Entries are read in pages; each entry is current when its page is read.
        """
        span = kv_scan.range_of(prefix, first, next, after, reverse=reverse)
        if limit is not None and (type(limit) is not int or limit < 0):
            raise Invalid(f"limit is a whole number of at least 0, or None, not {limit!r}")
        return self._scan(span, limit)

    def watch(
        self,
        key: Key | None = None,
        *,
        prefix: Key | None = None,
        after: int | None = None,
        timeout_s: float | None = None,
    ) -> AsyncIterator[Change]:
        """Changes of a key, of a prefix, or of all keys, after a version (None: from now on).

        Waits for more, and ends when none came for ``timeout_s``. Raises RecordsLost when the
        version is older than the markers of deleted keys that are kept.
        """
        if key is not None and prefix is not None:
            raise Invalid("watch a key or a prefix, not both")
        check_timeout(timeout_s)
        keys = maybe_key(None if key is None else plain_key(key))
        keys |= maybe_key(plain_key(prefix) if prefix else None, "prefix")
        return self._watch(keys, self._position(after), timeout_s)

    async def wait_for(
        self, key: Key, *, after: int = 0, timeout_s: float | None = None
    ) -> Entry | None:
        """Wait until a key exists with a version above ``after``; None after the timeout."""
        pair, clock = key_pair(plain_key(key)), self._endpoint.clock
        until = None if timeout_s is None else clock.monotonic() + timeout_s
        while True:
            left = _WAIT_S_MAX if until is None else until - clock.monotonic()
            wait_s = max(0.0, min(_WAIT_S_MAX, left))
            body = wire.WaitRequest(**pair, after=after, wait_ms=round(wait_s * 1000))
            entry = kv_codec.found_entry(
                await self._endpoint.poll("wait", body, wire.EntryResponse, wait_s=wait_s)
            )
            if entry is not None or (until is not None and left <= wait_s):
                return entry

    async def compact(self) -> KvCompactionResult:
        """Release records that no read needs: old versions, deleted and expired keys."""
        response = await self._endpoint.post("compact", None, wire.CompactKvResponse)
        return msgspec.convert(msgspec.to_builtins(response), KvCompactionResult)

    async def _scan(self, span: kv_scan.KeyRange, limit: int | None) -> AsyncIterator[Entry]:
        low, high, left, size = span.first, span.next, limit, _FIRST_PAGE_SIZE
        while left is None or left > 0:
            count = size if left is None else min(size, left)
            body = wire.ScanRequest(
                **maybe_key(low, "first"),
                **maybe_key(high, "next"),
                limit=count,
                reverse=span.reverse,
            )
            page = await self._endpoint.post_safe("scan", body, wire.ScanResponse)
            for line in page.entries:
                entry = kv_codec.entry_of(line)
                low, high = (low, entry.key) if span.reverse else (entry.key + b"\0", high)
                yield entry
            if not page.more:
                return
            left = None if left is None else left - len(page.entries)
            size = min(_PAGE_SIZE_MAX, size * 2)

    async def _watch(
        self, keys: dict[str, object], start: Awaitable[int], timeout_s: float | None
    ) -> AsyncIterator[Change]:
        after, clock = await start, self._endpoint.clock
        last_change_s = clock.monotonic()
        while True:
            left = (
                _WAIT_S_MAX if timeout_s is None else last_change_s + timeout_s - clock.monotonic()
            )
            wait_s = max(0.0, min(_WAIT_S_MAX, left))
            body = wire.ChangesRequest(**keys, after=after, wait_ms=round(wait_s * 1000))  # type: ignore[arg-type]  # pairs
            page = await self._endpoint.poll("changes", body, wire.ChangesResponse, wait_s=wait_s)
            for change in page.changes:
                yield kv_codec.change_of(change)
            if page.next_after > after:
                last_change_s = clock.monotonic()
            elif timeout_s is not None and left <= wait_s:
                return
            after = page.next_after

    async def _position(self, after: int | None) -> int:
        return await self.head if after is None else after

    def _operation(self, operation: Put | Delete) -> wire.BatchOperation:
        key = key_pair(plain_key(operation.key))
        if isinstance(operation, Delete):
            return wire.BatchOperation(**key, delete=True, version=operation.version)
        return wire.BatchOperation(
            **key,
            **value_pair(plain_value(operation.value)),
            ttl_ms=self._ttl_ms(operation.ttl),
            nx=operation.nx,
            xx=operation.xx,
            version=operation.version,
        )

    def _ttl_ms(self, ttl: float | None) -> float | None:
        expiry_of(ttl, self._endpoint.clock.now_us())  # raises Invalid for a wrong ttl
        return None if ttl is None else ttl * 1000


def _json(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError) as error:
        raise Invalid(f"the value cannot be encoded as JSON: {error}") from error
