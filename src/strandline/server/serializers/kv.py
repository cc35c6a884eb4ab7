"""Entries of maps as they are told, and what requests say of them. Pure."""

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
    """What names a key."""

    @property
    def key(self) -> Text: ...

    @property
    def key_base64(self) -> Base64: ...


class _Valued(Protocol):
    """What has a value."""

    @property
    def value(self) -> Json: ...

    @property
    def value_base64(self) -> Base64: ...


def key_of(given: _Keyed) -> bytes:
    return given_key("key", given.key, given.key_base64)


def value_of(given: _Valued) -> bytes:
    return given_value("value", given.value, given.value_base64)


def ttl_s(ttl_ms: float | None) -> float | None:
    return None if ttl_ms is None else ttl_ms / 1000


def entry(found: Entry, *, keys_only: bool = False) -> wire.Entry:
    key, key_base64 = told_key(found.key)
    value, value_base64 = (UNSET, UNSET) if keys_only else told_value(found.value)
    return wire.Entry(
        version=found.version,
        us=found.ts,
        key=key,
        key_base64=key_base64,
        value=value,
        value_base64=value_base64,
        expires_us=UNSET if found.expires_us is None else found.expires_us,
    )


def found(found: Entry | None) -> wire.Found:
    if found is None:
        return wire.Found(found=False)
    return wire.Found(found=True, entry=entry(found))


def value(found: bytes | None) -> wire.Value:
    if found is None:
        return wire.Value(found=False)
    plain, base64 = told_value(found)
    return wire.Value(found=True, value=plain, value_base64=base64)


def old_version(found: Version) -> wire.OldVersion:
    value, base64 = (UNSET, UNSET) if found.value is None else told_value(found.value)
    return wire.OldVersion(
        version=found.version,
        us=found.ts,
        deleted=found.deleted,
        value=value,
        value_base64=base64,
        expires_us=UNSET if found.expires_us is None else found.expires_us,
    )


def change(found: Change) -> wire.Change:
    key, key_base64 = told_key(found.key)
    value, base64 = (UNSET, UNSET) if found.value is None else told_value(found.value)
    return wire.Change(
        version=found.version,
        us=found.ts,
        deleted=found.deleted,
        key=key,
        key_base64=key_base64,
        value=value,
        value_base64=base64,
        expires_us=UNSET if found.expires_us is None else found.expires_us,
        expired=found.expired,
    )


def operation(given: wire.Operation) -> Put | Delete:
    """A put or a delete of a batch."""
    key = key_of(given)
    if not given.delete:
        return Put(key, value_of(given), ttl_s(given.ttl_ms), given.nx, given.xx, given.version)
    has_value = given.value is not UNSET or given.value_base64 is not UNSET
    if has_value or given.ttl_ms is not None or given.nx or given.xx:
        raise Invalid("a delete has a key, and maybe a version, and nothing else")
    return Delete(key, given.version)


def write(given: wire.Write, now_us: int) -> Write:
    """What a key becomes by a transaction."""
    if given.value is UNSET and given.value_base64 is UNSET:
        return Write(None)
    if given.ttl_ms is not None:
        return Write(value_of(given), end_of(ttl_s(given.ttl_ms), now_us))
    return Write(value_of(given), max(0, given.expires_us))


def versions_seen(seen: Sequence[wire.Seen]) -> dict[bytes | str, int]:
    return {key_of(each): each.version for each in seen}
