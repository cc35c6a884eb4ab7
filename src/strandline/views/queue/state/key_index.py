"""From the hash of a key to the seq of a job, in 11 to 14 bytes for an entry.

The table holds nothing but seqs: the hashes stand in a column of the jobs themselves, and are
looked up there. Linear probing without wrapping around: an entry lies at its home, which grows with
the upper half of its hash, or behind it, and nothing between the two is free. The array is longer
than there are homes, and its last slot is always free. It grows by a quarter at a time, so that
little of it is empty.

Two keys with the same hash (one pair among 10^9 keys has a chance of 1 in 37) cannot be told apart
here. Where that matters the caller looks at the record.
"""

from __future__ import annotations

import numpy as np
import xxhash
from numpy.typing import NDArray

from strandline.views.queue.codec import NO_SEQS, Seqs
from strandline.views.queue.state.job_chunk import GONE
from strandline.views.queue.state.job_table import Board

Hashes = NDArray[np.uint64]

_HOMES_MIN = 16
_SLACK = 64
_FULL = 0.75
_FILLED = 0.6
_EMPTY = 0.2
"""Parts of the homes: how many entries are too many, how many there are then, how many too few."""


def hash_of(key: bytes) -> int:
    """The hash of a key: never 0, which stands for no key."""
    return xxhash.xxh3_64_intdigest(key) or 1


class SeqTable:
    """Hash -> seq. Owned by one thread."""

    def __init__(self, board: Board, column: str, state: int) -> None:
        self._board = board
        self._column = column
        self._state = state
        """Jobs that are in this state or a later one are in the table."""
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
        """The seq, 0 when there is none."""
        at = self._find(key_hash)
        return self._view[at]

    def put(self, key_hash: int, seq: int) -> None:
        """Let the hash lead to this job, whatever it led to before."""
        at = self._find(key_hash)
        self._count += not self._view[at]
        self._view[at] = seq
        if at == len(self._slots) - 1 or self._count > _FULL * self._homes:
            self._fill(self._slots[self._slots != 0])

    def remove(self, key_hash: int, seq: int) -> None:
        """Forget the job, if the hash leads to it."""
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
        if self._homes > _HOMES_MIN and self._count < _EMPTY * self._homes:
            self._fill(self._slots[self._slots != 0])

    def load(self) -> None:
        """Hold what the columns say: of jobs with the same hash the newest."""
        seqs, hashes = [NO_SEQS], [np.empty(0, dtype=np.uint64)]
        for chunk in self._board.chunks.values():
            column = chunk.extra.get(self._column)
            if column is not None:
                rows = ((chunk.state >= self._state) & (column > 0)).nonzero()[0]
                seqs.append(chunk.seqs(rows))
                hashes.append(column[rows])
        found, keys = np.concatenate(seqs), np.concatenate(hashes)
        order = np.lexsort((found, keys))
        last = np.ones(len(found), dtype=bool)
        last[:-1] = keys[order][1:] != keys[order][:-1]
        self._fill(found[order][last])

    def _fill(self, seqs: Seqs) -> None:
        """Hold these and no others; their hashes differ."""
        self._homes = max(_HOMES_MIN, int(len(seqs) / _FILLED) + 1)
        upper = self._hashes(seqs) >> np.uint64(32)
        homes = (upper * np.uint64(self._homes) >> np.uint64(32)).astype(np.int32)
        order = np.argsort(homes, kind="stable")
        # Sorted by home, each lies at its home or right behind the one before it.
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
        """The slot that has the hash, or the free one where it would be."""
        view, at = self._view, self._home(key_hash)
        while (seq := view[at]) and self._hash(seq) != key_hash:
            at += 1
        return at

    def _home(self, key_hash: int) -> int:
        return (key_hash >> 32) * self._homes >> 32

    def _hash(self, seq: int) -> int:
        found = self._board.locate(seq)
        return 0 if found is None else found[0].value(self._column, found[1])

    def _hashes(self, seqs: Seqs) -> Hashes:
        hashes = np.zeros(len(seqs), dtype=np.uint64)
        for chunk, rows, places in self._board.find(seqs, GONE):
            hashes[places] = chunk.values(self._column, rows)
        return hashes
