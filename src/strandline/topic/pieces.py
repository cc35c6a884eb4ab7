"""Finds the piece of a topic that holds a seq: a block of a segment, a WAL frame, rows in memory.

This is the one place that knows the order in which the three places are asked (``topic/state.py``
says why it is safe without a lock). A piece whose file has gone meanwhile is found again.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable

import numpy as np
from pyroaring import BitMap64

from strandline.errors import Closed
from strandline.topic.memory import Row
from strandline.topic.state import Run, TopicState, spans
from strandline.wal.block import Block
from strandline.wal.files import SINGLE_AT
from strandline.wal.reader import Reader

_TRIES = 8  # a checkpoint can take a WAL file away under a reader, hardly eight times in a row
_KIND = 7

Piece = Block | tuple[int, list[Row]]
"""A block, or the first seq and the rows."""


class Pieces:
    """One reader's way through a topic. Owned by one thread."""

    def __init__(self, state: TopicState, reader: Callable[[], Reader]) -> None:
        self._state = state
        self._make_reader = reader
        self._reader = reader()

    def at(self, seq: int) -> Piece:
        """The piece that holds a seq of the topic, which must not lie in a gap."""
        for _ in range(_TRIES):
            try:
                return self._at(seq)
            except (Closed, FileNotFoundError):
                self._reader = self._make_reader()
        return self._at(seq)

    def singles(self, seq: int, last_seq: int, room: int) -> list[Row]:
        """Consecutive records from a seq on that are single frames of the WAL: a fast lane."""
        memory = self._state.memory
        if memory is not None and memory.pieces and seq >= memory.first_seq:
            return []
        tail = self._state.tail
        if seq < tail.first_seq:
            return []
        place = tail.find(seq)
        last_place = min(len(tail.locations), place + room)
        read = self._reader.single
        found: list[Row] = []
        for location in tail.locations[place:last_place]:
            if location & _KIND != SINGLE_AT or seq > last_seq:
                break
            try:
                _, _, fields, data, ts = read(location)
            except (Closed, FileNotFoundError):
                break
            found.append((ts, fields, data))
            seq += 1
        return found

    def payload_between(self, first_seq: int, next_seq: int) -> int:
        """Payload bytes of the live records from one seq up to another."""
        total = 0
        for low, last_seq in spans(self._state, first_seq):
            seq = low
            while seq <= min(last_seq, next_seq - 1):
                first, sizes = self.sizes(seq)
                part = sizes[seq - first : min(last_seq + 1, next_seq) - first]
                total += int(part.sum())
                seq = first + len(sizes)
        return total

    def sizes(self, seq: int) -> tuple[int, np.ndarray]:
        """First seq and payload sizes of the piece that holds a seq; a deleted record counts 0."""
        piece = self.at(seq)
        if isinstance(piece, Block):
            first, sizes = piece.first_seq, piece.sizes()
        else:
            first = piece[0]
            sizes = np.array([row_size(row) for row in piece[1]], dtype="<i8")
        deleted = self._state.deleted
        if deleted and deleted.range_cardinality(first, first + len(sizes)):
            gone = deleted & BitMap64(range(first, first + len(sizes)))
            sizes = sizes.copy()
            sizes[np.array(list(gone), dtype="<i8") - first] = 0
        return first, sizes

    def stamps(self, seq: int) -> tuple[int, np.ndarray]:
        """First seq and stamps of the piece that holds a seq."""
        piece = self.at(seq)
        if isinstance(piece, Block):
            return piece.first_seq, piece.stamps()
        return piece[0], np.array([row[0] for row in piece[1]], dtype="<i8")

    def newest_in_segment(self, seq: int) -> tuple[int, int] | None:
        """Last seq and newest ts of a seq's block, from the index alone; None outside segments."""
        run = self._run(seq)
        if run is None:
            return None
        index, place = run.segment.index(), run.find(seq)
        last_seq = int(index.first_seq[place]) + int(index.count[place]) - 1
        return last_seq, int(index.ts_max[place])

    def _run(self, seq: int) -> Run | None:
        state = self._state
        if state.memory is not None and state.memory.pieces and seq >= state.memory.first_seq:
            return None
        if seq >= state.tail.first_seq:
            return None
        runs = state.runs
        return runs[bisect.bisect_right(runs, seq, key=lambda run: run.first_seq) - 1]

    def _at(self, seq: int) -> Piece:
        state = self._state
        memory = state.memory
        if memory is not None and memory.pieces and seq >= memory.first_seq:
            place = memory.find(seq)
            piece = memory.pieces[place]
            return (memory.firsts[place], piece) if isinstance(piece, list) else piece
        tail = state.tail
        if seq >= tail.first_seq:
            place = tail.find(seq)
            location = tail.locations[place]
            if location & _KIND != SINGLE_AT:
                return self._reader.block(location)
            _, _, fields, data, ts = self._reader.single(location)
            return tail.firsts[place], [(ts, fields, data)]
        runs = state.runs
        run = runs[bisect.bisect_right(runs, seq, key=lambda run: run.first_seq) - 1]
        return run.segment.block(run.find(seq))


def row_size(row: Row) -> int:
    """Payload bytes of a row in memory."""
    return len(row[2]) + sum(len(field) for field in row[1] if field is not None)
