"""What can happen to jobs: put, granted, given back, buried, ended.

Each is said of many jobs at once, and done chunk by chunk. What does not fit a job (an ack of one
that has ended, a claim of one that waits for its group) is passed over. Rows that were found stay
valid until ``tidy``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from strandline.views.queue.codec import NO_SEQS, Job, Seqs
from strandline.views.queue.state.job_chunk import (
    BITS,
    BLOCKED,
    DELAYED,
    DYING,
    GONE,
    HELD,
    LAPSED,
    READY,
    Chunk,
    Rows,
)
from strandline.views.queue.state.job_table import Board, Part
from strandline.views.queue.state.key_index import SeqTable, hash_of
from strandline.views.queue.state.lease_snapshot import IN_FLIGHT, ON_ITS_WAY, WAITING, Claimed
from strandline.views.queue.state.leases import Leases, Terms
from strandline.views.queue.state.ordered_groups import Chains

LEASE_BITS = 16
DELIVERIES_MAX = (1 << 16) - 1
"""A job that was given out so often is counted no further."""

Mask = NDArray[np.bool_]


class Jobs:
    """All jobs of a queue, and who holds which. Owned by one thread."""

    def __init__(self) -> None:
        self.board = Board()
        self.leases = Leases()
        self.ended = BitMap64()
        """Jobs that have ended, and may still be in the log."""
        self._chains = Chains(self.board)
        self._keys = SeqTable(self.board, "unique", BLOCKED)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        tables = self._chains.nbytes + self._keys.nbytes
        return self.board.nbytes + self.leases.nbytes + tables + _bitmap_bytes(self.ended)

    def by_key(self, key: bytes) -> int:
        """The job that has a unique key, 0 for none: its record tells whether it is this key."""
        return self._keys.get(hash_of(key))

    def add(self, seqs: Seqs, keys: Sequence[bytes | None], job: Job) -> None:
        """Put jobs about which the same was said."""
        at = 0
        while at < len(seqs):
            number = int(seqs[at]) >> BITS
            following = int(np.searchsorted(seqs, np.int64((number + 1) << BITS)))
            chunk = self.board.chunk(number)
            rows = seqs[at:following] - chunk.base
            if job.unique or job.group or job.not_before or job.expires:
                self._add_special(chunk, rows, keys[at:following], job)
            elif rows[-1] - rows[0] + 1 == len(rows):
                self.board.add_plain(chunk, int(rows[0]), int(rows[-1]) + 1, job.priority)
            else:
                chunk.priority[rows] = job.priority
                self.board.move(chunk, rows, READY)
            at = following

    def measure(self, seqs: Seqs, sizes: NDArray[np.int64]) -> None:
        """Say how many bytes the records of jobs have."""
        for chunk, rows, places in self.board.find(seqs):
            self.board.measure(chunk, rows, sizes[places])

    def claim(self, grant: int, seqs: Seqs, terms: Terms) -> None:
        """Give jobs to a worker; whoever had them has them no longer."""
        held: list[Seqs] = [NO_SEQS]
        for part in self.board.find(seqs):
            states = part.chunk.state[part.rows]
            free = (states == READY) | (states == DELAYED)
            chunk, rows, places = _those(part, free | (states == HELD) | (states == LAPSED))
            if not len(rows):
                continue
            self.leases.leave(_granted(chunk, rows))
            self.board.set_column(chunk, "lease", rows, (grant << LEASE_BITS) + places)
            self.board.set_column(chunk, "grant", rows, grant)
            deliveries = chunk.deliveries[rows]
            chunk.deliveries[rows] = deliveries + (deliveries < DELIVERIES_MAX)
            if "not_before" in chunk.extra:
                chunk.extra["not_before"][rows] = 0
            self.board.move(chunk, rows, HELD)
            held.append(seqs[places])
        self.leases.add(grant, _joined(held), terms)

    def extend(self, grant: int, seqs: Seqs, terms: Terms) -> None:
        """Let those who have jobs keep them under new terms."""
        held: list[Seqs] = [NO_SEQS]
        for part in self.board.find(seqs):
            chunk, rows, places = _in_flight(part)
            if len(rows):
                self.leases.leave(_granted(chunk, rows))
                self.board.set_column(chunk, "grant", rows, grant)
                self.board.move(chunk, rows, HELD)
                held.append(seqs[places])
        self.leases.add(grant, _joined(held), terms)

    def give_back(self, seqs: Seqs, not_before: int) -> None:
        """Jobs in flight wait again."""
        for part in self.board.find(seqs):
            chunk, rows, _ = _in_flight(part)
            if len(rows):
                self._take_from_holder(chunk, rows)
                if not_before:
                    self.board.set_column(chunk, "not_before", rows, not_before)
                self.board.let_wait(chunk, rows)

    def bury(self, seqs: Seqs) -> Seqs:
        """Take jobs out of the queue, on their way to the dead letters; those it could take."""
        buried: list[Seqs] = [NO_SEQS]
        for part in self.board.find(seqs):
            chunk, rows, places = _those(part, part.chunk.state[part.rows] != BLOCKED)
            if len(rows):
                self._take_from_holder(chunk, rows)
                self.board.move(chunk, rows, DYING)
                buried.append(seqs[places])
        return np.sort(_joined(buried))

    def end(self, seqs: Seqs) -> None:
        """Jobs are over, whatever they were doing."""
        for chunk, rows, places in self.board.find(seqs):
            self._take_from_holder(chunk, rows)
            found = seqs[places]
            self.ended.update(found.tolist())
            for place, key_hash in _nonzero(chunk, "unique", rows):
                self._keys.remove(key_hash, int(found[place]))
            grouped = chunk.values("group", rows) > 0
            if not grouped.any():
                self.board.move(chunk, rows, GONE)
                continue
            if not grouped.all():
                self.board.move(chunk, rows[~grouped], GONE)
            for row, seq in zip(rows[grouped].tolist(), found[grouped].tolist(), strict=True):
                self._chains.leave(chunk, row, seq)

    def keep_only(self, live: BitMap64, first: int, following: int) -> None:
        """End all jobs of a range of seqs but these."""
        gone = BitMap64()
        for chunk in self.board.between(first, following):
            seqs = chunk.seqs((chunk.state >= BLOCKED).nonzero()[0])
            seqs = seqs[(seqs >= first) & (seqs < following)]
            if len(seqs):
                gone |= bitmap_of(seqs) - live
        if gone:
            self.end(np.array(list(gone), dtype=np.int64))

    def restore(self, claimed: Claimed, terms: dict[int, Terms]) -> None:
        """Let jobs be as it was written down, whatever became of them meanwhile."""
        for chunk, rows, places in self.board.find(claimed.seqs):
            leases, grants = claimed.leases[places], claimed.grants[places]
            chunk.deliveries[rows] = claimed.deliveries[places]
            not_before = claimed.not_before[places]
            if "not_before" in chunk.extra or not_before.any():
                self.board.set_column(chunk, "not_before", rows, not_before)
            other = chunk.values("grant", rows) != grants
            other |= chunk.values("lease", rows) != leases
            if other.any():
                moved = rows[other]
                self._take_from_holder(chunk, moved)
                self.board.set_column(chunk, "lease", moved, leases[other])
                self.board.set_column(chunk, "grant", moved, grants[other])
                for grant in np.unique(grants[other]).tolist():
                    if grant:
                        of_grant = other & (grants == grant)
                        self.leases.join(grant, claimed.seqs[places[of_grant]], terms[grant])
            self._restore_states(chunk, rows, claimed.doings[places], other)

    def look(self, now: float) -> None:
        """Jobs whose lease has run out may be claimed."""
        for grant, seqs in self.leases.look(now):
            self.board.lapse(seqs, grant)

    def holds(self, seqs: Seqs, leases: Seqs, *, in_time: bool = False) -> Mask:
        """Which of these jobs are in flight under these leases; those that have not run out only,
        if it says so."""
        found = np.zeros(len(seqs), dtype=bool)
        for part in self.board.find(seqs):
            chunk, rows, places = _in_time(part) if in_time else _in_flight(part)
            if len(rows):
                found[places] = chunk.values("lease", rows) == leases[places]
        return found

    def column(self, name: str, seqs: Seqs) -> NDArray[np.int64]:
        """A column of these jobs, 0 for those that are not there."""
        found = np.zeros(len(seqs), dtype=np.int64)
        for chunk, rows, places in self.board.find(seqs):
            found[places] = chunk.values(name, rows)
        return found

    def held_by(self, worker: bytes) -> Seqs:
        """The jobs that a worker has in flight."""
        held: list[Seqs] = [NO_SEQS]
        for grant, seqs in self.leases.of(worker):
            held.append(seqs[self.column("grant", seqs) == grant])
        return np.unique(_joined(held))

    def held_among(self, worker: bytes, seqs: Seqs) -> Seqs:
        """Those of these jobs that a worker has in flight; looks at no other job or claim."""
        seqs = np.unique(seqs)
        grants = self.column("grant", seqs)
        own = [
            grant
            for grant in np.unique(grants).tolist()
            if grant in self.leases and self.leases.terms(grant).worker == worker
        ]
        return seqs[np.isin(grants, own)]

    def load(self, terms: dict[int, Terms]) -> None:
        """The chunks are there again: know the rest from them."""
        self._chains.load()
        self._keys.load()
        for _, chunk in sorted(self.board.chunks.items()):
            rows = (chunk.state == HELD).nonzero()[0]
            grants = chunk.values("grant", rows)
            for grant in np.unique(grants).tolist():
                self.leases.join(grant, chunk.seqs(rows[grants == grant]), terms[grant])

    def _add_special(
        self, chunk: Chunk, rows: Rows, keys: Sequence[bytes | None], job: Job
    ) -> None:
        board = self.board
        chunk.priority[rows] = job.priority
        if job.not_before:
            board.set_column(chunk, "not_before", rows, job.not_before)
        if job.expires:
            board.set_column(chunk, "expires", rows, job.expires)
        if job.unique:
            for row, key in zip(rows.tolist(), keys, strict=True):
                key_hash = hash_of(key or b"")
                board.set_column(chunk, "unique", row, key_hash)
                self._keys.put(key_hash, chunk.base + row)
        if job.group:
            group = hash_of(job.group)
            blocked = np.array(
                [self._chains.join(group, chunk, row, chunk.base + row) for row in rows.tolist()]
            )
            if blocked.any():
                board.move(chunk, rows[blocked], BLOCKED)
                board.note_ends(chunk, rows[blocked])
            rows = rows[~blocked]
        if len(rows):
            board.let_wait(chunk, rows)

    def _take_from_holder(self, chunk: Chunk, rows: Rows) -> None:
        """Nobody holds these any more."""
        granted = _granted(chunk, rows)
        if len(granted):
            self.leases.leave(granted)
            chunk.extra["grant"][rows] = 0
            chunk.extra["lease"][rows] = 0
            self.board.changed.add(chunk.number)

    def _restore_states(
        self, chunk: Chunk, rows: Rows, doings: NDArray[np.uint8], other: Mask
    ) -> None:
        states = chunk.state[rows]
        flying = (doings == IN_FLIGHT) & (other | (states != LAPSED))
        for chosen, state in ((flying, HELD), (doings == ON_ITS_WAY, DYING)):
            if chosen.any():
                self.board.move(chunk, rows[chosen], state)
        waiting = (doings == WAITING) & (states != BLOCKED)
        if waiting.any():
            self.board.let_wait(chunk, rows[waiting])


def bitmap_of(seqs: Seqs) -> BitMap64:
    """Rising seqs as a bitmap; a run of them at once."""
    first, last = int(seqs[0]), int(seqs[-1])
    return BitMap64(range(first, last + 1) if last - first + 1 == len(seqs) else seqs.tolist())


def _bitmap_bytes(seqs: BitMap64) -> int:
    """What a bitmap takes at most: two bytes for a seq, or a bit for each of a block of 65,536."""
    if not seqs:
        return 0
    return min(2 * len(seqs), ((seqs.max() >> 16) - (seqs.min() >> 16) + 1) * 8192)


def _those(part: Part, mask: Mask) -> Part:
    if mask.all():
        return part
    return Part(part.chunk, part.rows[mask], part.places[mask])


def _in_flight(part: Part) -> Part:
    states = part.chunk.state[part.rows]
    return _those(part, (states == HELD) | (states == LAPSED))


def _in_time(part: Part) -> Part:
    return _those(part, part.chunk.state[part.rows] == HELD)


def _granted(chunk: Chunk, rows: Rows) -> Seqs:
    """The grants that hold these rows, one for each that is held."""
    column = chunk.extra.get("grant")
    if column is None:
        return NO_SEQS
    granted: Seqs = column[rows]
    return granted[granted > 0]


def _nonzero(chunk: Chunk, name: str, rows: Rows) -> Iterator[tuple[int, int]]:
    """Places and values of those rows that have something in a column."""
    column = chunk.extra.get(name)
    if column is not None:
        values = column[rows]
        for place in values.nonzero()[0].tolist():
            yield place, int(values[place])


def _joined(parts: list[Seqs]) -> Seqs:
    return parts[1] if len(parts) == 2 else np.concatenate(parts)
