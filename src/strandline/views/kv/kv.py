"""The public interface of a key-value view.

    kv = store.kv("profiles")
    version = kv.put("ada", b"...")
    kv.put("ada", b"......", version=version)

Keys are bytes; text is encoded as UTF-8. A version is the seq of a record, so every version of a
view is greater than all before it, and none is used twice.

A read of a cached key takes no lock: it compares the position of the log with that of the fold,
which are two numbers, and reads a dict (`views/kv/fold.py` explains why that is safe).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence

from strandline.errors import Invalid
from strandline.log.topic.topic import Topic
from strandline.views.kv import conditions, history, meta_codec
from strandline.views.kv import scan as kv_scan
from strandline.views.kv.compaction import Compaction, KvCompactionResult
from strandline.views.kv.conditions import KeyWrite
from strandline.views.kv.fold import KvFold
from strandline.views.kv.key_state import ram_of
from strandline.views.kv.pending_writes import PendingWrites
from strandline.views.kv.transaction import Transaction, commit
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
from strandline.views.kv.watch import Watcher
from strandline.views.view import ViewAppend
from strandline.views.view_runner import ViewRunner


class Kv:
    """A key-value view. Safe to use from many threads."""

    def __init__(self, host: ViewRunner[KvFold]) -> None:
        self._host = host
        self._topic: Topic = host.topics[0]
        self._now_us = host.world.clock.now_us
        self._share = host.world.share
        self._compaction = Compaction(host)
        self._share.add_evictor(_evictor(host))

    @property
    def name(self) -> str:
        return self._host.name

    @property
    def head(self) -> int:
        """The version of the newest change: a watch from here returns all later changes."""
        return self._topic.head_seq

    def get(self, key: Key) -> bytes | None:
        """The value of a key, None if it has none."""
        if type(key) is not bytes:
            key = plain_key(key)
        host = self._host
        # Without the lock: ``hot`` is changed before ``applied``, so equal positions mean that it
        # has the state at that position or a newer one.
        if host.applied[0] == self._topic.head_seq:
            slot = host.fold.hot.get(key)
            if slot is not None and slot.value is not None:
                if slot.expires_us and slot.expires_us <= self._now_us():
                    return None
                return slot.value
        entry = self.entry(key)
        return None if entry is None else entry.value

    def entry(self, key: Key) -> Entry | None:
        """A key with its value, version and expiry; None if it has no value."""
        plain = plain_key(key)
        with self._host.reading() as fold:
            slot = fold.live(plain, self._now_us())
        return None if slot is None else kv_scan.entry_of(self._host, plain, slot)

    def mget(self, keys: Sequence[Key]) -> list[bytes | None]:
        """The values of many keys, in the order of the keys."""
        plain = [plain_key(key) for key in keys]
        with self._host.reading() as fold:
            slots = fold.find_many(plain)
        now_us = self._now_us()
        values: list[bytes | None] = []
        for key, slot in zip(plain, slots, strict=True):
            if slot is None or 0 < slot.expires_us <= now_us:
                values.append(None)
            else:
                values.append(self.get(key) if slot.in_log else slot.value)
        return values

    def exists(self, key: Key) -> bool:
        with self._host.reading() as fold:
            return fold.live(plain_key(key), self._now_us()) is not None

    def put(
        self,
        key: Key,
        value: bytes,
        *,
        ttl: float | None = None,
        nx: bool = False,
        xx: bool = False,
        version: int | None = None,
    ) -> int:
        """Set the value of a key, for ``ttl`` seconds or for ever; return the new version.

        ``nx`` requires that the key is absent, ``xx`` that it is present, ``version`` that it has
        this version (0: absent). If not, it raises Conflict and writes nothing.
        """
        if nx or xx or version is not None:
            return self.batch([Put(key, value, ttl, nx, xx, version)])[0]
        plain = plain_key(key)
        expires_us = 0 if ttl is None else expiry_of(ttl, self._now_us())
        metas = (meta_codec.expiry_meta(expires_us),) if expires_us else None
        self._share.admit(ram_of(plain, plain_value(value)))
        return self._host.append(ViewAppend(0, (value,), (plain,), metas)).first_seq

    def put_many(self, values: Mapping[Key, bytes], *, ttl: float | None = None) -> list[int]:
        """Set the values of keys, all or none; return their versions. Faster than a batch."""
        keys = [plain_key(key) for key in values]
        data = [plain_value(value) for value in values.values()]
        meta = meta_codec.expiry_meta(expiry_of(ttl, self._now_us()))
        if not keys:
            return []
        self._share.admit(sum(map(ram_of, keys, data)))
        metas = None if meta is None else [meta] * len(keys)
        appended = self._host.append(ViewAppend(0, data, keys, metas))
        return list(range(appended.first_seq, appended.last_seq + 1))

    def delete(self, key: Key, *, version: int | None = None) -> bool:
        """Delete a key, if it has this version (None: any); return whether it existed."""
        return self.batch([Delete(key, version)])[0] > 0

    def incr(self, key: Key, delta: int = 1) -> int:
        """Add to a counter, a whole number as text that starts at 0; return the new number."""
        plain = plain_key(key)
        number = 0

        def work(changes: PendingWrites) -> None:
            nonlocal number
            number = changes.incr(plain, delta)

        self._change(work)
        return number

    def touch(self, key: Key, ttl: float) -> int:
        """Set a key to expire in ``ttl`` seconds; return its version, 0 if it does not exist."""
        if ttl is None:
            raise Invalid("touch() needs a time to live: touch(key, ttl=SECONDS), or persist(key)")
        return self._set_expiry(plain_key(key), ttl)

    def persist(self, key: Key) -> int:
        """Remove the expiry of a key; return its version, 0 if it does not exist."""
        return self._set_expiry(plain_key(key), None)

    def json_get(self, key: Key, path: str = "$", default: object = None) -> object:
        """The value at a path of a JSON document, the default if there is none."""
        entry = self.entry(key)
        if entry is None:
            return default
        now = conditions.CurrentValue(entry.value, entry.version, entry.expires_us or 0)
        return conditions.json_get(entry.key, now, path, default)

    def json_set(self, key: Key, path: str, value: object) -> int:
        """Set the value at a path of a JSON document; return the new version. The path ``$`` is
        the whole document, and creates it."""
        plain = plain_key(key)
        return self._change(lambda changes: changes.json_set(plain, path, value))

    def json_delete(self, key: Key, path: str) -> bool:
        """Remove the value at a path of a JSON document; return whether it existed."""
        plain = plain_key(key)
        return self._change(lambda changes: changes.json_delete(plain, path)) > 0

    def batch(self, operations: Sequence[Put | Delete]) -> list[int]:
        """Apply all operations or none; return the version of each, 0 for a delete of an absent
        key.

        Conditions see the result of the operations before them in the batch. A key that occurs
        twice is written once, with its final state.
        """
        touched: list[bytes | None] = []
        written: list[bytes] = []

        def work(changes: PendingWrites) -> None:
            touched.clear()
            for operation in operations:
                if isinstance(operation, Put):
                    touched.append(changes.put(operation))
                else:
                    touched.append(changes.delete(operation))
            written[:] = changes.writes

        last = self._change(work)
        versions = {key: last - index for index, key in enumerate(reversed(written))}
        return [0 if key is None else versions[key] for key in touched]

    def transaction(self) -> Transaction:
        """Reads and writes that are applied together: ``with kv.transaction() as work``."""
        return Transaction(self._host)

    def commit(self, seen: Mapping[Key, int], writes: Mapping[Key, KeyWrite]) -> int:
        """Commit a transaction of another process: the versions that it read, and its writes.

        Raises Conflict and writes nothing unless every key that was read still has that version
        (0: it did not exist). Returns the version of the last key, 0 without a write.
        """
        return commit(
            self._host,
            {plain_key(key): version for key, version in seen.items()},
            {plain_key(key): write for key, write in writes.items()},
        )

    def history(self, key: Key) -> list[Version]:
        """The versions of a key in its history, newest first, deletes included."""
        return history.versions(self._host, plain_key(key))

    def entry_at(
        self, key: Key, *, version: int | None = None, ts: int | None = None
    ) -> Entry | None:
        """The key as it was at a version of the view, or at a time in microseconds since 1970.

        None if it had no value then; NotFound if its history does not go back so far.
        """
        if (version is None) == (ts is None):
            raise Invalid("give either version=VERSION or ts=MICROSECONDS")
        return history.entry_at(self._host, plain_key(key), version, ts)

    def scan(
        self,
        prefix: Key | None = None,
        *,
        first: Key | None = None,
        next: Key | None = None,
        after: Key | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> Iterator[Entry]:
        """Entries in the order of their keys: with a prefix, or in the range ``[first, next)``.

        ``after`` is a cursor: the key of the last entry that was returned, in the same direction.
        Entries are read in pages; each page is the state at its own time.
        """
        span = kv_scan.range_of(prefix, first, next, after, reverse=reverse)
        return kv_scan.scan(self._host, span, limit)

    def watch(
        self,
        key: Key | None = None,
        *,
        prefix: Key | None = None,
        after: int | None = None,
        timeout_s: float | None = None,
    ) -> Iterator[Change]:
        """Changes of a key, of a prefix, or of all keys, after a version (None: from now on).

        It waits for more, and ends when there was no change for ``timeout_s``. Raises RecordsLost
        if deleted keys after that version are forgotten.
        """
        return self.watcher(key, prefix=prefix, after=after).follow(timeout_s)

    def watcher(
        self, key: Key | None = None, *, prefix: Key | None = None, after: int | None = None
    ) -> Watcher:
        """The same for callers with their own way to wait: ``look`` returns what is there, and
        never waits."""
        if key is not None and prefix is not None:
            raise Invalid("watch a key or a prefix, not both")
        position = self._topic.head_seq if after is None else after
        matches = _equals(key) if key is not None else kv_scan.prefix_matcher(prefix)
        return Watcher(self._host, matches, position)

    def wait_for(self, key: Key, *, after: int = 0, timeout_s: float | None = None) -> Entry | None:
        """Wait until a key exists with a version after ``after``; None after a timeout."""
        clock = self._host.world.clock
        deadline = None if timeout_s is None else clock.monotonic() + timeout_s
        while True:
            head = self._topic.head_seq
            entry = self.entry(key)
            if entry is not None and entry.version > after:
                return entry
            left = None if deadline is None else max(0.0, deadline - clock.monotonic())
            if not self._topic.wait_for(head, left):
                return None

    def compact(self) -> KvCompactionResult:
        """Delete records that cannot be read any more: old versions, deleted and expired keys."""
        return self._compaction.run_once()

    def maintain(self) -> None:
        self.compact()

    def _set_expiry(self, key: bytes, ttl: float | None) -> int:
        version = 0

        def work(changes: PendingWrites) -> None:
            nonlocal version
            now = changes.now(key)
            version = 0 if now is None else now.version
            changes.set_expiry(key, expiry_of(ttl, changes.now_us))

        # Without a write (the expiry was the same) the key keeps its version.
        return self._change(work) or version

    def _change(self, work: Callable[[PendingWrites], object]) -> int:
        """Read, decide and write in one step; return the last version written, 0 for none."""

        def decision(fold: KvFold) -> ViewAppend | None:
            now_us = self._now_us()
            changes = PendingWrites(lambda key: fold.now(key, now_us), now_us)
            work(changes)
            return changes.draft(self._share)

        appended = self._host.decide(decision)
        return 0 if appended is None else appended.last_seq


def _equals(key: Key) -> Callable[[bytes], bool]:
    return plain_key(key).__eq__


def _evictor(host: ViewRunner[KvFold]) -> Callable[[int], int]:
    """Frees memory of a view. Holds a weak reference: it must not keep the view alive."""
    reference = weakref.ref(host)

    def evict(size: int) -> int:
        host = reference()
        if host is None or not host.lock.acquire(blocking=False):
            return 0
        try:
            return host.fold.shrink(size)
        finally:
            host.lock.release()

    return evict
