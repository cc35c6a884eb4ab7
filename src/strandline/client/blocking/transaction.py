# Made from asynchronous/transaction.py by tests/house/blocking.py: change that one.
"""Reads and writes of one key-value view that are applied together, or not at all.

The client computes the new entries from the entries that were read, with the rules of an embedded
store (``views/kv/pending_writes.py``). The server writes them if every key that was read still has
the same version; otherwise it responds with a Conflict and writes nothing.
"""

from __future__ import annotations

from strandline.api import kv as wire
from strandline.client import kv_codec
from strandline.client.blocking.endpoint import RemoteEndpoint
from strandline.client.bytes_fields import key_pair, value_pair
from strandline.errors import Closed
from strandline.views.kv import conditions
from strandline.views.kv.conditions import CurrentValue
from strandline.views.kv.pending_writes import PendingWrites
from strandline.views.kv.values import Delete, Key, Put, expiry_of, plain_key


class RemoteTransaction:
    """Created by ``RemoteKv.transaction``, committed at the end of its block. Owned by one thread.

    An error inside the block is passed on, and nothing is written.
    """

    def __init__(self, endpoint: RemoteEndpoint) -> None:
        self._endpoint = endpoint
        self._seen: dict[bytes, CurrentValue | None] = {}
        self._changes = PendingWrites(self._seen.__getitem__, endpoint.clock.now_us())
        self._ttls: dict[bytes, float] = {}
        """Keys with a time to live in seconds from the commit, by the server's clock."""
        self._done = False

    def __enter__(self) -> RemoteTransaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.rollback()
        elif not self._done:
            self.commit()

    def get(self, key: Key) -> bytes | None:
        current = (self._read(key)).now(plain_key(key))
        return None if current is None else current.value

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
        """As ``RemoteKv.put``. A condition that does not hold raises Conflict at once."""
        if nx or xx or version is not None:
            self._read(key)
        self._open_changes().put(Put(key, value, ttl, nx, xx, version))
        self._set_ttl(plain_key(key), ttl)

    def delete(self, key: Key, *, version: int | None = None) -> bool:
        """Delete a key; return whether it existed."""
        return (self._read(key)).delete(Delete(key, version)) is not None

    def incr(self, key: Key, delta: int = 1) -> int:
        """Add to a counter; return the new number."""
        return (self._read(key)).incr(plain_key(key), delta)

    def touch(self, key: Key, ttl: float) -> bool:
        """Set the time to live of a key in seconds; return whether it exists."""
        changes = self._read(key)
        exists = changes.set_expiry(plain_key(key), expiry_of(ttl, changes.now_us))
        if exists:
            self._set_ttl(plain_key(key), ttl)
        return exists

    def persist(self, key: Key) -> bool:
        """Remove the time to live of a key; return whether it exists."""
        exists = (self._read(key)).set_expiry(plain_key(key), 0)
        self._set_ttl(plain_key(key), None)
        return exists

    def json_get(self, key: Key, path: str = "$", default: object = None) -> object:
        plain = plain_key(key)
        current = (self._read(key)).now(plain)
        return default if current is None else conditions.json_get(plain, current, path, default)

    def json_set(self, key: Key, path: str, value: object) -> None:
        (self._read(key)).json_set(plain_key(key), path, value)

    def json_delete(self, key: Key, path: str) -> bool:
        """Delete a path; return whether it existed."""
        return (self._read(key)).json_delete(plain_key(key), path)

    def commit(self) -> int:
        """Write all changes; the version of the last key, 0 when there was nothing to write."""
        self._open_changes()
        self._done = True
        seen = [
            wire.ReadVersion(**key_pair(key), version=0 if current is None else current.version)
            for key, current in self._seen.items()
        ]
        if not (seen or self._changes.writes):
            return 0
        writes = [self._write(key, write) for key, write in self._changes.writes.items()]
        body = wire.CommitRequest(seen=seen, writes=writes)
        return (self._endpoint.post("commit", body, wire.VersionResponse)).version

    def rollback(self) -> None:
        """Discard all changes. Calling it twice is fine."""
        self._done = True

    def _read(self, key: Key) -> PendingWrites:
        """The pending writes, after the key has been read."""
        changes, plain = self._open_changes(), plain_key(key)
        if plain not in self._seen and plain not in changes.writes:
            body = wire.GetRequest(**key_pair(plain))
            entry = kv_codec.found_entry(self._endpoint.post_safe("get", body, wire.EntryResponse))
            self._seen[plain] = (
                None
                if entry is None
                else CurrentValue(entry.value, entry.version, entry.expires_us or 0)
            )
        return changes

    def _set_ttl(self, key: bytes, ttl: float | None) -> None:
        if ttl is None:
            self._ttls.pop(key, None)
        else:
            self._ttls[key] = ttl

    def _write(self, key: bytes, write: conditions.KeyWrite) -> wire.TransactionWrite:
        if write.value is None:
            return wire.TransactionWrite(**key_pair(key))
        fields = {**key_pair(key), **value_pair(write.value)}
        if key in self._ttls:
            return wire.TransactionWrite(**fields, ttl_ms=self._ttls[key] * 1000)
        return wire.TransactionWrite(**fields, expires_us=write.expires_us)

    def _open_changes(self) -> PendingWrites:
        if self._done:
            raise Closed("this transaction has ended: begin another")
        return self._changes
