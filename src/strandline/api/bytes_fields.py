"""Lossless bytes in JSON: plain when they are JSON or text, else in base64. Pure.

    "key": "ada"                    or  "key_base64": "/wA="
    "value": {"plan": "pro"}        or  "value_base64": "/wA="

Keys are text. Values are any JSON value, stored with the bytes that were sent. Exactly one of the
two names of a pair is used. ``as_json`` of ``api/records.py`` decides which bytes are sent as JSON.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from strandline.api.records import as_json
from strandline.errors import Invalid

Text: TypeAlias = str | UnsetType
"""A key as text, or absent."""
Json: TypeAlias = msgspec.Raw | UnsetType
"""Any JSON value as its bytes, or absent."""
Base64: TypeAlias = bytes | UnsetType
"""Bytes, in base64 on the wire, or absent."""


def key_fields(key: bytes) -> tuple[Text, Base64]:
    """The pair of fields for a key: text if it is UTF-8, else base64."""
    try:
        return key.decode(), UNSET
    except UnicodeDecodeError:
        return UNSET, key


def value_fields(value: bytes) -> tuple[Json, Base64]:
    """The pair of fields for a value: JSON if it is valid JSON, else base64."""
    raw = as_json(value)
    return (UNSET, value) if raw is None else (raw, UNSET)


def required_key(name: str, text: Text, base64: Base64) -> bytes:
    """The key of a request; Invalid without one."""
    key = optional_key(name, text, base64)
    if key is None:
        raise Invalid(f"{name} is missing: send {name} or {name}_base64")
    return key


def optional_key(name: str, text: Text, base64: Base64) -> bytes | None:
    """The key of a request, None without one."""
    _check_one(name, text, base64)
    if text is not UNSET:
        return text.encode()
    return None if base64 is UNSET else base64


def required_value(name: str, value: Json, base64: Base64) -> bytes:
    """The value of a request; Invalid without one."""
    _check_one(name, value, base64)
    if value is not UNSET:
        return bytes(value)
    if base64 is UNSET:
        raise Invalid(f"{name} is missing: send {name} (any JSON value) or {name}_base64")
    return base64


def _check_one(name: str, plain: object, base64: object) -> None:
    if plain is not UNSET and base64 is not UNSET:
        raise Invalid(f"send {name} or {name}_base64, not both")
