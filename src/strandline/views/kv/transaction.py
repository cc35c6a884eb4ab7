"""Reads and writes of one key-value view that happen at once, or not at all.

A transaction reads keys when they are asked for and remembers what it saw: asked again, it answers
the same. Writes stay with it until ``commit``. There, in one step with everybody else's appends,
every key that it has read must be as it was seen, else nothing is written and ``Conflict`` is
raised: begin again. Keys that were only written are not looked at.

No locks are held in between, so a transaction that is left lying harms nobody. Scans are not
offered: a key that comes into a range later could not be noticed.
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline.errors import Closed, Conflict
from strandline.views.kv import conditions
from strandline.views.kv.conditions import Now, Write
from strandline.views.kv.fold import KvFold
from strandline.views.kv.pending_writes import Changes, draft_of
from strandline.views.kv.values import Delete, Key, Put, end_of, plain_key
from strandline.views.view import Draft
from strandline.views.view_runner import Host


def commit(host: Host[KvFold], seen: Mapping[bytes, int], writes: Mapping[bytes, Write]) -> int:
    """Write everything, if the keys that were read still have their versions (0: no key).

    The version of the last key that was written, 0 when there was nothing to write.
    """

    def decision(fold: KvFold) -> Draft | None:
        now_us = host.world.clock.now_us()
        for key, version in seen.items():
            slot = fold.live(key, now_us)
            if (0 if slot is None else slot.version) != version:
                raise Conflict(f"key {key!r} has changed since it was read: begin again")
        left = {
            key: write
            for key, write in writes.items()
            if write.value is not None or fold.live(key, now_us) is not None
        }
        return draft_of(left, host.world.share)

    appended = host.decide(decision)
    return 0 if appended is None else appended.last_seq


class Transaction:
    """Made by ``Kv.transaction``, committed at the end of its ``with`` block. Owned by one thread.

    What was raised inside the block travels, and nothing is written.
    """

    def __init__(self, host: Host[KvFold]) -> None:
        self._host = host
        self._clock = host.world.clock
        self._seen: dict[bytes, Now | None] = {}
        self._changes = Changes(self._look, self._clock.now_us())
        self._done = False

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.rollback()
        elif not self._done:
            self.commit()

    def get(self, key: Key) -> bytes | None:
        now = self._open().now(plain_key(key))
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
        """As ``Kv.put``. A condition that does not hold is a Conflict at once."""
        self._open().put(Put(key, value, ttl, nx, xx, version))

    def delete(self, key: Key, *, version: int | None = None) -> bool:
        """Whether the key was there."""
        return self._open().delete(Delete(key, version)) is not None

    def incr(self, key: Key, delta: int = 1) -> int:
        """The new number."""
        return self._open().incr(plain_key(key), delta)

    def touch(self, key: Key, ttl: float) -> bool:
        """Let a key end in so many seconds; whether it is there."""
        changes = self._open()
        return changes.ends(plain_key(key), end_of(ttl, changes.now_us))

    def persist(self, key: Key) -> bool:
        """Let a key stay for ever; whether it is there."""
        return self._open().ends(plain_key(key), 0)

    def json_get(self, key: Key, path: str = "$", default: object = None) -> object:
        plain = plain_key(key)
        now = self._open().now(plain)
        return default if now is None else conditions.json_get(plain, now, path, default)

    def json_set(self, key: Key, path: str, value: object) -> None:
        self._open().json_set(plain_key(key), path, value)

    def json_delete(self, key: Key, path: str) -> bool:
        """Whether the place was there."""
        return self._open().json_delete(plain_key(key), path)

    def commit(self) -> int:
        """Write everything; the version of the last key, 0 when there was nothing to write."""
        self._open()
        self._done = True
        seen = {key: 0 if now is None else now.version for key, now in self._seen.items()}
        return commit(self._host, seen, self._changes.writes)

    def rollback(self) -> None:
        """Forget everything. Twice is fine."""
        self._done = True

    def _look(self, key: bytes) -> Now | None:
        if key not in self._seen:
            with self._host.reading() as fold:
                self._seen[key] = fold.now(key, self._clock.now_us())
        return self._seen[key]

    def _open(self) -> Changes:
        if self._done:
            raise Closed("this transaction is over: begin another")
        return self._changes
