"""Bytes in requests and responses: a pair of fields, one of which is used. Pure.

``api/bytes_fields.py`` defines the encoding of bytes. In addition the client sends deeply nested
JSON in base64, so that a server never rejects a value that an embedded store accepts.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET

from strandline.api.bytes_fields import Base64, Json, Text, key_fields
from strandline.api.json_limits import check_json
from strandline.api.records import as_json, from_base64
from strandline.errors import Invalid

DEPTH_MAX = 32

Pair: TypeAlias = dict[str, Any]
"""Fields of a struct: ``{"key": "ada"}`` or ``{"key_base64": b"..."}``."""


def key_pair(key: bytes, name: str = "key") -> Pair:
    """A key, as fields of a request."""
    text, base64 = key_fields(key)
    return {name: text} if text is not UNSET else {f"{name}_base64": base64}


def maybe_key(key: bytes | None, name: str = "key") -> Pair:
    """The same; no fields for None."""
    return {} if key is None else key_pair(key, name)


def value_pair(value: bytes, name: str = "value") -> Pair:
    """A value, as fields of a request."""
    raw = as_json(value)
    if raw is not None and is_shallow(value):
        return {name: raw}
    return {f"{name}_base64": value}


def is_shallow(text: bytes) -> bool:
    """Whether every server accepts this as JSON: it is nested at most ``DEPTH_MAX`` deep."""
    try:
        check_json(text, DEPTH_MAX)
    except Invalid:
        return False
    return True


def bytes_of(plain: Text | Json, base64: Base64 | str) -> bytes | None:
    """The bytes of a pair of response fields: JSON as written, text, or base64; None if unset."""
    if plain is not UNSET:
        return plain.encode() if isinstance(plain, str) else _exact(plain)
    if base64 is UNSET:
        return None
    return base64 if isinstance(base64, bytes) else from_base64(base64, "base64")


def sure_bytes(plain: Text | Json, base64: Base64 | str) -> bytes:
    """The same for a pair that is always set; an unset pair is empty."""
    return bytes_of(plain, base64) or b""


def _exact(raw: msgspec.Raw) -> bytes:
    return bytes(raw)
