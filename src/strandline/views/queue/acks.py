"""What the holder of a lease may do: ack, nack, extend. And giving back all that a worker holds.

Only the current lease counts. One that has run out counts as long as nobody else has been given the
job: the work is done, so why do it again? What is no longer held is skipped, and the rest of the
batch goes on. One call is one record, however many jobs it is about.
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
    Seqs,
    Word,
    encode_word,
)
from strandline.views.queue.fold import LEASES, QueueFold
from strandline.views.queue.job import Held, Settled, Ticket, life_of, of_this_life
from strandline.views.queue.notifier import Bell
from strandline.views.queue.times import moment_after
from strandline.views.view import Draft
from strandline.views.view_runner import Host

Words = Callable[[QueueFold, Seqs], list[Word]]
"""What is to be said of jobs that are held."""


class Settling:
    """Safe from many threads."""

    def __init__(self, host: Host[QueueFold], bell: Bell) -> None:
        self._host = host
        self._bell = bell
        self._clock = host.world.clock

    def ack(self, held: Sequence[Held]) -> Settled:
        """Jobs are done."""
        return self._settle(held, lambda _, seqs: [Word(END, seqs, ACKED)])

    def nack(self, held: Sequence[Held], delay: float) -> Settled:
        """Give jobs back, to be claimed again in so many seconds."""
        not_before = moment_after(self._clock.now_us(), delay, "delay")
        return self._settle(held, lambda _, seqs: [Word(NACK, seqs, not_before)])

    def extend(self, held: Sequence[Held], lease: float | None) -> Settled:
        """Keep jobs for so many seconds from now."""
        given_ms = None if lease is None else lease_ms_of(lease)

        def words(fold: QueueFold, seqs: Seqs) -> list[Word]:
            fold.look(self._clock.monotonic(), self._clock.now_us())
            lease_ms = fold.config.lease_ms if given_ms is None else given_ms
            leases = fold.jobs.leases
            grants = fold.jobs.column("grant", seqs)
            workers: dict[bytes, list[Seqs]] = {}
            for grant in np.unique(grants).tolist():
                workers.setdefault(leases.terms(grant).worker, []).append(seqs[grants == grant])
            return [
                Word(EXTEND, np.concatenate(of_worker), lease_ms, worker)
                for worker, of_worker in sorted(workers.items())
            ]

        return self._settle(held, words)

    def release(self, worker: bytes) -> int:
        """Give back all that a worker holds, at once; how many jobs."""
        released = 0

        def decision(fold: QueueFold) -> Draft | None:
            nonlocal released
            seqs = fold.jobs.held_by(worker)
            released = len(seqs)
            return said([Word(NACK, seqs)]) if released else None

        self._host.decide(decision)
        self._bell.ring()
        return released

    def tickets(self, worker: bytes, seqs: Sequence[int]) -> list[Ticket]:
        """Those of these jobs that a worker holds, under the leases that he has them."""
        life = life_of(self._host.topics[LEASES])
        with self._host.reading() as fold:
            held = fold.jobs.held_among(worker, np.array(seqs, dtype=np.int64))
            pairs = held.tolist(), fold.jobs.column("lease", held).tolist()
        return [Ticket(seq, life + lease) for seq, lease in zip(*pairs, strict=True)]

    def in_hand(self, held: Sequence[Held]) -> list[bool]:
        """Which of these are still under their lease, and it has not run out."""
        life = life_of(self._host.topics[LEASES])
        seqs = np.array([one.seq for one in held], dtype=np.int64)
        leases = np.array([of_this_life(one.lease, life) for one in held], dtype=np.int64)
        with self._host.reading() as fold:
            fold.look(self._clock.monotonic(), self._clock.now_us())
            found: list[bool] = fold.jobs.holds(seqs, leases, in_time=True).tolist()
        return found

    def _settle(self, held: Sequence[Held], words: Words) -> Settled:
        life = life_of(self._host.topics[LEASES])
        named = {one.seq: of_this_life(one.lease, life) for one in held}
        seqs = np.fromiter(named, dtype=np.int64, count=len(named))
        leases = np.fromiter(named.values(), dtype=np.int64, count=len(named))
        if not len(seqs):
            return Settled(0)
        settled = Settled(0)

        def decision(fold: QueueFold) -> Draft | None:
            nonlocal settled
            holds = fold.jobs.holds(seqs, leases)
            done = int(np.count_nonzero(holds))
            if done == len(seqs):
                settled = Settled(done)
                return said(words(fold, seqs))
            settled = Settled(done, tuple(seqs[~holds].tolist()))
            return said(words(fold, seqs[holds])) if done else None

        self._host.decide(decision)
        self._bell.ring()
        return settled


def said(words: Sequence[Word]) -> Draft:
    """Records of leases to be appended, all or none."""
    parts = [
        word._replace(seqs=word.seqs[first : first + JOBS_MAX])
        for word in words
        for first in range(0, len(word.seqs), JOBS_MAX)
    ]
    return Draft(LEASES, [encode_word(part) for part in parts])


def lease_ms_of(lease: float) -> int:
    """A lease in milliseconds."""
    if isinstance(lease, bool) or not isinstance(lease, int | float):
        raise Invalid(f"a lease is a number of seconds, not {type(lease).__name__}")
    if not 0.001 <= lease <= LEASE_MS_MAX / 1000:
        raise Invalid(f"a lease of {lease} s: give from 0.001 to {LEASE_MS_MAX // 1000} seconds")
    return round(lease * 1000)
