"""Metas of jobs and records of leases <-> bytes. Pure.

A job is a record of the queue's topic. Its data is the payload; its options are in its meta. A
record without this meta is a job too: of default priority, without delay, without ttl.

    0   4  "\\0job"
    4   1  flags: 1 its key is unique, 2 not before, 4 expires, 8 returned
    5   1  priority, lower first
    6   8  not before: microseconds since 1970      only with its flag, as those below
    ..  8  expires: the same
    ..  16 returned: number of the redrive, seq of the dead letter
    ..     the rest: key of its group, empty for none

A record of the topic of leases changes the state of many jobs:

    0   3  "\\0ls"
    3   1  kind

    kind 1  claim     lease in ms (4), size of the worker's name (2), name, seqs
         2  extend    the same
         3  nack      not before (8), seqs
         4  end       reason (1), seqs
         5  bury      number (8), seqs
         6  pause     1 for paused, 0 for resumed (1)
         7  survey    MessagePack (views/queue/state/lease_snapshot.py)

Seqs are 8 bytes each, all numbers little-endian. A record of another form is skipped: any client
may append to a topic, and that must not break a fold.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Seqs = NDArray[np.int64]

PRIORITY = 100
"""The default priority."""
PRIORITY_MAX = 255
GROUP_SIZE_MAX = 1024
WORKER_SIZE_MAX = 128
LEASE_MS_MAX = 86_400_000
JOBS_MAX = 1 << 16
"""Jobs in one record of leases: a lease is numbered by claim and index."""

CLAIM, EXTEND, NACK, END, BURY, PAUSE, SURVEY = range(1, 8)

ACKED, DEAD, EXPIRED, LOST, DISCARDED, PURGED = range(6)
"""Why a job has ended. Lost: a repair of the log gave up its record. Discarded: a cap was reached.
Purged: a caller deleted it."""

_JOB = b"\0job"
_LEASE = b"\0ls"
_UNIQUE, _LATER, _EXPIRES, _RETURNED = 1, 2, 4, 8
_FLAGS = _UNIQUE | _LATER | _EXPIRES | _RETURNED
_HEAD = struct.Struct("<4sBB")
_TIME = struct.Struct("<q")
_RETURN = struct.Struct("<qq")
_GRANT = struct.Struct("<IH")
_TIME_MAX = 2**63 - 1


class StoredJobOptions(NamedTuple):
    """The options of a job."""

    priority: int = PRIORITY
    not_before: int = 0
    expires: int = 0
    unique: bool = False
    group: bytes = b""
    returned: tuple[int, int] = (0, 0)
    """Number of the redrive and seq of the dead letter that became this job."""


PLAIN = StoredJobOptions()


class LeaseRecord(NamedTuple):
    """One record of leases. The kind determines which fields are used."""

    kind: int
    seqs: Seqs
    number: int = 0
    """Claim, extend: lease in ms. Nack: not before. End: reason. Bury: its number. Pause: 0, 1."""
    text: bytes = b""
    """Claim, extend: the worker. Survey: the encoded statement."""


NO_SEQS: Seqs = np.empty(0, dtype=np.int64)


def encode_job(job: StoredJobOptions) -> bytes | None:
    """The meta of a job, None for default options."""
    if job == PLAIN:
        return None
    flags = (
        _UNIQUE * job.unique
        | _LATER * bool(job.not_before)
        | _EXPIRES * bool(job.expires)
        | _RETURNED * bool(job.returned[1])
    )
    parts = [_HEAD.pack(_JOB, flags, job.priority)]
    parts += [_TIME.pack(time) for time in (job.not_before, job.expires) if time]
    if job.returned[1]:
        parts.append(_RETURN.pack(*job.returned))
    return b"".join((*parts, job.group))


def decode_job(meta: bytes | None) -> StoredJobOptions:
    """The options in a meta; the defaults for a foreign meta."""
    if meta is None or not meta.startswith(_JOB) or len(meta) < _HEAD.size:
        return PLAIN
    _, flags, priority = _HEAD.unpack_from(meta)
    if flags & ~_FLAGS:
        return PLAIN
    at = _HEAD.size
    times = [0, 0]
    try:
        for index, flag in enumerate((_LATER, _EXPIRES)):
            if flags & flag:
                (times[index],) = _TIME.unpack_from(meta, at)
                at += _TIME.size
        returned = _RETURN.unpack_from(meta, at) if flags & _RETURNED else (0, 0)
    except struct.error:
        return PLAIN
    at += _RETURN.size if flags & _RETURNED else 0
    not_before, expires = (max(0, time) for time in times)
    return StoredJobOptions(
        priority, not_before, expires, bool(flags & _UNIQUE), meta[at:], returned
    )


def foreign_meta(meta: bytes | None) -> bytes | None:
    """The meta of a plain append; None for a meta that the queue wrote."""
    return None if meta is None or meta.startswith(_JOB) else meta


def encode_lease_record(word: LeaseRecord) -> bytes:
    """A record of leases."""
    head = _LEASE + bytes((word.kind,))
    if word.kind in (CLAIM, EXTEND):
        head += _GRANT.pack(word.number, len(word.text)) + word.text
    elif word.kind in (NACK, BURY):
        head += _TIME.pack(word.number)
    elif word.kind in (END, PAUSE):
        head += bytes((word.number,))
    else:
        return head + word.text
    return head + word.seqs.astype("<i8", copy=False).tobytes()


def decode_lease_record(data: bytes) -> LeaseRecord | None:
    """The decoded record of leases, None if it is not one."""
    if not data.startswith(_LEASE) or len(data) < 4:
        return None
    kind, at = data[3], 4
    number, text = 0, b""
    try:
        if kind in (CLAIM, EXTEND):
            number, size = _GRANT.unpack_from(data, at)
            at += _GRANT.size + size
            text = data[at - size : at]
        elif kind in (NACK, BURY):
            (number,) = _TIME.unpack_from(data, at)
            number, at = max(0, number), at + _TIME.size
        elif kind in (END, PAUSE):
            number, at = data[at], at + 1
        elif kind == SURVEY:
            return LeaseRecord(SURVEY, NO_SEQS, 0, data[at:])
        else:
            return None
        seqs = np.frombuffer(data, dtype="<i8", offset=at) if at < len(data) else NO_SEQS
    except (struct.error, ValueError, IndexError):
        return None
    if at > len(data) or len(seqs) > JOBS_MAX or not _distinct(seqs):
        return None
    return LeaseRecord(kind, seqs, number, text)


def _distinct(seqs: Seqs) -> bool:
    """Whether these are seqs without duplicates."""
    if len(seqs) == 0:
        return True
    if len(seqs) > 1 and not (seqs[1:] > seqs[:-1]).all():
        return int(seqs.min()) > 0 and len(np.unique(seqs)) == len(seqs)
    return int(seqs[0]) > 0


def is_valid_time(time_us: int) -> bool:
    """Whether a time can be encoded."""
    return 0 <= time_us <= _TIME_MAX
