"""Grants: which worker holds which jobs, until when.

A claim grants jobs to a worker for a time, and so does an extension. The number of a grant is the
seq of its record, so it is never reused. The column ``grant`` of a job refers to the grant that
holds it; a grant has the seqs that it was for, and the number of jobs that it still holds.

Time is the monotonic time of this process: setting the clock ends no lease. Records contain the
length of a lease, not its start. A lease that was granted in this process starts at its decision;
one that was read from the log starts, in full, at the first ``look`` after that.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from strandline.views.queue.codec import Seqs

_GRANT_BYTES = 500
"""Measured bytes of the objects of a grant, without its seqs."""
_STALE_MIN = 1024
_STALE_SHARE = 4


class _Grant:
    """Jobs that a worker holds for a time."""

    __slots__ = ("deadline", "lease_ms", "left", "seqs", "worker")

    def __init__(self, seqs: Seqs, worker: bytes, lease_ms: int) -> None:
        self.seqs = seqs
        self.worker = worker
        self.lease_ms = lease_ms
        self.left = len(seqs)
        """Jobs that it still holds."""
        self.deadline: float | None = None
        """When it expires. None: its time has not started."""


class LeaseTerms(NamedTuple):
    """The part of a grant that is stored: everything except its jobs."""

    worker: bytes
    lease_ms: int


class Leases:
    """All grants that hold at least one job. Owned by one thread."""

    def __init__(self) -> None:
        self.now: float | None = None
        """Monotonic time of the last ``look``, None before the first one."""
        self.nbytes = 0
        self._grants: dict[int, _Grant] = {}
        self._workers: dict[bytes, set[int]] = {}
        self._new: list[int] = []
        """Grants whose time has not started."""
        self._heap: list[tuple[float, int]] = []

    def __contains__(self, number: int) -> bool:
        return number in self._grants

    def terms(self, number: int) -> LeaseTerms:
        grant = self._grants[number]
        return LeaseTerms(grant.worker, grant.lease_ms)

    def add(self, number: int, seqs: Seqs, terms: LeaseTerms) -> None:
        """Add a grant that holds these jobs."""
        if not len(seqs):
            return
        grant = self._grants[number] = _Grant(seqs, *terms)
        self.nbytes += _GRANT_BYTES + seqs.nbytes
        self._workers.setdefault(terms.worker, set()).add(number)
        if self.now is None:
            self._new.append(number)
        else:
            self._start(number, grant, self.now)

    def join(self, number: int, seqs: Seqs, terms: LeaseTerms) -> None:
        """Add jobs to a grant, which is restored from parts."""
        grant = self._grants.get(number)
        if grant is None:
            self.add(number, seqs, terms)
            return
        grant.seqs = np.concatenate((grant.seqs, seqs))
        grant.left += len(seqs)
        self.nbytes += seqs.nbytes

    def leave(self, numbers: Seqs) -> None:
        """Remove jobs from their grants; ``numbers`` has the grant of each job."""
        if len(numbers) > 1 and (numbers[0] != numbers).any():
            distinct, counts = np.unique(numbers, return_counts=True)
            for number, count in zip(distinct.tolist(), counts.tolist(), strict=True):
                self._leave(number, count)
        elif len(numbers):
            self._leave(int(numbers[0]), len(numbers))

    def expire(self, now: float) -> Iterator[tuple[int, Seqs]]:
        """Grants that have expired since the last call, with the jobs that they were for."""
        self.now = now
        for number in self._new:
            grant = self._grants.get(number)
            if grant is not None and grant.deadline is None:
                self._start(number, grant, now)
        self._new.clear()
        while self._heap and self._heap[0][0] <= now:
            deadline, number = heapq.heappop(self._heap)
            grant = self._grants.get(number)
            if grant is not None and grant.deadline == deadline:
                yield number, grant.seqs

    def next(self) -> float | None:
        """When the next grant expires, None if there is none."""
        while self._heap and self._heap[0][1] not in self._grants:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def of(self, worker: bytes) -> Iterator[tuple[int, Seqs]]:
        """The grants of a worker, in order."""
        for number in sorted(self._workers.get(worker, ())):
            yield number, self._grants[number].seqs

    def all_terms(self) -> Iterator[tuple[int, LeaseTerms]]:
        """All grants, in order."""
        for number in sorted(self._grants):
            yield number, self.terms(number)

    def _start(self, number: int, grant: _Grant, now: float) -> None:
        grant.deadline = now + grant.lease_ms / 1000
        heapq.heappush(self._heap, (grant.deadline, number))
        if len(self._heap) > _STALE_MIN + _STALE_SHARE * len(self._grants):
            self._heap = [entry for entry in self._heap if entry[1] in self._grants]
            heapq.heapify(self._heap)

    def _leave(self, number: int, count: int) -> None:
        grant = self._grants.get(number)
        if grant is None:
            return
        grant.left -= count
        if grant.left:
            return
        del self._grants[number]
        self.nbytes -= _GRANT_BYTES + grant.seqs.nbytes
        numbers = self._workers[grant.worker]
        numbers.discard(number)
        if not numbers:
            del self._workers[grant.worker]
