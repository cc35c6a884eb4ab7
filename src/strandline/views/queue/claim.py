"""Claims: which request gets which jobs.

With ``claim_jitter_ms``, claims that arrive at about the same time form a cohort. The first one
waits that long, then all are served in one pass and with one append: the jobs are dealt round
robin, so that a fast worker does not get all of them.

Before jobs are delivered, expired jobs are ended, and jobs that were delivered too often are
buried. Jobs are selected and recorded in one decision, so no job is delivered to two workers.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from strandline.views.queue.acks import LeaseOperations, lease_append
from strandline.views.queue.codec import CLAIM, END, LOST, NO_SEQS, LeaseRecord, Seqs
from strandline.views.queue.dead_letters import DeadLetters
from strandline.views.queue.expiry import end_expired
from strandline.views.queue.fold import JOBS, LEASES, QueueFold
from strandline.views.queue.job import Job, lease_epoch_of
from strandline.views.queue.notifier import Notifier
from strandline.views.queue.state.transitions import LEASE_BITS
from strandline.views.view import ViewAppend
from strandline.views.view_runner import ViewRunner

POLL_INTERVAL_S = 0.1
"""The interval at which waiting claims check for plain appends to the topic."""


class ClaimRequest:
    """A claim request and its result. Owned by the thread that serves it."""

    def __init__(self, worker: bytes, count: int, lease_ms: int | None) -> None:
        self.worker = worker
        self.count = count
        self.lease_ms = lease_ms
        self.jobs: list[Job] = []
        self.failure: BaseException | None = None
        self.served: threading.Event | None = None
        """Set when the cohort was served; None for a request without a cohort."""


class _RequestJobs(NamedTuple):
    """The jobs that one request gets."""

    request: ClaimRequest
    seqs: Seqs
    deliveries: Seqs
    lease_ms: int


class _Outcome:
    """The outcome of one decision. Owned by one thread."""

    def __init__(self) -> None:
        self.batches: list[_RequestJobs] = []
        self.bury_first = False
        self.wait_s: float | None = None
        self.now_us = 0


class Claims:
    """Serves claims. Safe to use from many threads."""

    def __init__(
        self,
        host: ViewRunner[QueueFold],
        notifier: Notifier,
        acks: LeaseOperations,
        dead: DeadLetters,
    ) -> None:
        self._host = host
        self._clock = host.world.clock
        self._notifier = notifier
        self._acks = acks
        self._dead = dead
        self._cohort_lock = threading.Lock()
        self._cohort: list[ClaimRequest] = []

    def claim(self, request: ClaimRequest, wait_s: float) -> list[Job]:
        """The jobs of a request; waits for the first one at most ``wait_s`` seconds."""
        if not wait_s:
            self._serve_with_cohort(request)
            return request.jobs
        until = self._clock.monotonic() + wait_s
        # Subscribed before the queue is checked, so no change in between is missed.
        with self._notifier.subscribe_event() as event:
            while True:
                event.clear()
                next_s = self._serve_with_cohort(request)
                left_s = until - self._clock.monotonic()
                if request.jobs or left_s <= 0:
                    return request.jobs
                pause_s = min(
                    left_s, POLL_INTERVAL_S, POLL_INTERVAL_S if next_s is None else max(next_s, 0)
                )
                self._clock.wait(event, pause_s)

    def _serve_with_cohort(self, request: ClaimRequest) -> float | None:
        """Serve a request, with its cohort; return the seconds until a job becomes ready."""
        jitter_ms = self._host.fold.config.claim_jitter_ms
        if not jitter_ms:
            return self._serve([request])
        request.served = served = threading.Event()
        with self._cohort_lock:
            self._cohort.append(request)
            leads = len(self._cohort) == 1
        if leads:
            return self._lead(jitter_ms)
        served.wait()
        if request.failure is not None:
            raise request.failure
        return None

    def _lead(self, jitter_ms: int) -> float | None:
        cohort: list[ClaimRequest] = []
        try:
            try:
                self._clock.wait(threading.Event(), jitter_ms / 1000)
            finally:
                with self._cohort_lock:
                    cohort, self._cohort = self._cohort, []
            return self._serve(cohort)
        except BaseException as error:
            for request in cohort:
                request.failure = error
            raise
        finally:
            for request in cohort:
                if request.served is not None:
                    request.served.set()

    def _serve(self, requests: Sequence[ClaimRequest]) -> float | None:
        """Serve all requests in one pass."""
        self._dead.finish()
        while True:
            outcome = _Outcome()
            appended = self._host.decide(partial(self._decide, requests, outcome))
            if outcome.bury_first:
                self._dead.bury(sum(request.count for request in requests))
            elif appended is None:
                return outcome.wait_s
            # Without batches the append only ended expired jobs: decide again.
            elif outcome.batches and self._deliver(appended.first_seq, outcome):
                return None

    def _decide(
        self, requests: Sequence[ClaimRequest], outcome: _Outcome, fold: QueueFold
    ) -> ViewAppend | None:
        now, outcome.now_us = self._clock.monotonic(), self._clock.now_us()
        outcome.batches, outcome.bury_first = [], False
        fold.advance_time(now, outcome.now_us)
        if fold.paused:
            return None
        expiries = end_expired(self._host, fold, outcome.now_us)
        if expiries is not None:
            return expiries
        seqs = fold.jobs.table.select(sum(request.count for request in requests))
        if not len(seqs):
            outcome.wait_s = fold.wait_s(now, outcome.now_us)
            return None
        deliveries = fold.jobs.column("deliveries", seqs)
        deliveries_max = fold.config.deliveries_max
        if deliveries_max and int(deliveries.max()) >= deliveries_max:
            outcome.bury_first = True
            return None
        for request, indexes in zip(requests, deal(len(seqs), requests), strict=True):
            if len(indexes):
                lease_ms = request.lease_ms or fold.config.lease_ms
                outcome.batches.append(
                    _RequestJobs(request, seqs[indexes], deliveries[indexes] + 1, lease_ms)
                )
        return lease_append(
            [LeaseRecord(CLAIM, b.seqs, b.lease_ms, b.request.worker) for b in outcome.batches]
        )

    def _deliver(self, claim: int, outcome: _Outcome) -> bool:
        """Add the claimed jobs to their requests; return whether any request got one."""
        lost: list[int] = []
        epoch = lease_epoch_of(self._host.topics[LEASES])
        for number, batch in enumerate(outcome.batches, claim):
            deadline = outcome.now_us + batch.lease_ms * 1000
            records = {
                record.seq: record for record in self._host.records(JOBS, batch.seqs.tolist())
            }
            first = epoch + (number << LEASE_BITS)
            pairs = zip(batch.seqs.tolist(), batch.deliveries.tolist(), strict=True)
            for lease, (seq, deliveries) in enumerate(pairs, first):
                record = records.get(seq)
                if record is None:
                    lost.append(seq)
                else:
                    job = Job(self._acks, record, lease, deliveries, deadline)
                    batch.request.jobs.append(job)
        if lost:  # a repair of the log gave up their records
            self._host.decide(lambda _: lease_append([LeaseRecord(END, np.array(lost), LOST)]))
        return any(batch.request.jobs for batch in outcome.batches)


def deal(count: int, requests: Sequence[ClaimRequest]) -> list[Seqs]:
    """The indexes of jobs that each request gets: round robin, each at most its count."""
    if len(requests) == 1:
        return [np.arange(min(count, requests[0].count))]
    shares: list[list[int]] = [[] for _ in requests]
    dealt = 0
    while dealt < count:
        before = dealt
        for share, request in zip(shares, requests, strict=True):
            if dealt < count and len(share) < request.count:
                share.append(dealt)
                dealt += 1
        if dealt == before:
            break
    return [np.array(share) if share else NO_SEQS for share in shares]
