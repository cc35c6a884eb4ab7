"""Hash table from the hash of a key to the seq of a job, in 11 to 14 bytes for an entry.

The table contains only seqs: the hashes are in a column of the jobs, and are looked up there.
Linear probing without wrap-around: an entry is at its home slot, which grows with the upper half of
its hash, or after it, and no slot between the two is free. The array is longer than the number of
homes, and its last slot is always free. It grows by a quarter at a time, so that few slots are
empty.

Two keys with the same hash (probability 1 in 37 of one pair among 10^9 keys) cannot be
distinguished here. Where that matters the caller reads the record.
"""

from __future__ import annotations

import numpy as np
import xxhash
from numpy.typing import NDArray

from strandline.views.queue.codec import NO_SEQS, Seqs
from strandline.views.queue.state.job_chunk import GONE
from strandline.views.queue.state.job_table import JobTable

Hashes = NDArray[np.uint64]

_HOMES_MIN = 16
_SLACK = 64
_FULL_RATIO = 0.75
_FILL_RATIO = 0.6
_SPARSE_RATIO = 0.2
"""Entries per home: the most, the number after a rebuild, the fewest."""


def hash_of(key: bytes) -> int:
    """The hash of a key: never 0, which means no key."""
    return xxhash.xxh3_64_intdigest(key) or 1


class KeyIndex:
    """Hash -> seq. Owned by one thread."""

    def __init__(self, board: JobTable, column: str, state: int) -> None:
        self._board = board
        self._column = column
        self._state = state
        """The table has the jobs in this state or a later one."""
        self._count = 0
        self._homes = _HOMES_MIN
        self._slots: Seqs = np.zeros(_HOMES_MIN + _SLACK, dtype=np.int64)
        self._view = self._slots.data

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes

    def get(self, key_hash: int) -> int:
        """The seq, 0 if there is none."""
        at = self._find(key_hash)
        return self._view[at]

    def put(self, key_hash: int, seq: int) -> None:
        """Map the hash to this job, and to no other."""
        at = self._find(key_hash)
        self._count += not self._view[at]
        self._view[at] = seq
        if at == len(self._slots) - 1 or self._count > _FULL_RATIO * self._homes:
            self._rebuild(self._slots[self._slots != 0])

    def remove(self, key_hash: int, seq: int) -> None:
        """Remove the hash, if it maps to this job."""
        view, at = self._view, self._find(key_hash)
        if view[at] != seq:
            return
        self._count -= 1
        following = at + 1
        while view[following]:
            if self._home(self._hash(view[following])) <= at:
                view[at], at = view[following], following
            following += 1
        view[at] = 0
        if self._homes > _HOMES_MIN and self._count < _SPARSE_RATIO * self._homes:
            self._rebuild(self._slots[self._slots != 0])

    def load(self) -> None:
        """Rebuild the table from the columns: for each hash the newest job."""
        seqs, hashes = [NO_SEQS], [np.empty(0, dtype=np.uint64)]
        for chunk in self._board.chunks.values():
            column = chunk.extra.get(self._column)
            if column is not None:
                rows = ((chunk.state >= self._state) & (column > 0)).nonzero()[0]
                seqs.append(chunk.seqs(rows))
                hashes.append(column[rows])
        all_seqs, keys = np.concatenate(seqs), np.concatenate(hashes)
        order = np.lexsort((all_seqs, keys))
        last = np.ones(len(all_seqs), dtype=bool)
        last[:-1] = keys[order][1:] != keys[order][:-1]
        self._rebuild(all_seqs[order][last])

    def _rebuild(self, seqs: Seqs) -> None:
        """Rebuild the table with these jobs only; their hashes differ."""
        self._homes = max(_HOMES_MIN, int(len(seqs) / _FILL_RATIO) + 1)
        upper = self._hashes(seqs) >> np.uint64(32)
        homes = (upper * np.uint64(self._homes) >> np.uint64(32)).astype(np.int32)
        order = np.argsort(homes, kind="stable")
        # Sorted by home, each is at its home or directly after the one before it.
        places = homes[order]
        steps = np.arange(len(seqs), dtype=np.int32)
        places -= steps
        np.maximum.accumulate(places, out=places)
        places += steps
        size = max(self._homes + _SLACK, int(places[-1]) + 2 if len(seqs) else 0)
        self._slots = np.zeros(size, dtype=np.int64)
        self._slots[places] = seqs[order]
        self._view = self._slots.data
        self._count = len(seqs)

    def _find(self, key_hash: int) -> int:
        """The slot of the hash, or the free slot where it would be."""
        view, at = self._view, self._home(key_hash)
        while (seq := view[at]) and self._hash(seq) != key_hash:
            at += 1
        return at

    def _home(self, key_hash: int) -> int:
        return (key_hash >> 32) * self._homes >> 32

    def _hash(self, seq: int) -> int:
        location = self._board.locate(seq)
        return 0 if location is None else location[0].value(self._column, location[1])

    def _hashes(self, seqs: Seqs) -> Hashes:
        hashes = np.zeros(len(seqs), dtype=np.uint64)
        for chunk, rows, places in self._board.find(seqs, GONE):
            hashes[places] = chunk.values(self._column, rows)
        return hashes
