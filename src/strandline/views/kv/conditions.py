"""Whether and what to write for one key, given how it is now. Pure.

``now`` is the key as a reader sees it at this moment, None when there is none: never written,
deleted, or its time is over. Its version is 0 then. Nothing here appends: the answer is what to
append, and a refusal is an error.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from strandline.errors import Conflict, Invalid
from strandline.views.kv import json_path

_COUNTER = re.compile(rb"-?(0|[1-9][0-9]{0,18})")
_COUNTER_MIN, _COUNTER_MAX = -(2**63), 2**63 - 1

OWN_VERSION = -1
"""Version of what this operation has written itself: nobody knows it yet."""


class Now(NamedTuple):
    """A key that has a value."""

    value: bytes
    version: int
    expires_us: int


class Write(NamedTuple):
    """What a key becomes; None deletes it."""

    value: bytes | None
    expires_us: int = 0


def check_conditions(*, nx: bool, xx: bool, version: int | None) -> None:
    """Refuse conditions that contradict each other."""
    if nx and xx:
        raise Invalid("nx and xx exclude each other: give one of them")
    if version is not None:
        if nx or xx:
            raise Invalid("version already says whether the key is there: leave nx and xx out")
        if isinstance(version, bool) or not isinstance(version, int) or version < 0:
            raise Invalid(f"version is 0 or a version that was returned, not {version!r}")


def check_put(key: bytes, now: Now | None, *, nx: bool, xx: bool, version: int | None) -> None:
    """Raise when a condition of a put does not hold."""
    if nx and now is not None:
        raise Conflict(f"{_named(key)} is there, with version {now.version}: nx wants it absent")
    if xx and now is None:
        raise Conflict(f"{_named(key)} is not there: xx wants it present")
    if version is not None:
        check_version(key, now, version)


def check_version(key: bytes, now: Now | None, version: int) -> None:
    """Raise when the key has another version; 0 is no key."""
    found = 0 if now is None else now.version
    if found != version:
        has = "is not there" if now is None else f"has version {found}"
        raise Conflict(f"{_named(key)} {has}, not version {version}: read it again, then decide")


def incremented(key: bytes, now: Now | None, delta: int) -> Write:
    """A counter is its number as text, from 0 when there is none; its end stays as it is."""
    if isinstance(delta, bool) or not isinstance(delta, int):
        raise Invalid(f"delta is a whole number, not {delta!r}")
    if now is None:
        return Write(_counter(key, delta))
    if not _COUNTER.fullmatch(now.value):
        raise Conflict(f"{_named(key)} is no counter: its value is not a whole number as text")
    return Write(_counter(key, int(now.value) + delta), now.expires_us)


def json_set(key: bytes, now: Now | None, path: str, value: object) -> Write:
    """The document with another value at a place; its end stays as it is."""
    if now is None:
        return Write(json_path.encode(json_path.replaced(None, path, value)))
    document = json_path.replaced(_document(key, now), path, value)
    return Write(json_path.encode(document), now.expires_us)


def json_delete(key: bytes, now: Now, path: str) -> Write | None:
    """The document without a place, None when there is no such place."""
    document = _document(key, now)
    if not json_path.removed(document, path):
        return None
    return Write(json_path.encode(document), now.expires_us)


def json_get(key: bytes, now: Now, path: str, default: object) -> object:
    return json_path.found(_document(key, now), path, default)


def _document(key: bytes, now: Now) -> object:
    try:
        return json_path.decode(now.value)
    except ValueError as error:
        raise Conflict(f"{_named(key)} holds no JSON: {error}") from error


def _counter(key: bytes, number: int) -> bytes:
    if not _COUNTER_MIN <= number <= _COUNTER_MAX:
        raise Conflict(f"{_named(key)} would leave the range of 64 bits: {number}")
    return b"%d" % number


def _named(key: bytes) -> str:
    return f"key {key!r}"
