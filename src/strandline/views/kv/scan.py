"""Scans: entries in the order of their keys, read in pages.

A page is read under the lock of the view, from the end of the page before it. Expired keys are
skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from strandline.errors import Invalid, NotFound
from strandline.views.kv.fold import KvFold
from strandline.views.kv.key_state import Slot
from strandline.views.kv.values import Entry, Key, plain_key
from strandline.views.view_runner import ViewRunner

_PAGE_FIRST = 16
_PAGE_MAX = 1024


class KeyRange(NamedTuple):
    """A range of keys, ``[first, next)``, and its direction."""

    first: bytes | None
    next: bytes | None
    reverse: bool


def range_of(
    prefix: Key | None, first: Key | None, next: Key | None, after: Key | None, *, reverse: bool
) -> KeyRange:
    """The range of a scan that is left after its cursor."""
    if prefix is not None and (first is not None or next is not None):
        raise Invalid("scan a prefix or a range, not both")
    low = None if not first else plain_key(first)
    high = None if next is None else _bound(next)
    if prefix:
        low = plain_key(prefix)
        high = prefix_end(low)
    if after is not None and reverse:
        high = plain_key(after) if high is None else min(high, plain_key(after))
    elif after is not None:
        follower = plain_key(after) + b"\0"
        low = follower if low is None else max(low, follower)
    return KeyRange(low, high, reverse)


def scan(host: ViewRunner[KvFold], span: KeyRange, limit: int | None) -> Iterator[Entry]:
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise Invalid(f"limit is a whole number from 0 up, or None, not {limit!r}")
    return _scan(host, span, limit)


def prefix_end(prefix: bytes) -> bytes | None:
    """The smallest key after all keys with a prefix, None if there is none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def prefix_matcher(prefix: Key | None) -> Callable[[bytes], bool]:
    """A function that tests whether a key has a prefix."""
    start = b"" if not prefix else plain_key(prefix)
    return lambda key: key.startswith(start)


def _bound(key: Key) -> bytes:
    return plain_key(key) if key else b""


def entry_of(host: ViewRunner[KvFold], key: bytes, slot: Slot) -> Entry | None:
    """A key with its value, from memory or from the log; None if it has no value any more."""
    value = slot.value
    if value is None:
        record = host.record(0, slot.version)
        if record is None:
            return _newer(host, key, slot)
        value = record.data
    return Entry(
        key=key,
        value=value,
        version=slot.version,
        ts=slot.ts,
        expires_us=slot.expires_us or None,
    )


def _newer(host: ViewRunner[KvFold], key: bytes, slot: Slot) -> Entry | None:
    """The current entry of a key whose record has left the log since the key was looked up."""
    with host.reading() as fold:
        newer = fold.live(key, host.world.clock.now_us())
    if newer is not None and newer.version == slot.version:
        raise NotFound(f"the value of key {key!r}, record {slot.version}, was lost")
    return None if newer is None else entry_of(host, key, newer)


def _scan(host: ViewRunner[KvFold], span: KeyRange, limit: int | None) -> Iterator[Entry]:
    now_us = host.world.clock.now_us
    first, next, reverse = span
    size = _PAGE_FIRST
    remaining = limit
    while remaining is None or remaining > 0:
        count_max = size if remaining is None else min(remaining, size)
        with host.reading() as fold:
            page = fold.page(first, next, count_max, reverse=reverse)
        now = now_us()
        for key, slot in page:
            if 0 < slot.expires_us <= now:
                continue
            entry = entry_of(host, key, slot)
            if entry is not None:
                yield entry
                remaining = None if remaining is None else remaining - 1
        if len(page) < count_max:
            return
        last = page[-1][0]
        first, next = (first, last) if reverse else (last + b"\0", next)
        size = min(2 * size, _PAGE_MAX)
