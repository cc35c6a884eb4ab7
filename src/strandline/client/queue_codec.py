"""Decodes jobs and dead letters, and encodes requests about them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from strandline.api import queues as wire
from strandline.client.bytes_fields import bytes_of, key_pair, maybe_key, sure_bytes, value_pair
from strandline.records import Record
from strandline.views.queue.dead_letter_codec import DeadLetter, DeadLetterPredicate
from strandline.views.queue.dead_letter_filter import ALL_DEAD_LETTERS, DeadLetterFilter
from strandline.views.queue.job import LeaseReference, PeekedJob


def record_of(job: wire.ClaimedJob) -> Record:
    """The record of a claimed job."""
    return Record(
        seq=job.seq,
        ts=job.ts * 1000 if job.us is UNSET else job.us,
        data=sure_bytes(job.data, job.data_base64),
        key=bytes_of(job.key, job.key_base64),
        tag=None if job.tag is UNSET else job.tag,
        meta=bytes_of(job.meta, job.meta_base64),
    )


def deadline_of(job: wire.ClaimedJob) -> int:
    return job.deadline * 1000 if job.deadline_us is UNSET else job.deadline_us


def waiting_of(job: wire.WaitingJob) -> PeekedJob:
    return PeekedJob(
        seq=job.seq,
        ts=job.ts * 1000 if job.us is UNSET else job.us,
        data=sure_bytes(job.data, job.data_base64),
        key=bytes_of(job.key, job.key_base64),
        tag=None if job.tag is UNSET else job.tag,
        priority=job.priority,
        deliveries=job.deliveries,
    )


def letter_of(letter: wire.DeadLetterInfo) -> DeadLetter:
    return DeadLetter(
        seq=letter.seq,
        ts=letter.us,
        data=sure_bytes(letter.data, letter.data_base64),
        key=bytes_of(letter.key, letter.key_base64),
        tag=None if letter.tag is UNSET else letter.tag,
        reason=letter.reason,
        job_seq=letter.job_seq,
        put_ts=letter.put_us,
        deliveries=letter.deliveries,
        priority=letter.priority,
        group=sure_bytes(letter.group, letter.group_base64),
        meta=bytes_of(letter.meta, letter.meta_base64),
        queue=letter.queue,
        unique=letter.unique,
    )


def new_jobs(
    data: Sequence[bytes],
    keys: Sequence[bytes | None] | None,
    groups: Sequence[bytes] | None,
    priorities: Sequence[int] | None,
) -> list[wire.NewJob]:
    return [
        wire.NewJob(
            **value_pair(each, "data"),
            **maybe_key(None if keys is None else keys[index]),
            **(key_pair(groups[index], "group") if groups and groups[index] else {}),
            priority=None if priorities is None else priorities[index],
        )
        for index, each in enumerate(data)
    ]


def lease_fields(held: Sequence[LeaseReference]) -> dict[str, Any]:
    """Seqs and leases of jobs, as fields of a request. A repeated seq counts once."""
    leases = {job.seq: job.lease for job in held}
    return {"seqs": list(leases), "lease_ids": [str(lease) for lease in leases.values()]}


def filter_of(where: DeadLetterPredicate | None) -> wire.DeadLetterSelection | None:
    """The filter for the server to apply; None when only the caller can evaluate it."""
    dead_letters = ALL_DEAD_LETTERS if where is None else getattr(where, "__self__", None)
    if not isinstance(dead_letters, DeadLetterFilter):
        return None
    return wire.DeadLetterSelection(
        seqs=None if dead_letters.seqs is None else sorted(dead_letters.seqs),
        **maybe_key(dead_letters.key),
        tag=dead_letters.tag,
        **maybe_key(dead_letters.group, "group"),
        **maybe_key(dead_letters.contains, "contains"),
        reason=dead_letters.reason,
        before_us=dead_letters.before_us,
        after_us=dead_letters.after_us,
    )
