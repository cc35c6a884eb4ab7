"""Decides whether and what to write for one key, given its current state. Pure.

``now`` is the key as a reader sees it, None if it has no value: never written, deleted or expired.
Its version is 0 then. Nothing here appends: the functions return what to append, and raise an error
if a condition does not hold.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from strandline.errors import Conflict, Invalid
from strandline.views.kv import json_path

_COUNTER = re.compile(rb"-?(0|[1-9][0-9]{0,18})")
_COUNTER_MIN, _COUNTER_MAX = -(2**63), 2**63 - 1

OWN_VERSION = -1
"""Version of a key that this operation has written itself: its seq is not assigned yet."""


class CurrentValue(NamedTuple):
    """A key that has a value."""

    value: bytes
    version: int
    expires_us: int


class KeyWrite(NamedTuple):
    """The new value of a key; None deletes it."""

    value: bytes | None
    expires_us: int = 0


def check_conditions(*, nx: bool, xx: bool, version: int | None) -> None:
    """Reject conditions that contradict each other."""
    if nx and xx:
        raise Invalid("nx and xx exclude each other: give one of them")
    if version is not None:
        if nx or xx:
            raise Invalid("version already implies whether the key exists: omit nx and xx")
        if isinstance(version, bool) or not isinstance(version, int) or version < 0:
            raise Invalid(f"version is 0 or a version that was returned, not {version!r}")


def check_put(
    key: bytes, now: CurrentValue | None, *, nx: bool, xx: bool, version: int | None
) -> None:
    """Raise Conflict if a condition of a put does not hold."""
    if nx and now is not None:
        raise Conflict(f"{_label(key)} exists, with version {now.version}: nx requires no key")
    if xx and now is None:
        raise Conflict(f"{_label(key)} does not exist: xx requires that it does")
    if version is not None:
        check_version(key, now, version)


def check_version(key: bytes, now: CurrentValue | None, version: int) -> None:
    """Raise Conflict if the key has another version; 0 requires that it does not exist."""
    current = 0 if now is None else now.version
    if current != version:
        state = "does not exist" if now is None else f"has version {current}"
        raise Conflict(f"{_label(key)} {state}, not version {version}: read it again, then decide")


def increment(key: bytes, now: CurrentValue | None, delta: int) -> KeyWrite:
    """Add to a counter: its value is the number as text, 0 if the key does not exist. Its expiry
    does not change."""
    if isinstance(delta, bool) or not isinstance(delta, int):
        raise Invalid(f"delta is a whole number, not {delta!r}")
    if now is None:
        return KeyWrite(_counter(key, delta))
    if not _COUNTER.fullmatch(now.value):
        raise Conflict(f"{_label(key)} is not a counter: its value is not a whole number as text")
    return KeyWrite(_counter(key, int(now.value) + delta), now.expires_us)


def json_set(key: bytes, now: CurrentValue | None, path: str, value: object) -> KeyWrite:
    """The document with a new value at a path. The expiry of the key does not change."""
    if now is None:
        return KeyWrite(json_path.encode(json_path.set_value(None, path, value)))
    document = json_path.set_value(_document(key, now), path, value)
    return KeyWrite(json_path.encode(document), now.expires_us)


def json_delete(key: bytes, now: CurrentValue, path: str) -> KeyWrite | None:
    """The document without the value at a path, None if there is none."""
    document = _document(key, now)
    if not json_path.remove_value(document, path):
        return None
    return KeyWrite(json_path.encode(document), now.expires_us)


def json_get(key: bytes, now: CurrentValue, path: str, default: object) -> object:
    return json_path.value_at(_document(key, now), path, default)


def _document(key: bytes, now: CurrentValue) -> object:
    try:
        return json_path.decode(now.value)
    except ValueError as error:
        raise Conflict(f"the value of {_label(key)} is not JSON: {error}") from error


def _counter(key: bytes, number: int) -> bytes:
    if not _COUNTER_MIN <= number <= _COUNTER_MAX:
        raise Conflict(f"{_label(key)} would exceed the range of 64 bits: {number}")
    return b"%d" % number


def _label(key: bytes) -> str:
    return f"key {key!r}"
