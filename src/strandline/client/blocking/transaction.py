# Made from asynchronous/transaction.py by tests/house/blocking.py: change that one.
"""Reads and writes of one key-value view that happen at once, or not at all.

What a key becomes is decided here, with the rules of an open store
(``views/kv/pending_writes.py``), from
what was read. The server writes it if every key that was read is still as it was seen; else that is
a Conflict, and nothing is written.
"""

from __future__ import annotations

from strandline.api import kv as wire
from strandline.client import kv_codec
from strandline.client.blocking.endpoint import RemoteRoute
from strandline.client.bytes_fields import key_pair, value_pair
from strandline.errors import Closed
from strandline.views.kv import conditions
from strandline.views.kv.conditions import Now
from strandline.views.kv.pending_writes import Changes
from strandline.views.kv.values import Delete, Key, Put, end_of, plain_key


class RemoteTransaction:
    """Made by ``RemoteKv.transaction``, committed at the end of its block. Owned by one thread.

    What was raised inside the block travels, and nothing is written.
    """

    def __init__(self, at: RemoteRoute) -> None:
        self._at = at
        self._seen: dict[bytes, Now | None] = {}
        self._changes = Changes(self._seen.__getitem__, at.clock.now_us())
        self._ttls: dict[bytes, float] = {}
        """Keys whose end is told in seconds from the commit on: the server's clock counts."""
        self._done = False

    def __enter__(self) -> RemoteTransaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.rollback()
        elif not self._done:
            self.commit()

    def get(self, key: Key) -> bytes | None:
        now = (self._looked(key)).now(plain_key(key))
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
        """As ``RemoteKv.put``. A condition that does not hold is a Conflict at once."""
        if nx or xx or version is not None:
            self._looked(key)
        self._open().put(Put(key, value, ttl, nx, xx, version))
        self._ends(plain_key(key), ttl)

    def delete(self, key: Key, *, version: int | None = None) -> bool:
        """Whether the key was there."""
        return (self._looked(key)).delete(Delete(key, version)) is not None

    def incr(self, key: Key, delta: int = 1) -> int:
        """The new number."""
        return (self._looked(key)).incr(plain_key(key), delta)

    def touch(self, key: Key, ttl: float) -> bool:
        """Let a key end in so many seconds; whether it is there."""
        changes = self._looked(key)
        is_there = changes.ends(plain_key(key), end_of(ttl, changes.now_us))
        if is_there:
            self._ends(plain_key(key), ttl)
        return is_there

    def persist(self, key: Key) -> bool:
        """Let a key stay for ever; whether it is there."""
        is_there = (self._looked(key)).ends(plain_key(key), 0)
        self._ends(plain_key(key), None)
        return is_there

    def json_get(self, key: Key, path: str = "$", default: object = None) -> object:
        plain = plain_key(key)
        now = (self._looked(key)).now(plain)
        return default if now is None else conditions.json_get(plain, now, path, default)

    def json_set(self, key: Key, path: str, value: object) -> None:
        (self._looked(key)).json_set(plain_key(key), path, value)

    def json_delete(self, key: Key, path: str) -> bool:
        """Whether the place was there."""
        return (self._looked(key)).json_delete(plain_key(key), path)

    def commit(self) -> int:
        """Write everything; the version of the last key, 0 when there was nothing to write."""
        self._open()
        self._done = True
        seen = [
            wire.Seen(**key_pair(key), version=0 if now is None else now.version)
            for key, now in self._seen.items()
        ]
        if not (seen or self._changes.writes):
            return 0
        writes = [self._write(key, write) for key, write in self._changes.writes.items()]
        asked = wire.Commit(seen=seen, writes=writes)
        return (self._at.do("commit", asked, wire.Versioned)).version

    def rollback(self) -> None:
        """Forget everything. Twice is fine."""
        self._done = True

    def _looked(self, key: Key) -> Changes:
        """What is to be written, once the key has been looked at."""
        changes, plain = self._open(), plain_key(key)
        if plain not in self._seen and plain not in changes.writes:
            asked = wire.Get(**key_pair(plain))
            entry = kv_codec.found(self._at.find("get", asked, wire.Found))
            self._seen[plain] = (
                None if entry is None else Now(entry.value, entry.version, entry.expires_us or 0)
            )
        return changes

    def _ends(self, key: bytes, ttl: float | None) -> None:
        if ttl is None:
            self._ttls.pop(key, None)
        else:
            self._ttls[key] = ttl

    def _write(self, key: bytes, write: conditions.Write) -> wire.Write:
        if write.value is None:
            return wire.Write(**key_pair(key))
        said = {**key_pair(key), **value_pair(write.value)}
        if key in self._ttls:
            return wire.Write(**said, ttl_ms=self._ttls[key] * 1000)
        return wire.Write(**said, expires_us=write.expires_us)

    def _open(self) -> Changes:
        if self._done:
            raise Closed("this transaction is over: begin another")
        return self._changes
