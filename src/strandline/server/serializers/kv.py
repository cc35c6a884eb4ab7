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
    key_fields,
    required_key,
    required_value,
    value_fields,
)
from strandline.errors import Invalid
from strandline.views.kv.conditions import KeyWrite
from strandline.views.kv.values import Change, Delete, Entry, Put, Version, expiry_of


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
    return required_key("key", request.key, request.key_base64)


def value_of(request: _Valued) -> bytes:
    return required_value("value", request.value, request.value_base64)


def ttl_s(ttl_ms: float | None) -> float | None:
    return None if ttl_ms is None else ttl_ms / 1000


def entry(stored: Entry, *, keys_only: bool = False) -> wire.KvEntry:
    key, key_base64 = key_fields(stored.key)
    value, value_base64 = (UNSET, UNSET) if keys_only else value_fields(stored.value)
    return wire.KvEntry(
        version=stored.version,
        us=stored.ts,
        key=key,
        key_base64=key_base64,
        value=value,
        value_base64=value_base64,
        expires_us=UNSET if stored.expires_us is None else stored.expires_us,
    )


def found_entry(stored: Entry | None) -> wire.EntryResponse:
    if stored is None:
        return wire.EntryResponse(found=False)
    return wire.EntryResponse(found=True, entry=entry(stored))


def value(data: bytes | None) -> wire.ValueResponse:
    if data is None:
        return wire.ValueResponse(found=False)
    plain, base64 = value_fields(data)
    return wire.ValueResponse(found=True, value=plain, value_base64=base64)


def old_version(stored: Version) -> wire.KeyVersion:
    value, base64 = (UNSET, UNSET) if stored.value is None else value_fields(stored.value)
    return wire.KeyVersion(
        version=stored.version,
        us=stored.ts,
        deleted=stored.deleted,
        value=value,
        value_base64=base64,
        expires_us=UNSET if stored.expires_us is None else stored.expires_us,
    )


def change(stored: Change) -> wire.KvChange:
    key, key_base64 = key_fields(stored.key)
    value, base64 = (UNSET, UNSET) if stored.value is None else value_fields(stored.value)
    return wire.KvChange(
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


def operation(request: wire.BatchOperation) -> Put | Delete:
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


def write(request: wire.TransactionWrite, now_us: int) -> KeyWrite:
    """The write of one key in a transaction."""
    if request.value is UNSET and request.value_base64 is UNSET:
        return KeyWrite(None)
    if request.ttl_ms is not None:
        return KeyWrite(value_of(request), expiry_of(ttl_s(request.ttl_ms), now_us))
    return KeyWrite(value_of(request), max(0, request.expires_us))


def versions_seen(seen: Sequence[wire.ReadVersion]) -> dict[bytes | str, int]:
    return {key_of(each): each.version for each in seen}
