"""Serializes jobs and dead letters to wire structs, and parses requests. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import UNSET

from strandline.api import queues as wire
from strandline.api.bytes_fields import key_fields, optional_key, value_fields
from strandline.errors import Invalid
from strandline.views.queue.dead_letter_codec import DeadLetter
from strandline.views.queue.dead_letter_filter import DeadLetterFilter
from strandline.views.queue.job import Job, LeaseTicket, PeekedJob

_SEQ_MAX = 2**63 - 1


def claimed_job(job: Job, *, micros: bool) -> wire.ClaimedJob:
    data, data_base64 = value_fields(job.data)
    key, key_base64 = (UNSET, UNSET) if job.key is None else key_fields(job.key)
    meta, meta_base64 = (UNSET, UNSET) if job.meta is None else value_fields(job.meta)
    return wire.ClaimedJob(
        seq=job.seq,
        lease_id=str(job.lease),
        deadline=job.deadline // 1000,
        ts=job.ts // 1000,
        deliveries=job.deliveries,
        key=key,
        key_base64=key_base64,
        tag=UNSET if job.tag is None else job.tag,
        data=data,
        data_base64=data_base64,
        meta=meta,
        meta_base64=meta_base64,
        us=job.ts if micros else UNSET,
        deadline_us=job.deadline if micros else UNSET,
    )


def waiting_job(job: PeekedJob, *, micros: bool) -> wire.WaitingJob:
    data, data_base64 = value_fields(job.data)
    key, key_base64 = (UNSET, UNSET) if job.key is None else key_fields(job.key)
    return wire.WaitingJob(
        seq=job.seq,
        ts=job.ts // 1000,
        priority=job.priority,
        deliveries=job.deliveries,
        key=key,
        key_base64=key_base64,
        tag=UNSET if job.tag is None else job.tag,
        data=data,
        data_base64=data_base64,
        us=job.ts if micros else UNSET,
    )


def letter(stored: DeadLetter, queue: str) -> wire.DeadLetterInfo:
    data, data_base64 = value_fields(stored.data)
    key, key_base64 = (UNSET, UNSET) if stored.key is None else key_fields(stored.key)
    group, group_base64 = key_fields(stored.group) if stored.group else (UNSET, UNSET)
    meta, meta_base64 = (UNSET, UNSET) if stored.meta is None else value_fields(stored.meta)
    return wire.DeadLetterInfo(
        seq=stored.seq,
        ts=stored.ts // 1000,
        us=stored.ts,
        queue=stored.queue or queue,
        src_seq=stored.job_seq,
        times=stored.deliveries,
        reason=stored.reason,
        job_seq=stored.job_seq,
        put_us=stored.put_ts,
        deliveries=stored.deliveries,
        priority=stored.priority,
        unique=stored.unique,
        key=key,
        key_base64=key_base64,
        tag=UNSET if stored.tag is None else stored.tag,
        group=group,
        group_base64=group_base64,
        data=data,
        data_base64=data_base64,
        meta=meta,
        meta_base64=meta_base64,
    )


def dead_letter_filter(filter_request: wire.DeadLetterSelection) -> DeadLetterFilter:
    """The dead-letter filter of a request."""
    return DeadLetterFilter(
        seqs=None if filter_request.seqs is None else frozenset(filter_request.seqs),
        key=optional_key("key", filter_request.key, filter_request.key_base64),
        tag=filter_request.tag,
        group=optional_key("group", filter_request.group, filter_request.group_base64),
        contains=optional_key("contains", filter_request.contains, filter_request.contains_base64),
        reason=filter_request.reason,
        before_us=filter_request.before_us,
        after_us=filter_request.after_us,
    )


def tickets(seqs: Sequence[int], lease_ids: Sequence[str]) -> list[LeaseTicket]:
    """Jobs by seq and lease."""
    if len(lease_ids) != len(seqs):
        raise Invalid(f"{len(lease_ids)} lease_ids for {len(seqs)} seqs: send one for each")
    return [
        LeaseTicket(seq, _lease(lease))
        for seq, lease in zip(seqs, lease_ids, strict=True)
        if 0 < seq <= _SEQ_MAX
    ]


def plain_seqs(seqs: Iterable[int]) -> list[int]:
    """The values within the range of seqs, each once."""
    return [seq for seq in dict.fromkeys(seqs) if 0 < seq <= _SEQ_MAX]


def _lease(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 64:
        raise Invalid(f"{text[:80]!r} is not a lease_id: send it as it was returned")
    return int(text)
