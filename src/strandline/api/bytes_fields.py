"""Bytes in JSON, exactly: as what they are when that is JSON or text, else in base64. Pure.

    "key": "ada"                    or  "key_base64": "/wA="
    "value": {"plan": "pro"}        or  "value_base64": "/wA="

Keys are text, values any JSON value, stored as its bytes are written. Of the two names of a pair
one is used. ``records.as_value`` says which bytes are told as JSON.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from strandline.api.records import as_value
from strandline.errors import Invalid

Text: TypeAlias = str | UnsetType
"""A key as text, or nothing."""
Json: TypeAlias = msgspec.Raw | UnsetType
"""Any JSON value as its bytes, or nothing."""
Base64: TypeAlias = bytes | UnsetType
"""Bytes, in base64 on the wire, or nothing."""


def told_key(key: bytes) -> tuple[Text, Base64]:
    """A key as it is told: text if it can be."""
    try:
        return key.decode(), UNSET
    except UnicodeDecodeError:
        return UNSET, key


def told_value(value: bytes) -> tuple[Json, Base64]:
    """A value as it is told: JSON if it is some."""
    raw = as_value(value)
    return (UNSET, value) if raw is None else (raw, UNSET)


def given_key(name: str, text: Text, base64: Base64) -> bytes:
    """The key that a request names."""
    found = found_key(name, text, base64)
    if found is None:
        raise Invalid(f"say {name} or {name}_base64")
    return found


def found_key(name: str, text: Text, base64: Base64) -> bytes | None:
    """The same, None when there is none."""
    _check_one(name, text, base64)
    if text is not UNSET:
        return text.encode()
    return None if base64 is UNSET else base64


def given_value(name: str, value: Json, base64: Base64) -> bytes:
    """The value that a request has."""
    _check_one(name, value, base64)
    if value is not UNSET:
        return bytes(value)
    if base64 is UNSET:
        raise Invalid(f"say {name} (any JSON value) or {name}_base64")
    return base64


def _check_one(name: str, plain: object, base64: object) -> None:
    if plain is not UNSET and base64 is not UNSET:
        raise Invalid(f"say {name} or {name}_base64, not both")
