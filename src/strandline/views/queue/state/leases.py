"""Who holds what, until when.

A claim grants jobs to a worker for a time, and so does extending them. A grant is known by the seq
of its record, so it never repeats. Jobs know which grant holds them (column ``grant``); a grant
knows which jobs it was for, and how many it still holds.

Time here is the monotonic time of this process: setting the clock ends no lease. The records tell
how long a lease is, not when it began. One that was granted here counts from the moment at which it
was decided; one that was found in the log, from the first look at it, in full.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from strandline.views.queue.codec import Seqs

_GRANT_BYTES = 500
"""What the objects of a grant take besides its seqs, as measured."""
_STALE_MIN = 1024
_STALE_SHARE = 4


class Grant:
    """Jobs that a worker has for a time."""

    __slots__ = ("deadline", "lease_ms", "left", "seqs", "worker")

    def __init__(self, seqs: Seqs, worker: bytes, lease_ms: int) -> None:
        self.seqs = seqs
        self.worker = worker
        self.lease_ms = lease_ms
        self.left = len(seqs)
        """Jobs that it still holds."""
        self.deadline: float | None = None
        """When it runs out. None: it has not been looked at."""


class Terms(NamedTuple):
    """A grant without its jobs: what must be written down of it."""

    worker: bytes
    lease_ms: int


class Leases:
    """All grants that hold something. Owned by one thread."""

    def __init__(self) -> None:
        self.now: float | None = None
        """Monotonic time of the last look, None when nobody has looked."""
        self.nbytes = 0
        self._grants: dict[int, Grant] = {}
        self._workers: dict[bytes, set[int]] = {}
        self._new: list[int] = []
        """Grants that nobody has looked at."""
        self._heap: list[tuple[float, int]] = []

    def __contains__(self, number: int) -> bool:
        return number in self._grants

    def terms(self, number: int) -> Terms:
        grant = self._grants[number]
        return Terms(grant.worker, grant.lease_ms)

    def add(self, number: int, seqs: Seqs, terms: Terms) -> None:
        """A grant that holds these jobs."""
        if not len(seqs):
            return
        grant = self._grants[number] = Grant(seqs, *terms)
        self.nbytes += _GRANT_BYTES + seqs.nbytes
        self._workers.setdefault(terms.worker, set()).add(number)
        if self.now is None:
            self._new.append(number)
        else:
            self._start(number, grant, self.now)

    def join(self, number: int, seqs: Seqs, terms: Terms) -> None:
        """A grant holds these jobs too: it is put together from what was written down."""
        grant = self._grants.get(number)
        if grant is None:
            self.add(number, seqs, terms)
            return
        grant.seqs = np.concatenate((grant.seqs, seqs))
        grant.left += len(seqs)
        self.nbytes += seqs.nbytes

    def leave(self, numbers: Seqs) -> None:
        """Jobs are no longer held by these grants; one number for each job."""
        if len(numbers) > 1 and (numbers[0] != numbers).any():
            found, counts = np.unique(numbers, return_counts=True)
            for number, count in zip(found.tolist(), counts.tolist(), strict=True):
                self._leave(number, count)
        elif len(numbers):
            self._leave(int(numbers[0]), len(numbers))

    def look(self, now: float) -> Iterator[tuple[int, Seqs]]:
        """Grants that have run out since the last look, with the jobs that they were for."""
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
        """When the next grant runs out, None when there is none."""
        while self._heap and self._heap[0][1] not in self._grants:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def of(self, worker: bytes) -> Iterator[tuple[int, Seqs]]:
        """The grants of a worker, in order."""
        for number in sorted(self._workers.get(worker, ())):
            yield number, self._grants[number].seqs

    def listed(self) -> Iterator[tuple[int, Terms]]:
        """All grants, in order."""
        for number in sorted(self._grants):
            yield number, self.terms(number)

    def _start(self, number: int, grant: Grant, now: float) -> None:
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
