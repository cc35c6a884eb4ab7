"""A dead letter <-> a record of the topic of dead letters. Pure.

Data, key and tag are those of the job. The meta is a JSON object that every reader of the topic can
use:

    $dead_letter_from           name of the queue
    $dead_letter_src_seq        seq of the job
    $dead_letter_deliveries     number of deliveries
    $dead_letter_reason         why it became a dead letter
    $dead_letter_put_us         time of the put: microseconds since 1970
    $dead_letter_priority       priority of the job
    $dead_letter_unique         true if its key was unique; omitted if not
    $dead_letter_group          its group, or $dead_letter_group_base64; omitted without a group
    $dead_letter_meta           the meta that was appended with it, or $dead_letter_meta_base64

Older letters have a binary meta, which is still decoded:

    0   5  "\\0dead"
    5   8  seq of the job
    13  8  time of the put: microseconds since 1970
    21  2  number of deliveries
    23  1  size of the reason
    24     reason, UTF-8
    ..     the rest: meta of the job

A record without either is a dead letter that was appended by hand.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from strandline.log.append.batch import META_SIZE_MAX
from strandline.records import Record
from strandline.views.queue.codec import PRIORITY, decode_job, foreign_meta

_MARK = b"\0dead"
_HEAD = struct.Struct("<5sqqHB")
_PREFIX = b'{"$dead_letter_from":'
_raw = msgspec.json.Decoder(msgspec.Raw)

TOO_MANY_DELIVERIES = "deliveries"
"""The reason of a job that was delivered as often as the queue allows."""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job that was delivered too often."""

    seq: int
    """Its seq in the topic of dead letters."""
    ts: int
    """When it became a dead letter."""
    data: bytes
    key: bytes | None
    tag: str | None
    reason: str
    job_seq: int
    """Its seq as a job, 0 if it was not a job."""
    put_ts: int
    """When it was put."""
    deliveries: int
    priority: int
    group: bytes
    meta: bytes | None
    """The meta that was appended with the job as a plain record."""
    queue: str = ""
    """The queue of the job, empty if the letter does not name it."""
    unique: bool = False
    """Whether its key was unique."""


DeadLetterPredicate = Callable[[DeadLetter], bool]
"""A filter: whether an operation applies to a dead letter."""


class _Origin(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename=lambda name: f"$dead_letter_{name}",
):
    """The meta of a letter. ``queue`` is the first field: letters are recognised by its bytes."""

    queue: str = msgspec.field(name="$dead_letter_from")
    src_seq: int
    deliveries: int
    reason: str
    put_us: int
    priority: int = PRIORITY
    unique: bool = False
    group: str | UnsetType = UNSET
    group_base64: bytes | UnsetType = UNSET
    meta: msgspec.Raw | UnsetType = UNSET
    meta_base64: bytes | UnsetType = UNSET


def encode(record: Record, deliveries: int, reason: str, queue: str) -> bytes:
    """The meta of a dead letter. A meta of the job that is too large for it is omitted."""
    job = decode_job(record.meta)
    own = foreign_meta(record.meta)
    fields: dict[str, Any] = {}
    if job.group:
        fields |= _pair("group", job.group, _as_text(job.group))
    if own is not None:
        fields |= _pair("meta", own, _as_json(own))
    origin = _Origin(
        queue=queue,
        src_seq=record.seq,
        deliveries=deliveries,
        reason=reason,
        put_us=record.ts,
        priority=job.priority,
        unique=job.unique,
        **fields,
    )
    meta = msgspec.json.encode(origin)
    if len(meta) <= META_SIZE_MAX:
        return meta
    bare = msgspec.structs.replace(origin, meta=UNSET, meta_base64=UNSET)
    return msgspec.json.encode(bare)


def decode(record: Record) -> DeadLetter:
    """The dead letter in a record of the topic."""
    meta = record.meta
    if meta is not None and meta.startswith(_PREFIX):
        try:
            return _letter(record, msgspec.json.decode(meta, type=_Origin))
        except msgspec.DecodeError:
            pass  # appended by hand
    return _decode_binary(record)


def _letter(record: Record, origin: _Origin) -> DeadLetter:
    group = b"" if origin.group_base64 is UNSET else origin.group_base64
    meta = None if origin.meta_base64 is UNSET else origin.meta_base64
    return DeadLetter(
        seq=record.seq,
        ts=record.ts,
        data=record.data,
        key=record.key,
        tag=record.tag,
        reason=origin.reason,
        job_seq=origin.src_seq,
        put_ts=origin.put_us,
        deliveries=origin.deliveries,
        priority=origin.priority,
        group=group if origin.group is UNSET else origin.group.encode(),
        meta=meta if origin.meta is UNSET else bytes(origin.meta),
        queue=origin.queue,
        unique=origin.unique,
    )


def _decode_binary(record: Record) -> DeadLetter:
    job_seq = put_ts = deliveries = 0
    reason, meta = "", record.meta
    if meta is not None and meta.startswith(_MARK) and len(meta) >= _HEAD.size:
        _, job_seq, put_ts, deliveries, size = _HEAD.unpack_from(meta)
        job_meta_at = _HEAD.size + size
        reason = meta[_HEAD.size : job_meta_at].decode(errors="replace")
        meta = meta[job_meta_at:] or None
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
        meta=foreign_meta(meta),
        unique=job.unique,
    )


def _pair(name: str, data: bytes, plain: object) -> dict[str, Any]:
    return {f"{name}_base64": data} if plain is None else {name: plain}


def _as_text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _as_json(data: bytes) -> msgspec.Raw | None:
    """JSON text that is encoded byte for byte as it is, None for other bytes."""
    if not data or data[:1].isspace() or data[-1:].isspace():
        return None
    try:
        data.decode()
        return _raw.decode(data)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return None
