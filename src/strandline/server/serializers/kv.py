"""Serializes entries of maps to wire structs, and parses requests. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import UNSET

from strandline.api import kv as wire
from strandline.api.bytes_fields import (
    Base64,
    Json,
    Text,
    given_key,
    given_value,
    told_key,
    told_value,
)
from strandline.errors import Invalid
from strandline.views.kv.conditions import Write
from strandline.views.kv.values import Change, Delete, Entry, Put, Version, end_of


class _Keyed(Protocol):
    """A request with a key."""

    @property
    def key(self) -> Text: ...

    @property
    def key_base64(self) -> Base64: ...


class _Valued(Protocol):
    """A request with a value."""

    @property
    def value(self) -> Json: ...

    @property
    def value_base64(self) -> Base64: ...


def key_of(request: _Keyed) -> bytes:
    return given_key("key", request.key, request.key_base64)


def value_of(request: _Valued) -> bytes:
    return given_value("value", request.value, request.value_base64)


def ttl_s(ttl_ms: float | None) -> float | None:
    return None if ttl_ms is None else ttl_ms / 1000


def entry(stored: Entry, *, keys_only: bool = False) -> wire.Entry:
    key, key_base64 = told_key(stored.key)
    value, value_base64 = (UNSET, UNSET) if keys_only else told_value(stored.value)
    return wire.Entry(
        version=stored.version,
        us=stored.ts,
        key=key,
        key_base64=key_base64,
        value=value,
        value_base64=value_base64,
        expires_us=UNSET if stored.expires_us is None else stored.expires_us,
    )


def found(stored: Entry | None) -> wire.Found:
    if stored is None:
        return wire.Found(found=False)
    return wire.Found(found=True, entry=entry(stored))


def value(data: bytes | None) -> wire.Value:
    if data is None:
        return wire.Value(found=False)
    plain, base64 = told_value(data)
    return wire.Value(found=True, value=plain, value_base64=base64)


def old_version(stored: Version) -> wire.OldVersion:
    value, base64 = (UNSET, UNSET) if stored.value is None else told_value(stored.value)
    return wire.OldVersion(
        version=stored.version,
        us=stored.ts,
        deleted=stored.deleted,
        value=value,
        value_base64=base64,
        expires_us=UNSET if stored.expires_us is None else stored.expires_us,
    )


def change(stored: Change) -> wire.Change:
    key, key_base64 = told_key(stored.key)
    value, base64 = (UNSET, UNSET) if stored.value is None else told_value(stored.value)
    return wire.Change(
        version=stored.version,
        us=stored.ts,
        deleted=stored.deleted,
        key=key,
        key_base64=key_base64,
        value=value,
        value_base64=base64,
        expires_us=UNSET if stored.expires_us is None else stored.expires_us,
        expired=stored.expired,
    )


def operation(request: wire.Operation) -> Put | Delete:
    """A put or a delete of a batch."""
    key = key_of(request)
    if not request.delete:
        return Put(
            key, value_of(request), ttl_s(request.ttl_ms), request.nx, request.xx, request.version
        )
    has_value = request.value is not UNSET or request.value_base64 is not UNSET
    if has_value or request.ttl_ms is not None or request.nx or request.xx:
        raise Invalid("a delete has a key, optionally a version, and no other field")
    return Delete(key, request.version)


def write(request: wire.Write, now_us: int) -> Write:
    """The write of one key in a transaction."""
    if request.value is UNSET and request.value_base64 is UNSET:
        return Write(None)
    if request.ttl_ms is not None:
        return Write(value_of(request), end_of(ttl_s(request.ttl_ms), now_us))
    return Write(value_of(request), max(0, request.expires_us))


def versions_seen(seen: Sequence[wire.Seen]) -> dict[bytes | str, int]:
    return {key_of(each): each.version for each in seen}
