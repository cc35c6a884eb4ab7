"""The public face of a key-value view.

    kv = store.kv("profiles")
    version = kv.put("ada", b"...")
    kv.put("ada", b"......", version=version)

Keys are bytes; text is taken as UTF-8. A version is the seq of a record, so every version of a view
is later than all before it, and none comes twice.

A read of a key at hand takes no lock: it compares the position of the log with that of the fold,
which are two numbers, and looks into a dict (fold.py says why that is safe).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence

from strandline.errors import Invalid
from strandline.log.topic.topic import Topic
from strandline.views.kv import conditions, history, meta_codec
from strandline.views.kv import scan as kv_scan
from strandline.views.kv.compaction import Compacted, Compaction
from strandline.views.kv.conditions import Write
from strandline.views.kv.fold import KvFold
from strandline.views.kv.key_state import ram_of
from strandline.views.kv.pending_writes import Changes
from strandline.views.kv.transaction import Transaction, commit
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
from strandline.views.kv.watch import Watcher
from strandline.views.view import Draft
from strandline.views.view_runner import Host


class Kv:
    """A key-value view. Safe from many threads."""

    def __init__(self, host: Host[KvFold]) -> None:
        self._host = host
        self._topic: Topic = host.topics[0]
        self._now_us = host.world.clock.now_us
        self._share = host.world.share
        self._compaction = Compaction(host)
        self._share.evicts(_evictor(host))

    @property
    def name(self) -> str:
        return self._host.name

    @property
    def head(self) -> int:
        """The version of the newest change: watch from here to see all that comes."""
        return self._topic.head_seq

    def get(self, key: Key) -> bytes | None:
        """The value of a key, None when there is none."""
        if type(key) is not bytes:
            key = plain_key(key)
        host = self._host
        if host.applied[0] == self._topic.head_seq:
            slot = host.fold.hot.get(key)
            if slot is not None and slot.value is not None:
                if slot.expires_us and slot.expires_us <= self._now_us():
                    return None
                return slot.value
        entry = self.entry(key)
        return None if entry is None else entry.value

    def entry(self, key: Key) -> Entry | None:
        """A key with its value, version and end; None when there is none."""
        plain = plain_key(key)
        with self._host.reading() as fold:
            slot = fold.live(plain, self._now_us())
        return None if slot is None else kv_scan.entry_of(self._host, plain, slot)

    def mget(self, keys: Sequence[Key]) -> list[bytes | None]:
        """The values of many keys, in their order."""
        plain = [plain_key(key) for key in keys]
        with self._host.reading() as fold:
            slots = fold.find_many(plain)
        now_us = self._now_us()
        found: list[bytes | None] = []
        for key, slot in zip(plain, slots, strict=True):
            if slot is None or 0 < slot.expires_us <= now_us:
                found.append(None)
            else:
                found.append(self.get(key) if slot.in_log else slot.value)
        return found

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
        """Give a key a value, for ``ttl`` seconds or for ever; the new version.

        ``nx`` wants the key absent, ``xx`` present, ``version`` as it was read (0: absent); if it
        is not, that is a Conflict and nothing is written.
        """
        if nx or xx or version is not None:
            return self.batch([Put(key, value, ttl, nx, xx, version)])[0]
        plain = plain_key(key)
        expires_us = 0 if ttl is None else end_of(ttl, self._now_us())
        metas = (meta_codec.until(expires_us),) if expires_us else None
        self._share.admit(ram_of(plain, plain_value(value)))
        return self._host.append(Draft(0, (value,), (plain,), metas)).first_seq

    def put_many(self, values: Mapping[Key, bytes], *, ttl: float | None = None) -> list[int]:
        """Give keys their values, all or none; their versions. Quicker than a batch."""
        keys = [plain_key(key) for key in values]
        data = [plain_value(value) for value in values.values()]
        said = meta_codec.until(end_of(ttl, self._now_us()))
        if not keys:
            return []
        self._share.admit(sum(map(ram_of, keys, data)))
        metas = None if said is None else [said] * len(keys)
        appended = self._host.append(Draft(0, data, keys, metas))
        return list(range(appended.first_seq, appended.last_seq + 1))

    def delete(self, key: Key, *, version: int | None = None) -> bool:
        """Delete a key, if it has this version or none is named; whether it was there."""
        return self.batch([Delete(key, version)])[0] > 0

    def incr(self, key: Key, delta: int = 1) -> int:
        """Add to a counter, a whole number as text; the new number. It begins at 0."""
        plain = plain_key(key)
        number = 0

        def work(changes: Changes) -> None:
            nonlocal number
            number = changes.incr(plain, delta)

        self._change(work)
        return number

    def touch(self, key: Key, ttl: float) -> int:
        """Let a key end in so many seconds from now; its version, 0 when it is not there."""
        if ttl is None:
            raise Invalid("say for how long: touch(key, ttl=SECONDS), or use persist(key)")
        return self._end(plain_key(key), ttl)

    def persist(self, key: Key) -> int:
        """Let a key stay for ever; its version, 0 when it is not there."""
        return self._end(plain_key(key), None)

    def json_get(self, key: Key, path: str = "$", default: object = None) -> object:
        """What is at a place of a JSON document, the default when it is not there."""
        entry = self.entry(key)
        if entry is None:
            return default
        now = conditions.Now(entry.value, entry.version, entry.expires_us or 0)
        return conditions.json_get(entry.key, now, path, default)

    def json_set(self, key: Key, path: str, value: object) -> int:
        """Put something at a place of a JSON document; the new version. ``$`` makes a new one."""
        plain = plain_key(key)
        return self._change(lambda changes: changes.json_set(plain, path, value))

    def json_delete(self, key: Key, path: str) -> bool:
        """Take a place out of a JSON document; whether it was there."""
        plain = plain_key(key)
        return self._change(lambda changes: changes.json_delete(plain, path)) > 0

    def batch(self, operations: Sequence[Put | Delete]) -> list[int]:
        """Do all of this or nothing; the version of each, 0 for a delete of an absent key.

        Conditions see what operations before them in the batch have done. A key that is named
        twice is written once, as it is in the end.
        """
        touched: list[bytes | None] = []
        written: list[bytes] = []

        def work(changes: Changes) -> None:
            touched.clear()
            for operation in operations:
                if isinstance(operation, Put):
                    touched.append(changes.put(operation))
                else:
                    touched.append(changes.delete(operation))
            written[:] = changes.writes

        last = self._change(work)
        versions = {key: last - place for place, key in enumerate(reversed(written))}
        return [0 if key is None else versions[key] for key in touched]

    def transaction(self) -> Transaction:
        """Reads and writes that happen at once: ``with kv.transaction() as work``."""
        return Transaction(self._host)

    def commit(self, seen: Mapping[Key, int], writes: Mapping[Key, Write]) -> int:
        """A transaction that was made elsewhere: what it has read, and what keys become.

        Nothing is written, and that is a Conflict, unless every key that was read still has the
        version it had then (0: it was not there). The version of the last key, 0 for no change.
        """
        return commit(
            self._host,
            {plain_key(key): version for key, version in seen.items()},
            {plain_key(key): write for key, write in writes.items()},
        )

    def history(self, key: Key) -> list[Version]:
        """The versions of a key that are kept, newest first, deletes included."""
        return history.versions(self._host, plain_key(key))

    def entry_at(
        self, key: Key, *, version: int | None = None, ts: int | None = None
    ) -> Entry | None:
        """The key as it was at a version of the view, or at a time in microseconds since 1970.

        None when it had no value then; NotFound when that is longer ago than its history.
        """
        if (version is None) == (ts is None):
            raise Invalid("say when: version=VERSION or ts=MICROSECONDS")
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
        """Entries in order of their keys: with a prefix, or from ``first`` on and before ``next``.

        ``after`` is a cursor: the key of the last entry that was seen, in the same direction.
        Entries are read a few at a time, and each is as it is when it is read.
        """
        span = kv_scan.span_of(prefix, first, next, after, reverse=reverse)
        return kv_scan.scan(self._host, span, limit)

    def watch(
        self,
        key: Key | None = None,
        *,
        prefix: Key | None = None,
        after: int | None = None,
        timeout_s: float | None = None,
    ) -> Iterator[Change]:
        """Changes of a key, of a prefix, or of all, behind a version (None: from now on).

        It waits for more, and ends when nothing came for ``timeout_s``. RecordsLost says that it
        was away for longer than deleted keys are remembered.
        """
        return self.watcher(key, prefix=prefix, after=after).follow(timeout_s)

    def watcher(
        self, key: Key | None = None, *, prefix: Key | None = None, after: int | None = None
    ) -> Watcher:
        """The same for whoever waits elsewhere: ``look`` tells what is there, and never waits."""
        if key is not None and prefix is not None:
            raise Invalid("watch a key or a prefix, not both")
        position = self._topic.head_seq if after is None else after
        wanted = _is(key) if key is not None else kv_scan.begins(prefix)
        return Watcher(self._host, wanted, position)

    def wait_for(self, key: Key, *, after: int = 0, timeout_s: float | None = None) -> Entry | None:
        """Wait until a key is there, with a version behind ``after``; None when time is over."""
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

    def compact(self) -> Compacted:
        """Let records go that nobody can see any more: old versions, deleted and ended keys."""
        return self._compaction.run_once()

    def maintain(self) -> None:
        self.compact()

    def _end(self, key: bytes, ttl: float | None) -> int:
        version = 0

        def work(changes: Changes) -> None:
            nonlocal version
            now = changes.now(key)
            version = 0 if now is None else now.version
            changes.ends(key, end_of(ttl, changes.now_us))

        return self._change(work) or version

    def _change(self, work: Callable[[Changes], object]) -> int:
        """Look, decide and write in one step; the last version written, 0 for none."""

        def decision(fold: KvFold) -> Draft | None:
            now_us = self._now_us()
            changes = Changes(lambda key: fold.now(key, now_us), now_us)
            work(changes)
            return changes.draft(self._share)

        appended = self._host.decide(decision)
        return 0 if appended is None else appended.last_seq


def _is(key: Key) -> Callable[[bytes], bool]:
    return plain_key(key).__eq__


def _evictor(host: Host[KvFold]) -> Callable[[int], int]:
    """Frees memory of a view, as long as there is one."""
    found = weakref.ref(host)

    def evict(wanted: int) -> int:
        host = found()
        if host is None or not host.lock.acquire(blocking=False):
            return 0
        try:
            return host.fold.shrink(wanted)
        finally:
            host.lock.release()

    return evict
