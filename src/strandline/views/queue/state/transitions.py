"""The transitions of jobs: put, claimed, extended, returned, buried, ended.

Each applies to many jobs, chunk by chunk. A transition that is not valid for a job (an ack of one
that has ended, a claim of one that waits for its group) is skipped. Rows stay valid until ``tidy``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from strandline.views.queue.codec import NO_SEQS, Seqs, StoredJobOptions
from strandline.views.queue.state.job_chunk import (
    BITS,
    BLOCKED,
    DELAYED,
    DYING,
    GONE,
    HELD,
    LAPSED,
    READY,
    JobChunk,
    Rows,
)
from strandline.views.queue.state.job_table import ChunkRows, JobTable
from strandline.views.queue.state.key_index import KeyIndex, hash_of
from strandline.views.queue.state.lease_snapshot import BURIED, IN_FLIGHT, WAITING, ClaimColumns
from strandline.views.queue.state.leases import Leases, LeaseTerms
from strandline.views.queue.state.ordered_groups import OrderedGroups

LEASE_BITS = 16
DELIVERIES_MAX = (1 << 16) - 1
"""The count of deliveries of a job stops here."""

Mask = NDArray[np.bool_]


class Jobs:
    """All jobs of a queue and their grants. Owned by one thread."""

    def __init__(self) -> None:
        self.table = JobTable()
        self.leases = Leases()
        self.ended = BitMap64()
        """Jobs that have ended, whose records may still be in the log."""
        self._groups = OrderedGroups(self.table)
        self._keys = KeyIndex(self.table, "unique", BLOCKED)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        tables = self._groups.nbytes + self._keys.nbytes
        return self.table.nbytes + self.leases.nbytes + tables + _bitmap_bytes(self.ended)

    def by_key(self, key: bytes) -> int:
        """The job that has the hash of a unique key, 0 for none. The caller compares the key."""
        return self._keys.get(hash_of(key))

    def add(self, seqs: Seqs, keys: Sequence[bytes | None], job: StoredJobOptions) -> None:
        """Put jobs with the same options."""
        at = 0
        while at < len(seqs):
            number = int(seqs[at]) >> BITS
            following = int(np.searchsorted(seqs, np.int64((number + 1) << BITS)))
            chunk = self.table.chunk(number)
            rows = seqs[at:following] - chunk.base
            if job.unique or job.group or job.not_before or job.expires:
                self._add_special(chunk, rows, keys[at:following], job)
            elif rows[-1] - rows[0] + 1 == len(rows):
                self.table.add_plain(chunk, int(rows[0]), int(rows[-1]) + 1, job.priority)
            else:
                chunk.priority[rows] = job.priority
                self.table.move(chunk, rows, READY)
            at = following

    def measure(self, seqs: Seqs, sizes: NDArray[np.int64]) -> None:
        """Set the sizes of the records of jobs."""
        for chunk, rows, indexes in self.table.find(seqs):
            self.table.measure(chunk, rows, sizes[indexes])

    def claim(self, grant: int, seqs: Seqs, terms: LeaseTerms) -> None:
        """Give jobs to a worker. They leave the grants that held them."""
        held: list[Seqs] = [NO_SEQS]
        for part in self.table.find(seqs):
            states = part.chunk.state[part.rows]
            free = (states == READY) | (states == DELAYED)
            chunk, rows, indexes = _select(part, free | (states == HELD) | (states == LAPSED))
            if not len(rows):
                continue
            self.leases.leave(_granted(chunk, rows))
            self.table.set_column(chunk, "lease", rows, (grant << LEASE_BITS) + indexes)
            self.table.set_column(chunk, "grant", rows, grant)
            deliveries = chunk.deliveries[rows]
            chunk.deliveries[rows] = deliveries + (deliveries < DELIVERIES_MAX)
            if "not_before" in chunk.extra:
                chunk.extra["not_before"][rows] = 0
            self.table.move(chunk, rows, HELD)
            held.append(seqs[indexes])
        self.leases.add(grant, _joined(held), terms)

    def extend(self, grant: int, seqs: Seqs, terms: LeaseTerms) -> None:
        """Move jobs in flight to a new grant. Their leases keep their numbers."""
        held: list[Seqs] = [NO_SEQS]
        for part in self.table.find(seqs):
            chunk, rows, indexes = _in_flight(part)
            if len(rows):
                self.leases.leave(_granted(chunk, rows))
                self.table.set_column(chunk, "grant", rows, grant)
                self.table.move(chunk, rows, HELD)
                held.append(seqs[indexes])
        self.leases.add(grant, _joined(held), terms)

    def give_back(self, seqs: Seqs, not_before: int) -> None:
        """Return jobs in flight to the queue."""
        for part in self.table.find(seqs):
            chunk, rows, _ = _in_flight(part)
            if len(rows):
                self._release_grants(chunk, rows)
                if not_before:
                    self.table.set_column(chunk, "not_before", rows, not_before)
                self.table.make_wait(chunk, rows)

    def bury(self, seqs: Seqs) -> Seqs:
        """Start to move jobs to the dead letters; return those that are not blocked."""
        buried: list[Seqs] = [NO_SEQS]
        for part in self.table.find(seqs):
            chunk, rows, indexes = _select(part, part.chunk.state[part.rows] != BLOCKED)
            if len(rows):
                self._release_grants(chunk, rows)
                self.table.move(chunk, rows, DYING)
                buried.append(seqs[indexes])
        return np.sort(_joined(buried))

    def end(self, seqs: Seqs) -> None:
        """End jobs, whatever their state."""
        for chunk, rows, indexes in self.table.find(seqs):
            self._release_grants(chunk, rows)
            ended = seqs[indexes]
            self.ended.update(ended.tolist())
            for index, key_hash in _nonzero(chunk, "unique", rows):
                self._keys.remove(key_hash, int(ended[index]))
            grouped = chunk.values("group", rows) > 0
            if not grouped.any():
                self.table.move(chunk, rows, GONE)
                continue
            if not grouped.all():
                self.table.move(chunk, rows[~grouped], GONE)
            for row, seq in zip(rows[grouped].tolist(), ended[grouped].tolist(), strict=True):
                self._groups.leave(chunk, row, seq)

    def keep_only(self, live: BitMap64, first: int, following: int) -> None:
        """End all jobs of a range of seqs except these."""
        gone = BitMap64()
        for chunk in self.table.between(first, following):
            seqs = chunk.seqs((chunk.state >= BLOCKED).nonzero()[0])
            seqs = seqs[(seqs >= first) & (seqs < following)]
            if len(seqs):
                gone |= bitmap_of(seqs) - live
        if gone:
            self.end(np.array(list(gone), dtype=np.int64))

    def restore(self, claimed: ClaimColumns, terms: dict[int, LeaseTerms]) -> None:
        """Set jobs to the state in a survey, whatever their state was."""
        for chunk, rows, indexes in self.table.find(claimed.seqs):
            leases, grants = claimed.leases[indexes], claimed.grants[indexes]
            chunk.deliveries[rows] = claimed.deliveries[indexes]
            not_before = claimed.not_before[indexes]
            if "not_before" in chunk.extra or not_before.any():
                self.table.set_column(chunk, "not_before", rows, not_before)
            changed = chunk.values("grant", rows) != grants
            changed |= chunk.values("lease", rows) != leases
            if changed.any():
                changed_rows = rows[changed]
                self._release_grants(chunk, changed_rows)
                self.table.set_column(chunk, "lease", changed_rows, leases[changed])
                self.table.set_column(chunk, "grant", changed_rows, grants[changed])
                for grant in np.unique(grants[changed]).tolist():
                    if grant:
                        of_grant = changed & (grants == grant)
                        self.leases.join(grant, claimed.seqs[indexes[of_grant]], terms[grant])
            self._restore_states(chunk, rows, claimed.doings[indexes], changed)

    def expire_leases(self, now: float) -> None:
        """Make jobs claimable whose lease has expired."""
        for grant, seqs in self.leases.expire(now):
            self.table.lapse(seqs, grant)

    def holds(self, seqs: Seqs, leases: Seqs, *, in_time: bool = False) -> Mask:
        """Which of these jobs are in flight under these leases; with ``in_time`` only under leases
        that have not expired."""
        held = np.zeros(len(seqs), dtype=bool)
        for part in self.table.find(seqs):
            chunk, rows, indexes = _in_time(part) if in_time else _in_flight(part)
            if len(rows):
                held[indexes] = chunk.values("lease", rows) == leases[indexes]
        return held

    def column(self, name: str, seqs: Seqs) -> NDArray[np.int64]:
        """A column of these jobs, 0 for those that do not exist."""
        values = np.zeros(len(seqs), dtype=np.int64)
        for chunk, rows, indexes in self.table.find(seqs):
            values[indexes] = chunk.values(name, rows)
        return values

    def held_by(self, worker: bytes) -> Seqs:
        """The jobs that a worker has in flight."""
        held: list[Seqs] = [NO_SEQS]
        for grant, seqs in self.leases.of(worker):
            held.append(seqs[self.column("grant", seqs) == grant])
        return np.unique(_joined(held))

    def held_among(self, worker: bytes, seqs: Seqs) -> Seqs:
        """Those of these jobs that a worker has in flight; reads no other job or grant."""
        seqs = np.unique(seqs)
        grants = self.column("grant", seqs)
        own = [
            grant
            for grant in np.unique(grants).tolist()
            if grant in self.leases and self.leases.terms(grant).worker == worker
        ]
        return seqs[np.isin(grants, own)]

    def load(self, terms: dict[int, LeaseTerms]) -> None:
        """Rebuild groups, keys and grants from the loaded chunks."""
        self._groups.load()
        self._keys.load()
        for _, chunk in sorted(self.table.chunks.items()):
            rows = (chunk.state == HELD).nonzero()[0]
            grants = chunk.values("grant", rows)
            for grant in np.unique(grants).tolist():
                self.leases.join(grant, chunk.seqs(rows[grants == grant]), terms[grant])

    def _add_special(
        self, chunk: JobChunk, rows: Rows, keys: Sequence[bytes | None], job: StoredJobOptions
    ) -> None:
        board = self.table
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
                [self._groups.join(group, chunk, row, chunk.base + row) for row in rows.tolist()]
            )
            if blocked.any():
                board.move(chunk, rows[blocked], BLOCKED)
                board.note_ends(chunk, rows[blocked])
            rows = rows[~blocked]
        if len(rows):
            board.make_wait(chunk, rows)

    def _release_grants(self, chunk: JobChunk, rows: Rows) -> None:
        """Remove jobs from the grants that hold them."""
        granted = _granted(chunk, rows)
        if len(granted):
            self.leases.leave(granted)
            chunk.extra["grant"][rows] = 0
            chunk.extra["lease"][rows] = 0
            self.table.changed.add(chunk.number)

    def _restore_states(
        self, chunk: JobChunk, rows: Rows, doings: NDArray[np.uint8], changed: Mask
    ) -> None:
        states = chunk.state[rows]
        in_flight = (doings == IN_FLIGHT) & (changed | (states != LAPSED))
        for mask, state in ((in_flight, HELD), (doings == BURIED, DYING)):
            if mask.any():
                self.table.move(chunk, rows[mask], state)
        waiting = (doings == WAITING) & (states != BLOCKED)
        if waiting.any():
            self.table.make_wait(chunk, rows[waiting])


def bitmap_of(seqs: Seqs) -> BitMap64:
    """Ascending seqs as a bitmap; consecutive ones are added as a range."""
    first, last = int(seqs[0]), int(seqs[-1])
    return BitMap64(range(first, last + 1) if last - first + 1 == len(seqs) else seqs.tolist())


def _bitmap_bytes(seqs: BitMap64) -> int:
    """The most bytes of a bitmap: two for each seq, or a bit for each of a block of 65,536."""
    if not seqs:
        return 0
    return min(2 * len(seqs), ((seqs.max() >> 16) - (seqs.min() >> 16) + 1) * 8192)


def _select(part: ChunkRows, mask: Mask) -> ChunkRows:
    if mask.all():
        return part
    return ChunkRows(part.chunk, part.rows[mask], part.indexes[mask])


def _in_flight(part: ChunkRows) -> ChunkRows:
    states = part.chunk.state[part.rows]
    return _select(part, (states == HELD) | (states == LAPSED))


def _in_time(part: ChunkRows) -> ChunkRows:
    return _select(part, part.chunk.state[part.rows] == HELD)


def _granted(chunk: JobChunk, rows: Rows) -> Seqs:
    """The grants that hold these rows, one for each that is held."""
    column = chunk.extra.get("grant")
    if column is None:
        return NO_SEQS
    granted: Seqs = column[rows]
    return granted[granted > 0]


def _nonzero(chunk: JobChunk, name: str, rows: Rows) -> Iterator[tuple[int, int]]:
    """Indexes and values of those rows that have a nonzero value in a column."""
    column = chunk.extra.get(name)
    if column is not None:
        values = column[rows]
        for index in values.nonzero()[0].tolist():
            yield index, int(values[index])


def _joined(parts: list[Seqs]) -> Seqs:
    return parts[1] if len(parts) == 2 else np.concatenate(parts)
