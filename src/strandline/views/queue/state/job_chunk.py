"""Chunks: the state of the jobs of 16,384 consecutive seqs, as columns.

    state, priority, deliveries     always: four bytes for a job
    not_before, expires             microseconds; 0 for none
    group, following                hash of its group, seq of the next job of the group
    unique                          hash of its key, if that is unique
    lease, grant                    while it is in flight; else 0
    size                            bytes of its record, in a queue that has a cap in bytes

All columns but the first three exist only if a job of the chunk needs them. Payloads are not here:
they are in the log.

A row is the index of a job in the columns. In a new chunk it is the lowest bits of the seq; when
few jobs of a chunk are live, their rows are compacted, and ``offsets`` maps rows to seqs. So a few
old jobs that never end do not keep the memory of their whole chunk.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from strandline.views.queue.codec import Seqs

BITS = 14
SIZE = 1 << BITS
SHRINK_SHARE = 4
"""Rows are compacted when less than one in so many is live."""
ROWS_MIN = 16

GONE, GHOST, BLOCKED, DELAYED, DYING, HELD, READY, LAPSED = range(8)
"""States of a job.

    GONE      no such job, or ended
    GHOST     ended, but still linked in its group
    BLOCKED   waits for an older job of its group
    DELAYED   waits for its time
    DYING     being moved to the dead letters
    HELD      in flight
    READY     waits to be claimed
    LAPSED    in flight, but its lease has expired: may be claimed
"""

Column = NDArray[Any]
Rows = NDArray[np.int64]
"""Indexes in the columns of one chunk."""

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
"""Measured bytes of the objects of a chunk, without the columns."""


class ReadyJobs:
    """Jobs of one priority in one chunk that may be claimed."""

    __slots__ = ("count", "first")

    def __init__(self) -> None:
        self.count = 0
        self.first = 0
        """A lower bound: no such job is in an earlier row."""


class JobChunk:
    """The jobs of a range of seqs. Owned by its job table."""

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
        self.ready: dict[int, ReadyJobs] = {}

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
        """A column, created if it does not exist."""
        column = self.extra.get(name)
        if column is None:
            column = self.extra[name] = np.zeros(len(self.state), dtype=KINDS[name])
        return column

    def values(self, name: str, rows: Rows) -> Column:
        """The values of a column, zeros if it does not exist."""
        if name in ALWAYS:
            column: Column = getattr(self, name)
            return column[rows]
        extra = self.extra.get(name)
        return np.zeros(len(rows), dtype=KINDS[name]) if extra is None else extra[rows]

    def value(self, name: str, row: int) -> int:
        column = self.extra.get(name)
        return 0 if column is None else int(column[row])

    def seqs(self, rows: Rows) -> Seqs:
        """The seqs of rows."""
        if self.offsets is None:
            return rows + self.base
        return self.offsets[rows].astype(np.int64) + self.base

    def rows(self, seqs: Seqs) -> tuple[Rows, NDArray[np.bool_] | None]:
        """The rows of seqs of this chunk, and which of them exist (None: all)."""
        offsets = seqs - self.base
        if self.offsets is None:
            return offsets, None
        rows = np.minimum(self.offsets.searchsorted(offsets), len(self.offsets) - 1)
        return rows, self.offsets[rows] == offsets

    def row(self, seq: int) -> int:
        """The row of one seq, -1 if it has none."""
        offset = seq - self.base
        if self.offsets is None:
            return offset
        row = int(self.offsets.searchsorted(offset))
        return row if row < len(self.offsets) and self.offsets[row] == offset else -1

    def claimable(self, priority: int, count: int) -> Rows:
        """The first rows of a priority that may be claimed, at most ``count``."""
        entry = self.ready[priority]
        count = min(count, entry.count)
        found: list[Rows] = []
        missing, at, window = count, entry.first, max(_WINDOW_MIN, 2 * count)
        while missing > 0:
            assert at < len(self.state), "the count of jobs that may be claimed is wrong"
            following = at + window
            matches = self.state[at:following] >= READY
            matches &= self.priority[at:following] == priority
            rows = matches.nonzero()[0][:missing]
            if len(rows):
                if not found:
                    entry.first = at + int(rows[0])
                found.append(rows + at)
                missing -= len(rows)
            at, window = following, window * 2
        return found[0] if len(found) == 1 else np.concatenate(found)

    def is_sparse(self) -> bool:
        """Whether the rows should be compacted."""
        return len(self.state) > ROWS_MIN and self.live * SHRINK_SHARE < len(self.state)

    def shrink(self) -> None:
        """Compact the columns: keep only the rows of jobs that are not gone."""
        rows = self.state.nonzero()[0]
        offsets = rows if self.offsets is None else self.offsets[rows]
        self.offsets = offsets.astype(np.uint16)
        self.state, self.priority = self.state[rows], self.priority[rows]
        self.deliveries = self.deliveries[rows]
        self.extra = {name: column[rows] for name, column in self.extra.items()}
        self.drop_zeros()
        for entry in self.ready.values():
            entry.first = 0

    def drop_zeros(self) -> None:
        """Remove columns that have only zeros."""
        self.extra = {name: column for name, column in self.extra.items() if column.any()}
