"""The operations of the holder of a lease: ack, nack, extend; and release of all jobs of a worker.

Only the current lease of a job is valid. An expired lease stays valid until the job is claimed
again: the work is done and need not be repeated. Jobs that are no longer held are skipped; the rest
of the batch is processed. One call appends one record, however many jobs it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from strandline.errors import Invalid
from strandline.views.queue.codec import (
    ACKED,
    END,
    EXTEND,
    JOBS_MAX,
    LEASE_MS_MAX,
    NACK,
    LeaseRecord,
    Seqs,
    encode_lease_record,
)
from strandline.views.queue.fold import LEASES, QueueFold
from strandline.views.queue.job import (
    AckResult,
    LeaseReference,
    LeaseTicket,
    lease_epoch_of,
    number_in_epoch,
)
from strandline.views.queue.notifier import Notifier
from strandline.views.queue.times import time_after
from strandline.views.view import ViewAppend
from strandline.views.view_runner import ViewRunner

_LeaseRecords = Callable[[QueueFold, Seqs], list[LeaseRecord]]
"""Returns the records of leases for jobs that are held."""


class LeaseOperations:
    """Acks, nacks and extensions of leases. Safe to use from many threads."""

    def __init__(self, host: ViewRunner[QueueFold], notifier: Notifier) -> None:
        self._host = host
        self._notifier = notifier
        self._clock = host.world.clock

    def ack(self, held: Sequence[LeaseReference]) -> AckResult:
        """End jobs that are done."""
        return self._apply(held, lambda _, seqs: [LeaseRecord(END, seqs, ACKED)])

    def nack(self, held: Sequence[LeaseReference], delay: float) -> AckResult:
        """Return jobs, to be claimed again after ``delay`` seconds."""
        not_before = time_after(self._clock.now_us(), delay, "delay")
        return self._apply(held, lambda _, seqs: [LeaseRecord(NACK, seqs, not_before)])

    def extend(self, held: Sequence[LeaseReference], lease: float | None) -> AckResult:
        """Extend leases to ``lease`` seconds from now, by default to the lease of the queue."""
        own_ms = None if lease is None else lease_ms_of(lease)

        def words(fold: QueueFold, seqs: Seqs) -> list[LeaseRecord]:
            fold.advance_time(self._clock.monotonic(), self._clock.now_us())
            lease_ms = fold.config.lease_ms if own_ms is None else own_ms
            leases = fold.jobs.leases
            grants = fold.jobs.column("grant", seqs)
            workers: dict[bytes, list[Seqs]] = {}
            for grant in np.unique(grants).tolist():
                workers.setdefault(leases.terms(grant).worker, []).append(seqs[grants == grant])
            return [
                LeaseRecord(EXTEND, np.concatenate(of_worker), lease_ms, worker)
                for worker, of_worker in sorted(workers.items())
            ]

        return self._apply(held, words)

    def release(self, worker: bytes) -> int:
        """Return all jobs that a worker holds, without delay; return how many."""
        released = 0

        def decision(fold: QueueFold) -> ViewAppend | None:
            nonlocal released
            seqs = fold.jobs.held_by(worker)
            released = len(seqs)
            return lease_append([LeaseRecord(NACK, seqs)]) if released else None

        self._host.decide(decision)
        self._notifier.notify()
        return released

    def tickets(self, worker: bytes, seqs: Sequence[int]) -> list[LeaseTicket]:
        """Tickets for those of these jobs that a worker holds."""
        epoch = lease_epoch_of(self._host.topics[LEASES])
        with self._host.reading() as fold:
            held = fold.jobs.held_among(worker, np.array(seqs, dtype=np.int64))
            pairs = held.tolist(), fold.jobs.column("lease", held).tolist()
        return [LeaseTicket(seq, epoch + lease) for seq, lease in zip(*pairs, strict=True)]

    def still_leased(self, held: Sequence[LeaseReference]) -> list[bool]:
        """Which of these are still under their lease, which has not expired."""
        epoch = lease_epoch_of(self._host.topics[LEASES])
        seqs = np.array([one.seq for one in held], dtype=np.int64)
        leases = np.array([number_in_epoch(one.lease, epoch) for one in held], dtype=np.int64)
        with self._host.reading() as fold:
            fold.advance_time(self._clock.monotonic(), self._clock.now_us())
            result: list[bool] = fold.jobs.holds(seqs, leases, in_time=True).tolist()
        return result

    def _apply(self, held: Sequence[LeaseReference], words: _LeaseRecords) -> AckResult:
        epoch = lease_epoch_of(self._host.topics[LEASES])
        by_seq = {one.seq: number_in_epoch(one.lease, epoch) for one in held}
        seqs = np.fromiter(by_seq, dtype=np.int64, count=len(by_seq))
        leases = np.fromiter(by_seq.values(), dtype=np.int64, count=len(by_seq))
        if not len(seqs):
            return AckResult(0)
        result = AckResult(0)

        def decision(fold: QueueFold) -> ViewAppend | None:
            nonlocal result
            holds = fold.jobs.holds(seqs, leases)
            done = int(np.count_nonzero(holds))
            if done == len(seqs):
                result = AckResult(done)
                return lease_append(words(fold, seqs))
            result = AckResult(done, tuple(seqs[~holds].tolist()))
            return lease_append(words(fold, seqs[holds])) if done else None

        self._host.decide(decision)
        self._notifier.notify()
        return result


def lease_append(words: Sequence[LeaseRecord]) -> ViewAppend:
    """The append of records of leases, all or none. A record has at most ``JOBS_MAX`` jobs."""
    parts = [
        word._replace(seqs=word.seqs[first : first + JOBS_MAX])
        for word in words
        for first in range(0, len(word.seqs), JOBS_MAX)
    ]
    return ViewAppend(LEASES, [encode_lease_record(part) for part in parts])


def lease_ms_of(lease: float) -> int:
    """A lease in milliseconds."""
    if isinstance(lease, bool) or not isinstance(lease, int | float):
        raise Invalid(f"a lease is a number of seconds, not {type(lease).__name__}")
    if not 0.001 <= lease <= LEASE_MS_MAX / 1000:
        raise Invalid(f"a lease of {lease} s: give from 0.001 to {LEASE_MS_MAX // 1000} seconds")
    return round(lease * 1000)
