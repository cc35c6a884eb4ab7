"""Jobs as columns: a run of 16,384 seqs, and of each job what a queue must know.

    state, priority, deliveries     always: four bytes for a job
    not_before, expires             microseconds; 0 for none
    group, following                hash of its group, seq of the next job of the group
    unique                          hash of its key when that is unique
    lease, grant                    whose it is while in flight; 0 when it is nobody's
    size                            bytes of its record, in a queue that has a cap of bytes

A column of the second kind is there when a job of the chunk needs it. Payloads are not here: they
are in the log.

A row is a job's place in the columns. In a young chunk it is what is left of the seq; when few jobs
of a chunk are still alive their rows are moved together, and ``offsets`` tells whose they are. So
old jobs that nobody can finish do not keep the memory of all that came with them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from strandline.views.queue.codec import Seqs

BITS = 14
SIZE = 1 << BITS
SHRINK_SHARE = 4
"""Rows are moved together when less than this part of them is alive."""
ROWS_MIN = 16

GONE, GHOST, BLOCKED, DELAYED, DYING, HELD, READY, LAPSED = range(8)
"""States of a job.

    GONE      no such job, or ended
    GHOST     ended, but still a link in the chain of its group
    BLOCKED   waits for an older job of its group
    DELAYED   waits for its time
    DYING     on its way to the dead letters
    HELD      in flight
    READY     waits to be claimed
    LAPSED    in flight, but its lease has run out: may be claimed
"""

Column = NDArray[Any]
Rows = NDArray[np.int64]
"""Places in the columns of one chunk."""

ALWAYS = ("state", "priority", "deliveries")
KINDS: dict[str, type[np.generic]] = {
    "not_before": np.int64,
    "expires": np.int64,
    "group": np.uint64,
    "following": np.int64,
    "unique": np.uint64,
    "lease": np.int64,
    "grant": np.int64,
    "size": np.uint32,
}
_WINDOW_MIN = 64
_EMPTY_BYTES = 1100
"""What the objects of a chunk take besides the columns, as measured."""


class Ready:
    """Jobs of one priority in one chunk that may be claimed."""

    __slots__ = ("count", "first")

    def __init__(self) -> None:
        self.count = 0
        self.first = 0
        """No such job is in an earlier row."""


class Chunk:
    """A run of seqs. Owned by its board."""

    __slots__ = (
        "base",
        "deliveries",
        "extra",
        "live",
        "number",
        "offsets",
        "priority",
        "ready",
        "state",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.base = number << BITS
        self.offsets: NDArray[np.uint16] | None = None
        self.state: NDArray[np.uint8] = np.zeros(SIZE, dtype=np.uint8)
        self.priority: NDArray[np.uint8] = np.zeros(SIZE, dtype=np.uint8)
        self.deliveries: NDArray[np.uint16] = np.zeros(SIZE, dtype=np.uint16)
        self.extra: dict[str, Column] = {}
        self.live = 0
        """Rows that are not GONE."""
        self.ready: dict[int, Ready] = {}

    def __len__(self) -> int:
        return len(self.state)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        columns: list[Column] = [self.state, self.priority, self.deliveries]
        columns += self.extra.values()
        if self.offsets is not None:
            columns.append(self.offsets)
        return _EMPTY_BYTES + sum(column.nbytes for column in columns)

    def column(self, name: str) -> Column:
        """A column, made if there is none yet."""
        found = self.extra.get(name)
        if found is None:
            found = self.extra[name] = np.zeros(len(self.state), dtype=KINDS[name])
        return found

    def values(self, name: str, rows: Rows) -> Column:
        """What stands in a column, zeros when there is none."""
        if name in ALWAYS:
            column: Column = getattr(self, name)
            return column[rows]
        found = self.extra.get(name)
        return np.zeros(len(rows), dtype=KINDS[name]) if found is None else found[rows]

    def value(self, name: str, row: int) -> int:
        found = self.extra.get(name)
        return 0 if found is None else int(found[row])

    def seqs(self, rows: Rows) -> Seqs:
        """Whose rows these are."""
        if self.offsets is None:
            return rows + self.base
        return self.offsets[rows].astype(np.int64) + self.base

    def rows(self, seqs: Seqs) -> tuple[Rows, NDArray[np.bool_] | None]:
        """The rows of seqs of this chunk, and which of them are right (None: all)."""
        places = seqs - self.base
        if self.offsets is None:
            return places, None
        found = np.minimum(self.offsets.searchsorted(places), len(self.offsets) - 1)
        return found, self.offsets[found] == places

    def row(self, seq: int) -> int:
        """The row of one seq, -1 when it has none."""
        place = seq - self.base
        if self.offsets is None:
            return place
        found = int(self.offsets.searchsorted(place))
        return found if found < len(self.offsets) and self.offsets[found] == place else -1

    def claimable(self, priority: int, count: int) -> Rows:
        """The first rows of a priority that may be claimed, at most so many."""
        entry = self.ready[priority]
        count = min(count, entry.count)
        found: list[Rows] = []
        missing, at, window = count, entry.first, max(_WINDOW_MIN, 2 * count)
        while missing > 0:
            assert at < len(self.state), "the count of jobs that may be claimed is wrong"
            following = at + window
            fits = self.state[at:following] >= READY
            fits &= self.priority[at:following] == priority
            rows = fits.nonzero()[0][:missing]
            if len(rows):
                if not found:
                    entry.first = at + int(rows[0])
                found.append(rows + at)
                missing -= len(rows)
            at, window = following, window * 2
        return found[0] if len(found) == 1 else np.concatenate(found)

    def is_sparse(self) -> bool:
        """Whether rows should be moved together."""
        return len(self.state) > ROWS_MIN and self.live * SHRINK_SHARE < len(self.state)

    def shrink(self) -> None:
        """Keep the rows of jobs that are not gone, and nothing else."""
        kept = self.state.nonzero()[0]
        places = kept if self.offsets is None else self.offsets[kept]
        self.offsets = places.astype(np.uint16)
        self.state, self.priority = self.state[kept], self.priority[kept]
        self.deliveries = self.deliveries[kept]
        self.extra = {name: column[kept] for name, column in self.extra.items()}
        self.drop_zeros()
        for entry in self.ready.values():
            entry.first = 0

    def drop_zeros(self) -> None:
        """Forget columns that say nothing any more."""
        self.extra = {name: column for name, column in self.extra.items() if column.any()}
