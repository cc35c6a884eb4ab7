"""Claims: who gets which jobs.

With ``claim_jitter_ms`` those who ask at about the same time form a cohort. The first of them waits
so long, then all are served in one pass: job after job to one after the other, so that a quick
asker does not take everything, and with one append for all.

Before jobs are given out, those that have expired are ended, and those that were given out often
enough already are buried. What is to be given out is chosen and written down in one decision, so no
job goes to two.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from strandline.views.queue.acks import Settling, said
from strandline.views.queue.codec import CLAIM, END, LOST, NO_SEQS, Seqs, Word
from strandline.views.queue.dead_letters import DeadLetters
from strandline.views.queue.expiry import end_expired
from strandline.views.queue.fold import JOBS, LEASES, QueueFold
from strandline.views.queue.job import Job, life_of
from strandline.views.queue.notifier import Bell
from strandline.views.queue.state.transitions import LEASE_BITS
from strandline.views.view import Draft
from strandline.views.view_runner import Host

PATIENCE_S = 0.1
"""How soon a plain append to the topic is noticed by those who wait."""


class Asker:
    """Somebody who wants jobs, and what he got. Owned by whoever serves."""

    def __init__(self, worker: bytes, count: int, lease_ms: int | None) -> None:
        self.worker = worker
        self.count = count
        self.lease_ms = lease_ms
        self.jobs: list[Job] = []
        self.failure: BaseException | None = None
        self.served: threading.Event | None = None
        """Set when the cohort was served; None for who asks alone."""


class _Hand(NamedTuple):
    """What one asker gets."""

    asker: Asker
    seqs: Seqs
    deliveries: Seqs
    lease_ms: int


class _Pass:
    """One look at the queue: what was decided. Owned by one thread."""

    def __init__(self) -> None:
        self.hands: list[_Hand] = []
        self.again = False
        self.wait_s: float | None = None
        self.now_us = 0


class Claiming:
    """Safe from many threads."""

    def __init__(
        self, host: Host[QueueFold], bell: Bell, settling: Settling, dead: DeadLetters
    ) -> None:
        self._host = host
        self._clock = host.world.clock
        self._bell = bell
        self._settling = settling
        self._dead = dead
        self._gathering = threading.Lock()
        self._cohort: list[Asker] = []

    def claim(self, asker: Asker, wait_s: float) -> list[Job]:
        """Jobs for somebody; waits for the first one at most so long."""
        if not wait_s:
            self._ask(asker)
            return asker.jobs
        until = self._clock.monotonic() + wait_s
        with self._bell.listen() as rung:
            while True:
                rung.clear()
                next_s = self._ask(asker)
                left = until - self._clock.monotonic()
                if asker.jobs or left <= 0:
                    return asker.jobs
                patience = min(left, PATIENCE_S, PATIENCE_S if next_s is None else max(next_s, 0))
                self._clock.wait(rung, patience)

    def _ask(self, asker: Asker) -> float | None:
        """Serve somebody, with his cohort; how long until another look is worth it."""
        jitter_ms = self._host.fold.config.claim_jitter_ms
        if not jitter_ms:
            return self._serve([asker])
        asker.served = served = threading.Event()
        with self._gathering:
            self._cohort.append(asker)
            leads = len(self._cohort) == 1
        if leads:
            return self._lead(jitter_ms)
        served.wait()
        if asker.failure is not None:
            raise asker.failure
        return None

    def _lead(self, jitter_ms: int) -> float | None:
        cohort: list[Asker] = []
        try:
            try:
                self._clock.wait(threading.Event(), jitter_ms / 1000)
            finally:
                with self._gathering:
                    cohort, self._cohort = self._cohort, []
            return self._serve(cohort)
        except BaseException as error:
            for asker in cohort:
                asker.failure = error
            raise
        finally:
            for asker in cohort:
                if asker.served is not None:
                    asker.served.set()

    def _serve(self, askers: Sequence[Asker]) -> float | None:
        """One pass for all who ask."""
        self._dead.finish()
        while True:
            done = _Pass()
            appended = self._host.decide(partial(self._decide, askers, done))
            if done.again:
                self._dead.bury(sum(asker.count for asker in askers))
            elif appended is None:
                return done.wait_s
            elif done.hands and self._hand_over(appended.first_seq, done):
                return None

    def _decide(self, askers: Sequence[Asker], done: _Pass, fold: QueueFold) -> Draft | None:
        now, done.now_us = self._clock.monotonic(), self._clock.now_us()
        done.hands, done.again = [], False
        fold.look(now, done.now_us)
        if fold.paused:
            return None
        over = end_expired(self._host, fold, done.now_us)
        if over is not None:
            return over
        seqs = fold.jobs.board.select(sum(asker.count for asker in askers))
        if not len(seqs):
            done.wait_s = fold.wait_s(now, done.now_us)
            return None
        deliveries = fold.jobs.column("deliveries", seqs)
        deliveries_max = fold.config.deliveries_max
        if deliveries_max and int(deliveries.max()) >= deliveries_max:
            done.again = True
            return None
        for asker, places in zip(askers, deal(len(seqs), askers), strict=True):
            if len(places):
                lease_ms = asker.lease_ms or fold.config.lease_ms
                done.hands.append(_Hand(asker, seqs[places], deliveries[places] + 1, lease_ms))
        return said([Word(CLAIM, h.seqs, h.lease_ms, h.asker.worker) for h in done.hands])

    def _hand_over(self, claim: int, done: _Pass) -> bool:
        """Give everybody his jobs; whether anybody got one."""
        lost: list[int] = []
        life = life_of(self._host.topics[LEASES])
        for number, hand in enumerate(done.hands, claim):
            deadline = done.now_us + hand.lease_ms * 1000
            found = {record.seq: record for record in self._host.records(JOBS, hand.seqs.tolist())}
            first = life + (number << LEASE_BITS)
            told = zip(hand.seqs.tolist(), hand.deliveries.tolist(), strict=True)
            for lease, (seq, deliveries) in enumerate(told, first):
                record = found.get(seq)
                if record is None:
                    lost.append(seq)
                else:
                    job = Job(self._settling, record, lease, deliveries, deadline)
                    hand.asker.jobs.append(job)
        if lost:  # a repair gave their records up
            self._host.decide(lambda _: said([Word(END, np.array(lost), LOST)]))
        return any(hand.asker.jobs for hand in done.hands)


def deal(count: int, askers: Sequence[Asker]) -> list[Seqs]:
    """Which of so many jobs each asker gets: one after the other, each at most what he wants."""
    if len(askers) == 1:
        return [np.arange(min(count, askers[0].count))]
    hands: list[list[int]] = [[] for _ in askers]
    dealt = 0
    while dealt < count:
        before = dealt
        for hand, asker in zip(hands, askers, strict=True):
            if dealt < count and len(hand) < asker.count:
                hand.append(dealt)
                dealt += 1
        if dealt == before:
            break
    return [np.array(hand) if hand else NO_SEQS for hand in hands]
