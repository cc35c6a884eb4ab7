"""Entries, versions and changes of a key-value view: answers as the values that users get. Pure."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from strandline.api import kv as wire
from strandline.client.bytes_fields import bytes_of, sure_bytes
from strandline.views.kv.values import Change, Entry, Version


def entry_of(told: wire.Entry) -> Entry:
    return Entry(
        key=sure_bytes(told.key, told.key_base64),
        value=sure_bytes(told.value, told.value_base64),
        version=told.version,
        ts=told.us,
        expires_us=_end(told.expires_us),
    )


def found(told: wire.Found) -> Entry | None:
    return None if told.entry is UNSET else entry_of(told.entry)


def version_of(told: wire.OldVersion) -> Version:
    return Version(
        version=told.version,
        ts=told.us,
        value=None if told.deleted else bytes_of(told.value, told.value_base64),
        expires_us=_end(told.expires_us),
    )


def change_of(told: wire.Change) -> Change:
    return Change(
        key=sure_bytes(told.key, told.key_base64),
        value=None if told.deleted else bytes_of(told.value, told.value_base64),
        version=told.version,
        ts=told.us,
        expires_us=_end(told.expires_us),
        expired=told.expired,
    )


def value_of(told: wire.Value) -> bytes | None:
    return bytes_of(told.value, told.value_base64) if told.found else None


def _end(expires_us: int | UnsetType) -> int | None:
    return None if expires_us is UNSET or not expires_us else expires_us
