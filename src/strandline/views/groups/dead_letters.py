"""Dead letters of a group: records that were delivered too often, appended to a topic of their own.

A dead letter has the data, key, tag and node of the record, and its origin in ``meta``.
"""

from __future__ import annotations

import msgspec

from strandline.records import Record

META_BYTES_MAX = 15 << 10
"""The largest ``meta`` of a record that is copied; the limit of the topic is a little higher."""


class _DeadLetterOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a dead letter."""

    topic: str
    group: str
    seq: int
    ts: int
    deliveries: int
    """How many deliveries failed."""
    meta: bytes | None = None
    """The ``meta`` of the record, None if it had none or a very large one."""


def origin_of(letter: Record) -> _DeadLetterOrigin:
    """The origin of a record of a topic of dead letters."""
    return msgspec.msgpack.decode(letter.meta or b"", type=_DeadLetterOrigin)


def meta_of(record: Record, *, topic: str, group: str, deliveries: int) -> bytes:
    """The ``meta`` of the dead letter of a record."""
    own_meta = record.meta if len(record.meta or b"") <= META_BYTES_MAX else None
    return msgspec.msgpack.encode(
        _DeadLetterOrigin(
            topic=topic,
            group=group,
            seq=record.seq,
            ts=record.ts,
            deliveries=deliveries,
            meta=own_meta,
        )
    )
