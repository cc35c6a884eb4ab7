"""Transactions: reads and writes of one key-value view that are applied together, or not at all.

A transaction reads each key once and remembers the result: a repeated read returns the same. Writes
stay in it until ``commit``, which is one step, ordered with all other appends: if a key that was
read has changed, nothing is written and ``Conflict`` is raised; start the transaction again. Keys
that were only written are not checked.

No locks are held in between, so an abandoned transaction blocks nothing. Scans are not offered: a
key that is added to the range later could not be detected.
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline.errors import Closed, Conflict
from strandline.views.kv import conditions
from strandline.views.kv.conditions import CurrentValue, KeyWrite
from strandline.views.kv.fold import KvFold
from strandline.views.kv.pending_writes import PendingWrites, draft_of
from strandline.views.kv.values import Delete, Key, Put, expiry_of, plain_key
from strandline.views.view import ViewAppend
from strandline.views.view_runner import ViewRunner


def commit(
    host: ViewRunner[KvFold], seen: Mapping[bytes, int], writes: Mapping[bytes, KeyWrite]
) -> int:
    """Write everything, if the keys that were read still have their versions (0: no key).

    Returns the version of the last key that was written, 0 if there was nothing to write.
    """

    def decision(fold: KvFold) -> ViewAppend | None:
        now_us = host.world.clock.now_us()
        for key, version in seen.items():
            slot = fold.live(key, now_us)
            if (0 if slot is None else slot.version) != version:
                raise Conflict(f"key {key!r} has changed since it was read: begin again")
        # A delete of a key that does not exist is not written.
        effective = {
            key: write
            for key, write in writes.items()
            if write.value is not None or fold.live(key, now_us) is not None
        }
        return draft_of(effective, host.world.share)

    appended = host.decide(decision)
    return 0 if appended is None else appended.last_seq


class Transaction:
    """A transaction from ``Kv.transaction``. It commits at the end of its ``with`` block.

    An exception inside the block propagates, and nothing is written. Owned by one thread.
    """

    def __init__(self, host: ViewRunner[KvFold]) -> None:
        self._host = host
        self._clock = host.world.clock
        self._seen: dict[bytes, CurrentValue | None] = {}
        self._changes = PendingWrites(self._read, self._clock.now_us())
        self._finished = False

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.rollback()
        elif not self._finished:
            self.commit()

    def get(self, key: Key) -> bytes | None:
        now = self._open_changes().now(plain_key(key))
        return None if now is None else now.value

    def exists(self, key: Key) -> bool:
        return self.get(key) is not None

    def put(
        self,
        key: Key,
        value: bytes,
        *,
        ttl: float | None = None,
        nx: bool = False,
        xx: bool = False,
        version: int | None = None,
    ) -> None:
        """Like ``Kv.put``. If a condition does not hold, this raises Conflict immediately."""
        self._open_changes().put(Put(key, value, ttl, nx, xx, version))

    def delete(self, key: Key, *, version: int | None = None) -> bool:
        """Delete a key; return whether it existed."""
        return self._open_changes().delete(Delete(key, version)) is not None

    def incr(self, key: Key, delta: int = 1) -> int:
        """Add to a counter; return the new number."""
        return self._open_changes().incr(plain_key(key), delta)

    def touch(self, key: Key, ttl: float) -> bool:
        """Set a key to expire in ``ttl`` seconds; return whether it exists."""
        changes = self._open_changes()
        return changes.set_expiry(plain_key(key), expiry_of(ttl, changes.now_us))

    def persist(self, key: Key) -> bool:
        """Remove the expiry of a key; return whether it exists."""
        return self._open_changes().set_expiry(plain_key(key), 0)

    def json_get(self, key: Key, path: str = "$", default: object = None) -> object:
        plain = plain_key(key)
        now = self._open_changes().now(plain)
        return default if now is None else conditions.json_get(plain, now, path, default)

    def json_set(self, key: Key, path: str, value: object) -> None:
        self._open_changes().json_set(plain_key(key), path, value)

    def json_delete(self, key: Key, path: str) -> bool:
        """Remove the value at a path; return whether it existed."""
        return self._open_changes().json_delete(plain_key(key), path)

    def commit(self) -> int:
        """Write everything; return the version of the last key, 0 if there was nothing to write."""
        self._open_changes()
        self._finished = True
        seen = {key: 0 if now is None else now.version for key, now in self._seen.items()}
        return commit(self._host, seen, self._changes.writes)

    def rollback(self) -> None:
        """Discard all writes. Repeated calls have no effect."""
        self._finished = True

    def _read(self, key: bytes) -> CurrentValue | None:
        if key not in self._seen:
            with self._host.reading() as fold:
                self._seen[key] = fold.now(key, self._clock.now_us())
        return self._seen[key]

    def _open_changes(self) -> PendingWrites:
        if self._finished:
            raise Closed("this transaction has ended: begin another")
        return self._changes
