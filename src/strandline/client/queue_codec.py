"""Jobs and dead letters: answers as the values that users get, and what is said of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from strandline.api import queues as wire
from strandline.client.bytes_fields import bytes_of, key_pair, maybe_key, sure_bytes, value_pair
from strandline.records import Record
from strandline.views.queue.dead_letter_codec import DeadLetter, Where
from strandline.views.queue.dead_letter_filter import EVERY, Meant
from strandline.views.queue.job import Held, Waiting


def record_of(told: wire.ClaimedJob) -> Record:
    """The record that a claimed job is."""
    return Record(
        seq=told.seq,
        ts=told.ts * 1000 if told.us is UNSET else told.us,
        data=sure_bytes(told.data, told.data_base64),
        key=bytes_of(told.key, told.key_base64),
        tag=None if told.tag is UNSET else told.tag,
        meta=bytes_of(told.meta, told.meta_base64),
    )


def deadline_of(told: wire.ClaimedJob) -> int:
    return told.deadline * 1000 if told.deadline_us is UNSET else told.deadline_us


def waiting_of(told: wire.WaitingJob) -> Waiting:
    return Waiting(
        seq=told.seq,
        ts=told.ts * 1000 if told.us is UNSET else told.us,
        data=sure_bytes(told.data, told.data_base64),
        key=bytes_of(told.key, told.key_base64),
        tag=None if told.tag is UNSET else told.tag,
        priority=told.priority,
        deliveries=told.deliveries,
    )


def letter_of(told: wire.Letter) -> DeadLetter:
    return DeadLetter(
        seq=told.seq,
        ts=told.us,
        data=sure_bytes(told.data, told.data_base64),
        key=bytes_of(told.key, told.key_base64),
        tag=None if told.tag is UNSET else told.tag,
        reason=told.reason,
        job_seq=told.job_seq,
        put_ts=told.put_us,
        deliveries=told.deliveries,
        priority=told.priority,
        group=sure_bytes(told.group, told.group_base64),
        meta=bytes_of(told.meta, told.meta_base64),
        queue=told.queue,
        unique=told.unique,
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
            **maybe_key(None if keys is None else keys[place]),
            **(key_pair(groups[place], "group") if groups and groups[place] else {}),
            priority=None if priorities is None else priorities[place],
        )
        for place, each in enumerate(data)
    ]


def named(held: Sequence[Held]) -> dict[str, Any]:
    """Jobs by their seqs and leases, as fields of a request. A seq that comes twice counts once."""
    leases = {one.seq: one.lease for one in held}
    return {"seqs": list(leases), "lease_ids": [str(lease) for lease in leases.values()]}


def filter_of(where: Where | None) -> wire.Meant | None:
    """What the server can look for itself; None when only the caller can say it."""
    meant = EVERY if where is None else getattr(where, "__self__", None)
    if not isinstance(meant, Meant):
        return None
    return wire.Meant(
        seqs=None if meant.seqs is None else sorted(meant.seqs),
        **maybe_key(meant.key),
        tag=meant.tag,
        **maybe_key(meant.group, "group"),
        **maybe_key(meant.contains, "contains"),
        reason=meant.reason,
        before_us=meant.before_us,
        after_us=meant.after_us,
    )
