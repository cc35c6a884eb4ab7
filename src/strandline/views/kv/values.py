"""Values of a key-value view: entries, versions, changes, operations; checks of keys and ttls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from strandline.errors import Invalid, TooLarge
from strandline.views.kv.meta_codec import EXPIRES_US_MAX, DeletedMeta, ExpiryMeta, decode

if TYPE_CHECKING:
    from strandline.records import Record

Key = str | bytes

KEY_BYTES_MAX = 4096
_MICROSECONDS = 1_000_000


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A key with its value."""

    key: bytes
    value: bytes
    version: int
    """Seq of its record; never used twice."""
    ts: int
    """When it was written, in microseconds since 1970."""
    expires_us: int | None = None
    """When it expires; None is never."""


class Version(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A version of a key in its history."""

    version: int
    ts: int
    value: bytes | None
    """None when the key was deleted."""
    expires_us: int | None = None

    @property
    def deleted(self) -> bool:
        return self.value is None


class Change(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A change of a key. To resume a watch after it, use ``after=change.version``."""

    key: bytes
    value: bytes | None
    """None when the key was deleted."""
    version: int
    ts: int
    expires_us: int | None = None
    expired: bool = False
    """Whether it was deleted because it had expired."""

    @property
    def deleted(self) -> bool:
        return self.value is None


class Put(msgspec.Struct, frozen=True):
    """Set the value of a key, if the conditions hold."""

    key: Key
    value: bytes
    ttl: float | None = None
    nx: bool = False
    xx: bool = False
    version: int | None = None


class Delete(msgspec.Struct, frozen=True):
    """Delete a key, if it has this version or ``version`` is None."""

    key: Key
    version: int | None = None


def change_of(record: Record) -> Change:
    """The change that a record with a key made."""
    assert record.key is not None
    meta = None if record.meta is None else decode(record.meta)
    if type(meta) is DeletedMeta:
        return Change(
            key=record.key, value=None, version=record.seq, ts=record.ts, expired=meta.expired
        )
    return Change(
        key=record.key,
        value=record.data,
        version=record.seq,
        ts=record.ts,
        expires_us=meta.expires_us if type(meta) is ExpiryMeta else None,
    )


def version_of(record: Record) -> Version:
    """A record as a version of its key."""
    change = change_of(record)
    return Version(
        version=change.version, ts=change.ts, value=change.value, expires_us=change.expires_us
    )


def plain_key(key: Key) -> bytes:
    """The key as bytes. Raises Invalid or TooLarge if it cannot be a key."""
    if isinstance(key, str):
        try:
            key = key.encode()
        except UnicodeEncodeError as error:
            raise Invalid(f"{key!r} cannot be a key: {error}") from error
    if type(key) is not bytes:
        raise Invalid(f"a key is text or bytes, not {type(key).__name__}")
    if not key:
        raise Invalid("a key has at least one byte")
    if len(key) > KEY_BYTES_MAX:
        raise TooLarge(f"a key of {len(key)} bytes is too large: the limit is {KEY_BYTES_MAX}")
    return key


def plain_value(value: bytes) -> bytes:
    if type(value) is not bytes:
        raise Invalid(f"a value is bytes, not {type(value).__name__}")
    return value


def expiry_of(ttl: float | None, now_us: int) -> int:
    """The time at which a ttl in seconds ends; 0 is never."""
    if ttl is None:
        return 0
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not ttl > 0:
        raise Invalid(f"ttl is a number of seconds above 0, or None, not {ttl!r}")
    if ttl > (EXPIRES_US_MAX - now_us) / _MICROSECONDS:
        raise Invalid(f"ttl {ttl} is too long: use None for ever")
    return now_us + max(1, round(ttl * _MICROSECONDS))
