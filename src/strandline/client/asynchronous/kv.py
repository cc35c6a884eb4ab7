"""A key-value view of a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence

import msgspec
from msgspec import UNSET

from strandline.api import kv as wire
from strandline.client import kv_codec
from strandline.client.asynchronous.endpoint import AsyncRoute
from strandline.client.asynchronous.transaction import AsyncTransaction
from strandline.client.bytes_fields import key_pair, maybe_key, value_pair
from strandline.errors import Invalid
from strandline.log.topic.validation import check_timeout
from strandline.views.kv import conditions
from strandline.views.kv import scan as kv_scan
from strandline.views.kv.compaction import Compacted
from strandline.views.kv.values import (
    Change,
    Delete,
    Entry,
    Key,
    Put,
    Version,
    end_of,
    plain_key,
    plain_value,
)

_WAIT_S_MAX = 25.0
_PAGE_FIRST = 100
_PAGE_MAX = 1000


class AsyncKv:
    """A key-value view. Safe from many tasks of one loop."""

    def __init__(self, at: AsyncRoute, name: str) -> None:
        self.name = name
        self._at = at

    def __repr__(self) -> str:
        return f"AsyncKv({self.name!r})"

    @property
    async def head(self) -> int:
        """The version of the newest change: watch from here to see all that comes."""
        return (await self._at.get("", wire.Head)).head

    async def get(self, key: Key) -> bytes | None:
        """The value of a key, None when there is none."""
        entry = await self.entry(key)
        return None if entry is None else entry.value

    async def entry(self, key: Key) -> Entry | None:
        """A key with its value, version and end; None when there is none."""
        asked = wire.Get(**key_pair(plain_key(key)))
        return kv_codec.found(await self._at.find("get", asked, wire.Found))

    async def mget(self, keys: Sequence[Key]) -> list[bytes | None]:
        """The values of many keys, in their order."""
        asked = wire.Keys(keys=[wire.ByKey(**key_pair(plain_key(key))) for key in keys])
        return [
            kv_codec.value_of(each)
            for each in (await self._at.find("mget", asked, wire.Values)).values
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
        """Give a key a value, for ``ttl`` seconds or for ever; the new version.

        ``nx`` wants the key absent, ``xx`` present, ``version`` as it was read (0: absent); if it
        is not, that is a Conflict and nothing is written.
        """
        conditions.check_conditions(nx=nx, xx=xx, version=version)
        asked = wire.Put(
            **key_pair(plain_key(key)),
            **value_pair(plain_value(value)),
            ttl_ms=self._ttl_ms(ttl),
            nx=nx,
            xx=xx,
            version=version,
        )
        return (await self._at.do("put", asked, wire.Versioned)).version

    async def put_many(self, values: Mapping[Key, bytes], *, ttl: float | None = None) -> list[int]:
        """Give keys their values, all or none; their versions. Quicker than a batch."""
        new = [
            wire.NewValue(**key_pair(plain_key(key)), **value_pair(plain_value(value)))
            for key, value in values.items()
        ]
        ttl_ms = self._ttl_ms(ttl)
        if not new:
            return []
        asked = wire.PutMany(values=new, ttl_ms=ttl_ms)
        return (await self._at.do("put_many", asked, wire.VersionsDone)).versions

    async def delete(self, key: Key, *, version: int | None = None) -> bool:
        """Delete a key, if it has this version or none is named; whether it was there."""
        conditions.check_conditions(nx=False, xx=False, version=version)
        asked = wire.Delete(**key_pair(plain_key(key)), version=version)
        return (await self._at.do("delete", asked, wire.Deleted)).deleted

    async def incr(self, key: Key, delta: int = 1) -> int:
        """Add to a counter, a whole number as text; the new number. It begins at 0."""
        asked = wire.Incr(**key_pair(plain_key(key)), delta=delta)
        return (await self._at.do("incr", asked, wire.Number)).number

    async def touch(self, key: Key, ttl: float) -> int:
        """Let a key end in so many seconds from now; its version, 0 when it is not there."""
        ttl_ms = self._ttl_ms(ttl)
        if ttl_ms is None:
            raise Invalid("say for how long: touch(key, ttl=SECONDS), or use persist(key)")
        asked = wire.Touch(**key_pair(plain_key(key)), ttl_ms=ttl_ms)
        return (await self._at.do("touch", asked, wire.Versioned)).version

    async def persist(self, key: Key) -> int:
        """Let a key stay for ever; its version, 0 when it is not there."""
        asked = wire.ByKey(**key_pair(plain_key(key)))
        return (await self._at.do("persist", asked, wire.Versioned)).version

    async def json_get(self, key: Key, path: str = "$", default: object = None) -> object:
        """What is at a place of a JSON document, the default when it is not there."""
        asked = wire.JsonPlace(**key_pair(plain_key(key)), path=path)
        told = await self._at.find("json_get", asked, wire.JsonFound)
        return default if told.value is UNSET else msgspec.json.decode(told.value)

    async def json_set(self, key: Key, path: str, value: object) -> int:
        """Put something at a place of a JSON document; the new version. ``$`` makes a new one."""
        raw = msgspec.Raw(_json(value))
        asked = wire.JsonSet(**key_pair(plain_key(key)), path=path, value=raw)
        return (await self._at.do("json_set", asked, wire.Versioned)).version

    async def json_delete(self, key: Key, path: str) -> bool:
        """Take a place out of a JSON document; whether it was there."""
        asked = wire.JsonPlace(**key_pair(plain_key(key)), path=path)
        return (await self._at.do("json_delete", asked, wire.Deleted)).deleted

    async def batch(self, operations: Sequence[Put | Delete]) -> list[int]:
        """Do all of this or nothing; the version of each, 0 for a delete of an absent key.

        Conditions see what operations before them in the batch have done. A key that is named
        twice is written once, as it is in the end.
        """
        asked = wire.Batch(operations=[self._operation(each) for each in operations])
        if not asked.operations:
            return []
        return (await self._at.do("batch", asked, wire.VersionsDone)).versions

    def transaction(self) -> AsyncTransaction:
        """Reads and writes that happen at once: ``with kv.transaction() as work``."""
        return AsyncTransaction(self._at)

    async def history(self, key: Key) -> list[Version]:
        """The versions of a key that are kept, newest first, deletes included."""
        asked = wire.ByKey(**key_pair(plain_key(key)))
        told = await self._at.find("history", asked, wire.History)
        return [kv_codec.version_of(each) for each in told.versions]

    async def entry_at(
        self, key: Key, *, version: int | None = None, ts: int | None = None
    ) -> Entry | None:
        """The key as it was at a version of the view, or at a time in microseconds since 1970.

        None when it had no value then; NotFound when that is longer ago than its history.
        """
        if (version is None) == (ts is None):
            raise Invalid("say when: version=VERSION or ts=MICROSECONDS")
        asked = wire.Get(**key_pair(plain_key(key)), version=version, ts_us=ts)
        return kv_codec.found(await self._at.find("get", asked, wire.Found))

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

        ``after`` is a cursor: the key of the last entry that was seen, in the same direction.
        Entries are read a few at a time, and each is as it is when it is read.
        """
        span = kv_scan.span_of(prefix, first, next, after, reverse=reverse)
        if limit is not None and (type(limit) is not int or limit < 0):
            raise Invalid(f"limit is a whole number from 0 up, or None, not {limit!r}")
        return self._scan(span, limit)

    def watch(
        self,
        key: Key | None = None,
        *,
        prefix: Key | None = None,
        after: int | None = None,
        timeout_s: float | None = None,
    ) -> AsyncIterator[Change]:
        """Changes of a key, of a prefix, or of all, behind a version (None: from now on).

        It waits for more, and ends when nothing came for ``timeout_s``. RecordsLost says that it
        was away for longer than deleted keys are remembered.
        """
        if key is not None and prefix is not None:
            raise Invalid("watch a key or a prefix, not both")
        check_timeout(timeout_s)
        wanted = maybe_key(None if key is None else plain_key(key))
        wanted |= maybe_key(plain_key(prefix) if prefix else None, "prefix")
        return self._watch(wanted, self._position(after), timeout_s)

    async def wait_for(
        self, key: Key, *, after: int = 0, timeout_s: float | None = None
    ) -> Entry | None:
        """Wait until a key is there, with a version behind ``after``; None when time is over."""
        pair, clock = key_pair(plain_key(key)), self._at.clock
        until = None if timeout_s is None else clock.monotonic() + timeout_s
        while True:
            left = _WAIT_S_MAX if until is None else until - clock.monotonic()
            wait_s = max(0.0, min(_WAIT_S_MAX, left))
            asked = wire.Wait(**pair, after=after, wait_ms=round(wait_s * 1000))
            entry = kv_codec.found(await self._at.poll("wait", asked, wire.Found, wait_s=wait_s))
            if entry is not None or (until is not None and left <= wait_s):
                return entry

    async def compact(self) -> Compacted:
        """Let records go that nobody can see any more: old versions, deleted and ended keys."""
        told = await self._at.do("compact", None, wire.Compacted)
        return msgspec.convert(msgspec.to_builtins(told), Compacted)

    async def _scan(self, span: kv_scan.Span, limit: int | None) -> AsyncIterator[Entry]:
        low, high, left, size = span.first, span.next, limit, _PAGE_FIRST
        while left is None or left > 0:
            count = size if left is None else min(size, left)
            asked = wire.Scan(
                **maybe_key(low, "first"),
                **maybe_key(high, "next"),
                limit=count,
                reverse=span.reverse,
            )
            page = await self._at.find("scan", asked, wire.Scanned)
            for told in page.entries:
                entry = kv_codec.entry_of(told)
                low, high = (low, entry.key) if span.reverse else (entry.key + b"\0", high)
                yield entry
            if not page.more:
                return
            left = None if left is None else left - len(page.entries)
            size = min(_PAGE_MAX, size * 2)

    async def _watch(
        self, wanted: dict[str, object], begun: Awaitable[int], timeout_s: float | None
    ) -> AsyncIterator[Change]:
        after, clock = await begun, self._at.clock
        since = clock.monotonic()
        while True:
            left = _WAIT_S_MAX if timeout_s is None else since + timeout_s - clock.monotonic()
            wait_s = max(0.0, min(_WAIT_S_MAX, left))
            asked = wire.Changes(**wanted, after=after, wait_ms=round(wait_s * 1000))  # type: ignore[arg-type]  # pairs
            told = await self._at.poll("changes", asked, wire.Changed, wait_s=wait_s)
            for change in told.changes:
                yield kv_codec.change_of(change)
            if told.next_after > after:
                since = clock.monotonic()
            elif timeout_s is not None and left <= wait_s:
                return
            after = told.next_after

    async def _position(self, after: int | None) -> int:
        return await self.head if after is None else after

    def _operation(self, operation: Put | Delete) -> wire.Operation:
        key = key_pair(plain_key(operation.key))
        if isinstance(operation, Delete):
            return wire.Operation(**key, delete=True, version=operation.version)
        return wire.Operation(
            **key,
            **value_pair(plain_value(operation.value)),
            ttl_ms=self._ttl_ms(operation.ttl),
            nx=operation.nx,
            xx=operation.xx,
            version=operation.version,
        )

    def _ttl_ms(self, ttl: float | None) -> float | None:
        end_of(ttl, self._at.clock.now_us())  # it says what is wrong
        return None if ttl is None else ttl * 1000


def _json(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError) as error:
        raise Invalid(f"this cannot be written as JSON: {error}") from error
