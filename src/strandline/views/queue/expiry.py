"""Ends jobs that have expired or exceed a limit.

    expired     their own ttl has passed
    too old     they were put longer ago than the ttl of the topic
    too many    a cap is reached, and its topic discards the oldest

Such jobs are ended before a claim, before a unique key is checked, after a put that may exceed a
cap, once a second, and when the log is trimmed. A job in flight stays with its worker. Caps do not
count it either until it is returned; the expiry of its lease does not return it.
"""

from __future__ import annotations

from strandline.views.queue.acks import lease_append
from strandline.views.queue.codec import DISCARDED, END, EXPIRED, NO_SEQS, LeaseRecord, Seqs
from strandline.views.queue.fold import JOBS, AgeLimit, QueueFold
from strandline.views.view import ViewAppend
from strandline.views.view_runner import ViewRunner

_RECORDS_AT_ONCE = 256
_BYTES_AT_ONCE = 1 << 20


def end_expired(host: ViewRunner[QueueFold], fold: QueueFold, now_us: int) -> ViewAppend | None:
    """The append that ends such jobs, None if there are none."""
    seqs = fold.jobs.table.expired(now_us)
    if not len(seqs):
        seqs = too_old(host, fold, now_us)
    if len(seqs):
        return lease_append([LeaseRecord(END, seqs, EXPIRED)])
    seqs = _too_many(host, fold)
    return lease_append([LeaseRecord(END, seqs, DISCARDED)]) if len(seqs) else None


def sweep(host: ViewRunner[QueueFold]) -> None:
    """End all such jobs."""
    clock = host.world.clock

    def decision(fold: QueueFold) -> ViewAppend | None:
        fold.advance_time(clock.monotonic(), clock.now_us())
        return end_expired(host, fold, clock.now_us())

    while host.decide(decision) is not None:
        pass


def too_old(host: ViewRunner[QueueFold], fold: QueueFold, now_us: int) -> Seqs:
    """Waiting jobs that were put longer ago than the ttl of the topic."""
    ttl_ms = host.topics[JOBS].config.ttl_ms
    if not ttl_ms:
        return NO_SEQS
    before_us = now_us - ttl_ms * 1000
    limit = fold.age_limit
    if limit is None or before_us < limit.before_us:  # the clock was set back, or the ttl raised
        first = fold.jobs.table.first_live() or fold.heads[JOBS] + 1
        limit = AgeLimit(before_us, first - 1, -1)
    if before_us > limit.next_us:
        limit = _advance_age_limit(host, limit.seq, before_us)
    fold.age_limit = limit._replace(before_us=before_us)
    return fold.jobs.table.expirable(limit.seq)


def _advance_age_limit(host: ViewRunner[QueueFold], seq: int, before_us: int) -> AgeLimit:
    """Read forward to the first record that is young enough: timestamps ascend with seqs."""
    topic = host.topics[JOBS]
    while True:
        last_ts = topic.estimate().last_ts
        page = topic.read_stored(seq, _RECORDS_AT_ONCE, size_max=_BYTES_AT_ONCE)
        columns = page.columns()
        for at, ts in zip(columns.seqs, columns.stamps, strict=True):
            if ts >= before_us:
                return AgeLimit(before_us, at - 1, ts)
        seq = page.next
        if page.caught_up:
            return AgeLimit(before_us, seq, last_ts)


def _too_many(host: ViewRunner[QueueFold], fold: QueueFold) -> Seqs:
    """The oldest waiting jobs that exceed the caps."""
    config = host.topics[JOBS].config
    if config.discard != "old" or not (config.cap_records or config.cap_bytes):
        return NO_SEQS
    if config.cap_bytes:
        fold.measure(host.world.fetch)
    count, size = fold.jobs.table.waiting
    excess_count = count - config.cap_records if config.cap_records else 0
    excess_size = size - config.cap_bytes if config.cap_bytes else 0
    if excess_count <= 0 and excess_size <= 0:
        return NO_SEQS
    return fold.jobs.table.oldest(excess_count, excess_size)
