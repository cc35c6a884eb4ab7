"""Jobs and dead letters as they are told, and what requests say of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import UNSET

from strandline.api import queues as wire
from strandline.api.bytes_fields import found_key, told_key, told_value
from strandline.errors import Invalid
from strandline.views.queue.dead_letter_codec import DeadLetter
from strandline.views.queue.dead_letter_filter import Meant
from strandline.views.queue.job import Job, Ticket, Waiting

_SEQ_MAX = 2**63 - 1


def claimed_job(job: Job, *, micros: bool) -> wire.ClaimedJob:
    data, data_base64 = told_value(job.data)
    key, key_base64 = (UNSET, UNSET) if job.key is None else told_key(job.key)
    meta, meta_base64 = (UNSET, UNSET) if job.meta is None else told_value(job.meta)
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


def waiting_job(job: Waiting, *, micros: bool) -> wire.WaitingJob:
    data, data_base64 = told_value(job.data)
    key, key_base64 = (UNSET, UNSET) if job.key is None else told_key(job.key)
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


def letter(found: DeadLetter, queue: str) -> wire.Letter:
    data, data_base64 = told_value(found.data)
    key, key_base64 = (UNSET, UNSET) if found.key is None else told_key(found.key)
    group, group_base64 = told_key(found.group) if found.group else (UNSET, UNSET)
    meta, meta_base64 = (UNSET, UNSET) if found.meta is None else told_value(found.meta)
    return wire.Letter(
        seq=found.seq,
        ts=found.ts // 1000,
        us=found.ts,
        queue=found.queue or queue,
        src_seq=found.job_seq,
        times=found.deliveries,
        reason=found.reason,
        job_seq=found.job_seq,
        put_us=found.put_ts,
        deliveries=found.deliveries,
        priority=found.priority,
        unique=found.unique,
        key=key,
        key_base64=key_base64,
        tag=UNSET if found.tag is None else found.tag,
        group=group,
        group_base64=group_base64,
        data=data,
        data_base64=data_base64,
        meta=meta,
        meta_base64=meta_base64,
    )


def meant(given: wire.Meant) -> Meant:
    """Which dead letters a request means."""
    return Meant(
        seqs=None if given.seqs is None else frozenset(given.seqs),
        key=found_key("key", given.key, given.key_base64),
        tag=given.tag,
        group=found_key("group", given.group, given.group_base64),
        contains=found_key("contains", given.contains, given.contains_base64),
        reason=given.reason,
        before_us=given.before_us,
        after_us=given.after_us,
    )


def tickets(seqs: Sequence[int], lease_ids: Sequence[str]) -> list[Ticket]:
    """Jobs by seq and lease."""
    if len(lease_ids) != len(seqs):
        raise Invalid(f"{len(lease_ids)} lease_ids for {len(seqs)} seqs: give one for each")
    return [
        Ticket(seq, _lease(lease))
        for seq, lease in zip(seqs, lease_ids, strict=True)
        if 0 < seq <= _SEQ_MAX
    ]


def plain_seqs(seqs: Iterable[int]) -> list[int]:
    """Those that can be seqs at all, each once."""
    return [seq for seq in dict.fromkeys(seqs) if 0 < seq <= _SEQ_MAX]


def _lease(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 64:
        raise Invalid(f"{text[:80]!r} is no lease_id: give it as it was told")
    return int(text)
