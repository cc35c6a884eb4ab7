"""Decodes entries, versions and changes of a key-value view from responses. Pure."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from strandline.api import kv as wire
from strandline.client.bytes_fields import bytes_of, sure_bytes
from strandline.views.kv.values import Change, Entry, Version


def entry_of(entry: wire.KvEntry) -> Entry:
    return Entry(
        key=sure_bytes(entry.key, entry.key_base64),
        value=sure_bytes(entry.value, entry.value_base64),
        version=entry.version,
        ts=entry.us,
        expires_us=_expiry(entry.expires_us),
    )


def found_entry(result: wire.EntryResponse) -> Entry | None:
    return None if result.entry is UNSET else entry_of(result.entry)


def version_of(version: wire.KeyVersion) -> Version:
    return Version(
        version=version.version,
        ts=version.us,
        value=None if version.deleted else bytes_of(version.value, version.value_base64),
        expires_us=_expiry(version.expires_us),
    )


def change_of(change: wire.KvChange) -> Change:
    return Change(
        key=sure_bytes(change.key, change.key_base64),
        value=None if change.deleted else bytes_of(change.value, change.value_base64),
        version=change.version,
        ts=change.us,
        expires_us=_expiry(change.expires_us),
        expired=change.expired,
    )


def value_of(value: wire.ValueResponse) -> bytes | None:
    return bytes_of(value.value, value.value_base64) if value.found else None


def _expiry(expires_us: int | UnsetType) -> int | None:
    return None if expires_us is UNSET or not expires_us else expires_us
