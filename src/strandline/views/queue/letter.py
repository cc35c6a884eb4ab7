"""A dead letter <-> a record of the topic of dead letters. Pure.

Data, key and tag are those of the job. The meta tells where it comes from:

    0   5  "\\0dead"
    5   8  seq that it had as a job
    13  8  when it was put: microseconds since 1970
    21  2  how often it was given out
    23  1  size of the reason
    24     reason, UTF-8
    ..     the rest: meta of the job

A record without this meta is a dead letter that somebody has appended by hand.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import msgspec

from strandline.record import Record
from strandline.topic.batch import META_SIZE_MAX
from strandline.views.queue.codec import decode_job

_MARK = b"\0dead"
_HEAD = struct.Struct("<5sqqHB")

WORN_OUT = "deliveries"
"""It was given out as often as the queue allows."""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job that was given up."""

    seq: int
    """Its place among the dead letters."""
    ts: int
    """When it was given up."""
    data: bytes
    key: bytes | None
    tag: str | None
    reason: str
    job_seq: int
    """The seq that it had as a job, 0 when it was none."""
    put_ts: int
    """When it was put."""
    deliveries: int
    priority: int
    group: bytes
    meta: bytes | None
    """The meta of the job."""


Where = Callable[[DeadLetter], bool]
"""Says which dead letters are meant."""


def encode(record: Record, deliveries: int, reason: str) -> bytes:
    """The meta of a dead letter."""
    text = reason.encode()
    head = _HEAD.pack(_MARK, record.seq, record.ts, deliveries, len(text)) + text
    own = record.meta or b""
    return head + own if len(head) + len(own) <= META_SIZE_MAX else head


def decode(record: Record) -> DeadLetter:
    """What a record of the topic says."""
    job_seq = put_ts = deliveries = 0
    reason, meta = "", record.meta
    if meta is not None and meta.startswith(_MARK) and len(meta) >= _HEAD.size:
        _, job_seq, put_ts, deliveries, size = _HEAD.unpack_from(meta)
        behind = _HEAD.size + size
        reason = meta[_HEAD.size : behind].decode(errors="replace")
        meta = meta[behind:] or None
    job = decode_job(meta)
    return DeadLetter(
        seq=record.seq,
        ts=record.ts,
        data=record.data,
        key=record.key,
        tag=record.tag,
        reason=reason,
        job_seq=job_seq,
        put_ts=put_ts,
        deliveries=deliveries,
        priority=job.priority,
        group=job.group,
        meta=meta,
    )
