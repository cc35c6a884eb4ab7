"""Keys during an operation: the state that was read, overlaid with its own pending writes.

Each key is written at most once, with its final state: no intermediate step is ever visible.
"""

from __future__ import annotations

from collections.abc import Callable

from strandline.config.memory_budget import MemoryShare
from strandline.views.kv import conditions, meta_codec
from strandline.views.kv.conditions import OWN_VERSION, CurrentValue, KeyWrite
from strandline.views.kv.key_state import ram_of
from strandline.views.kv.values import Delete, Put, expiry_of, plain_key, plain_value
from strandline.views.view import ViewAppend

_ReadKey = Callable[[bytes], CurrentValue | None]
"""Reads the current state of a key."""


class PendingWrites:
    """The reads and writes of one operation. Owned by one thread."""

    def __init__(self, read: _ReadKey, now_us: int) -> None:
        self._read = read
        self.now_us = now_us
        self.writes: dict[bytes, KeyWrite] = {}

    def now(self, key: bytes) -> CurrentValue | None:
        """The key as this operation sees it."""
        own = self.writes.get(key)
        if own is None:
            return self._read(key)
        if own.value is None:
            return None
        return CurrentValue(own.value, OWN_VERSION, own.expires_us)

    def put(self, put: Put) -> bytes:
        """Set a value; return the key."""
        key, value = plain_key(put.key), plain_value(put.value)
        nx, xx, version = put.nx, put.xx, put.version
        conditions.check_conditions(nx=nx, xx=xx, version=version)
        if nx or xx or version is not None:
            conditions.check_put(key, self.now(key), nx=nx, xx=xx, version=version)
        self.writes[key] = KeyWrite(value, expiry_of(put.ttl, self.now_us))
        return key

    def delete(self, delete: Delete) -> bytes | None:
        """Delete a key; return the key, None if it did not exist."""
        key, version = plain_key(delete.key), delete.version
        conditions.check_conditions(nx=False, xx=False, version=version)
        now = self.now(key)
        if version is not None:
            conditions.check_version(key, now, version)
        if now is None:
            return None
        self.writes[key] = KeyWrite(None)
        return key

    def incr(self, key: bytes, delta: int) -> int:
        """Add to a counter; return the new number."""
        write = self.writes[key] = conditions.increment(key, self.now(key), delta)
        assert write.value is not None
        return int(write.value)

    def set_expiry(self, key: bytes, expires_us: int) -> bool:
        """Set the expiry of a key, 0 for none; return whether the key exists."""
        now = self.now(key)
        if now is None:
            return False
        if now.expires_us != expires_us:
            self.writes[key] = KeyWrite(now.value, expires_us)
        return True

    def json_set(self, key: bytes, path: str, value: object) -> None:
        self.writes[key] = conditions.json_set(key, self.now(key), path, value)

    def json_delete(self, key: bytes, path: str) -> bool:
        """Remove the value at a path; return whether it existed."""
        now = self.now(key)
        write = None if now is None else conditions.json_delete(key, now, path)
        if write is None:
            return False
        self.writes[key] = write
        return True

    def draft(self, share: MemoryShare) -> ViewAppend | None:
        """The records to append, one for each key; None without a write."""
        return draft_of(self.writes, share)


def draft_of(writes: dict[bytes, KeyWrite], share: MemoryShare) -> ViewAppend | None:
    """Records that write these keys, all or none. Raises MemoryPressure without memory for them."""
    if not writes:
        return None
    share.admit(sum(ram_of(key, write.value) for key, write in writes.items()))
    return ViewAppend(
        source=0,
        data=[write.value or b"" for write in writes.values()],
        keys=list(writes),
        metas=[
            meta_codec.DELETED if write.value is None else meta_codec.expiry_meta(write.expires_us)
            for write in writes.values()
        ],
    )
