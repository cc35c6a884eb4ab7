"""Records that a group has given up: appended to a topic of their own.

A dead letter has the data, key, tag and node of the record, and in ``meta`` where it comes from.
"""

from __future__ import annotations

import msgspec

from strandline.records import Record

META_BYTES_MAX = 15 << 10
"""A record's own ``meta`` is carried along up to here; the topic's limit is little more."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a dead letter comes from."""

    topic: str
    group: str
    seq: int
    ts: int
    deliveries: int
    """How often it was delivered in vain."""
    meta: bytes | None = None
    """The record's own, None when it had none or a very large one."""


def origin_of(letter: Record) -> Origin:
    """Where a record of a topic of dead letters comes from."""
    return msgspec.msgpack.decode(letter.meta or b"", type=Origin)


def meta_of(record: Record, *, topic: str, group: str, deliveries: int) -> bytes:
    """The ``meta`` of the dead letter of a record."""
    kept = record.meta if len(record.meta or b"") <= META_BYTES_MAX else None
    return msgspec.msgpack.encode(
        Origin(
            topic=topic,
            group=group,
            seq=record.seq,
            ts=record.ts,
            deliveries=deliveries,
            meta=kept,
        )
    )
