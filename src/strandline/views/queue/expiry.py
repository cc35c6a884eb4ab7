"""Jobs that are over end when somebody looks.

    expired     their own ttl has passed
    too old     they were put longer ago than the ttl of the topic
    too many    a cap is reached, and its topic discards the oldest

That is before jobs are claimed, before a unique key is asked for, after a put that may pass a cap,
once a second, and in the upkeep. A job that is in flight is left to its worker. Caps do not count
it either, until it is given back: a lease that has run out does not give it back.
"""

from __future__ import annotations

from strandline.views.queue.acks import said
from strandline.views.queue.codec import DISCARDED, END, EXPIRED, NO_SEQS, Seqs, Word
from strandline.views.queue.fold import JOBS, AgeLimit, QueueFold
from strandline.views.view import Draft
from strandline.views.view_runner import Host

_RECORDS_AT_ONCE = 256
_BYTES_AT_ONCE = 1 << 20


def end_expired(host: Host[QueueFold], fold: QueueFold, now_us: int) -> Draft | None:
    """What is to be said of jobs that are over, None when there are none."""
    over = fold.jobs.board.expired(now_us)
    if not len(over):
        over = too_old(host, fold, now_us)
    if len(over):
        return said([Word(END, over, EXPIRED)])
    over = _too_many(host, fold)
    return said([Word(END, over, DISCARDED)]) if len(over) else None


def sweep(host: Host[QueueFold]) -> None:
    """End all jobs that are over."""
    clock = host.world.clock

    def decision(fold: QueueFold) -> Draft | None:
        fold.look(clock.monotonic(), clock.now_us())
        return end_expired(host, fold, clock.now_us())

    while host.decide(decision) is not None:
        pass


def too_old(host: Host[QueueFold], fold: QueueFold, now_us: int) -> Seqs:
    """Waiting jobs that were put longer ago than the ttl of the topic."""
    ttl_ms = host.topics[JOBS].config.ttl_ms
    if not ttl_ms:
        return NO_SEQS
    before_us = now_us - ttl_ms * 1000
    limit = fold.age_limit
    if limit is None or before_us < limit.before_us:  # the clock was set back, or the ttl raised
        first = fold.jobs.board.first_live() or fold.heads[JOBS] + 1
        limit = AgeLimit(before_us, first - 1, -1)
    if before_us > limit.next_us:
        limit = _advanced(host, limit.seq, before_us)
    fold.age_limit = limit._replace(before_us=before_us)
    return fold.jobs.board.expirable(limit.seq)


def _advanced(host: Host[QueueFold], seq: int, before_us: int) -> AgeLimit:
    """Stamps rise with seqs: read on until a record is young enough."""
    topic = host.topics[JOBS]
    while True:
        last_ts = topic.estimate().last_ts
        page = topic.read_stored(seq, _RECORDS_AT_ONCE, size_max=_BYTES_AT_ONCE)
        found = page.columns()
        for at, ts in zip(found.seqs, found.stamps, strict=True):
            if ts >= before_us:
                return AgeLimit(before_us, at - 1, ts)
        seq = page.next
        if page.caught_up:
            return AgeLimit(before_us, seq, last_ts)


def _too_many(host: Host[QueueFold], fold: QueueFold) -> Seqs:
    """The oldest waiting jobs, as many as are beyond the caps."""
    config = host.topics[JOBS].config
    if config.discard != "old" or not (config.cap_records or config.cap_bytes):
        return NO_SEQS
    if config.cap_bytes:
        fold.measure(host.world.fetch)
    count, size = fold.jobs.board.waiting
    over_count = count - config.cap_records if config.cap_records else 0
    over_size = size - config.cap_bytes if config.cap_bytes else 0
    if over_count <= 0 and over_size <= 0:
        return NO_SEQS
    return fold.jobs.board.oldest(over_count, over_size)
