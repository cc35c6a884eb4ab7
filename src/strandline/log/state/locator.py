"""Finds the piece of a topic that has a seq: in memory, log, segments or lake.

A piece is rows in memory, a frame of the WAL, a block of a segment or a zone of a lake file. Only
this module has the order in which they are searched (``log/state/topic_state.py`` explains why that
is safe without a lock). A piece whose file was removed meanwhile is searched again. If a segment is
damaged or missing and the lake has the same records, its copy is read instead, and health reports
that.
"""

from __future__ import annotations

import bisect
import errno
from collections.abc import Callable

import msgspec
import numpy as np
from pyroaring import BitMap64

from strandline.errors import (
    BucketNotFound,
    Closed,
    Corrupt,
    ObjectStoreDenied,
    ObjectStoreUnreachable,
    StrandlineError,
    Unavailable,
)
from strandline.lake.files.zone import Zone
from strandline.log.state.memory_tail import Row, row_size
from strandline.log.state.topic_state import SegmentRun, TopicState, spans
from strandline.log.wal.block import Block
from strandline.log.wal.log_files import SINGLE_AT
from strandline.log.wal.reader import Reader
from strandline.platform.system_errors import advice

_TRIES = 8  # a checkpoint can remove a WAL file during a read, hardly eight times in a row
_KIND = 7

Piece = Block | Zone | tuple[int, list[Row]]
"""A block or a zone, which have the same methods, or the first seq and the rows."""


class _IndexedPiece(msgspec.Struct, frozen=True, gc=False):
    """A piece of a segment without its content."""

    first_seq: int
    count: int
    payload_size: int
    ts_max: int


class TopicReader:
    """Locates and reads the pieces of one topic. Owned by one thread."""

    def __init__(self, state: TopicState, reader: Callable[[], Reader]) -> None:
        self._state = state
        self._make_reader = reader
        self._reader = reader()

    @property
    def hot_seq(self) -> int:
        return self._state.hot_seq

    def at(self, seq: int) -> Piece:
        """The piece with a seq, which must not be in a gap; LookupError when there is none."""
        for _ in range(_TRIES):
            try:
                return self._at(seq)
            except (Closed, OSError) as error:
                if not _file_is_gone(error):
                    raise _unreadable(error) from error
                self._reader = self._make_reader()
        try:
            return self._at(seq)
        except OSError as error:
            raise _unreadable(error) from error

    def singles(self, seq: int, last_seq: int, rows_max: int) -> list[Row]:
        """Consecutive records from a seq on that are single frames of the WAL: the fast path."""
        memory = self._state.memory
        if memory is not None and memory.pieces and seq >= memory.first_seq:
            return []
        tail = self._state.tail
        if seq < tail.first_seq:
            return []
        place = tail.find(seq)
        last_place = min(len(tail.locations), place + rows_max)
        read = self._reader.single
        found: list[Row] = []
        for location in tail.locations[place:last_place]:
            if location & _KIND != SINGLE_AT or seq > last_seq:
                break
            try:
                _, _, fields, data, ts = read(location)
            except (Closed, OSError) as error:
                if not _file_is_gone(error):
                    raise _unreadable(error) from error
                break
            found.append((ts, fields, data))
            seq += 1
        return found

    def payload_between(self, first_seq: int, next_seq: int) -> int:
        """Payload bytes of the live records from ``first_seq`` to below ``next_seq``; cold ones by
        whole files."""
        total = 0
        state, hot_seq = self._state, self._state.hot_seq
        if state.cold is not None and first_seq < hot_seq:
            total += state.cold.payload_below(first_seq, min(next_seq, hot_seq))
        for low, last_seq in spans(state, max(first_seq, hot_seq)):
            seq = low
            while seq <= min(last_seq, next_seq - 1):
                first, sizes = self.sizes(seq)
                part = sizes[seq - first : min(last_seq + 1, next_seq) - first]
                total += int(part.sum())
                seq = first + len(sizes)
        return total

    def sizes(self, seq: int) -> tuple[int, np.ndarray]:
        """First seq and payload sizes of the piece with a seq; a deleted record counts 0."""
        first, sizes = self.all_sizes(seq)
        deleted = self._state.deleted
        if deleted and deleted.range_cardinality(first, first + len(sizes)):
            gone = deleted & BitMap64(range(first, first + len(sizes)))
            sizes = sizes.copy()
            sizes[np.array(list(gone), dtype="<i8") - first] = 0
        return first, sizes

    def all_sizes(self, seq: int) -> tuple[int, np.ndarray]:
        """As ``sizes``, but with the sizes of deleted records while they still have bytes.

        Records that cannot be read have the average size of their block: damage must not prevent
        the trimming of a topic.
        """
        piece = self._readable(seq)
        if isinstance(piece, _IndexedPiece):
            first = piece.first_seq
            sizes = np.full(piece.count, piece.payload_size // piece.count, dtype="<i8")
        elif isinstance(piece, tuple):
            first = piece[0]
            sizes = np.array([row_size(row) for row in piece[1]], dtype="<i8")
        else:
            first, sizes = piece.first_seq, piece.sizes()
        return first, sizes

    def payload_of(self, seqs: BitMap64) -> int:
        """Payload bytes of these records; reads each piece once."""
        wanted = list(seqs)
        total = place = 0
        while place < len(wanted):
            piece = self._readable(wanted[place])
            if isinstance(piece, tuple):
                first, next_seq = piece[0], piece[0] + len(piece[1])
            else:
                first, next_seq = piece.first_seq, piece.first_seq + piece.count
            following = bisect.bisect_left(wanted, next_seq, place)
            total += _payload_of(piece, [seq - first for seq in wanted[place:following]])
            place = following
        return total

    def stamps(self, seq: int) -> tuple[int, np.ndarray]:
        """First seq and stamps of the piece with a seq; all the newest stamp if it is damaged."""
        piece = self._readable(seq)
        if isinstance(piece, _IndexedPiece):
            return piece.first_seq, np.full(piece.count, piece.ts_max, dtype="<i8")
        if isinstance(piece, tuple):
            return piece[0], np.array([row[0] for row in piece[1]], dtype="<i8")
        return piece.first_seq, piece.stamps()

    def newest_in_segment(self, seq: int) -> tuple[int, int] | None:
        """Last seq and newest ts of a seq's block or zone, by the index alone; None in the log."""
        run = self._run(seq)
        if run is None or seq > run.last_seq:
            cold, lake = self._state.cold, self._state.lake
            if cold is None or lake is None or cold.find(seq) < 0:
                return None
            return lake.newest(self._state.id, cold, seq)
        listed = _listed(run, seq)
        return listed.first_seq + listed.count - 1, listed.ts_max

    def _readable(self, seq: int) -> Piece | _IndexedPiece:
        """The piece with a seq, or its entry in the index when it is damaged."""
        try:
            return self.at(seq)
        except (Corrupt, ObjectStoreUnreachable, ObjectStoreDenied, BucketNotFound):
            run = self._run(seq)
            if run is None or seq > run.last_seq:
                raise
            return _listed(run, seq)

    def _run(self, seq: int) -> SegmentRun | None:
        state = self._state
        if state.memory is not None and state.memory.pieces and seq >= state.memory.first_seq:
            return None
        if seq >= state.tail.first_seq:
            return None
        runs = state.runs
        place = bisect.bisect_right(runs, seq, key=lambda run: run.first_seq) - 1
        return runs[place] if place >= 0 else None

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
        run = self._run(seq)
        if run is None or seq > run.last_seq:
            return self._zone(seq)
        try:
            block = run.segment.block(run.find(seq))
        except (Corrupt, OSError) as error:
            return self._lake_copy(run, seq, error)
        if not block.first_seq <= seq <= block.last_seq:
            raise LookupError(seq)
        return block

    def _zone(self, seq: int) -> Zone:
        cold, lake = self._state.cold, self._state.lake
        if cold is None or lake is None:
            raise LookupError(seq)
        return lake.zone(self._state.id, cold, seq)

    def _lake_copy(self, run: SegmentRun, seq: int, error: Corrupt | OSError) -> Zone:
        """The lake's copy of a record whose segment fails; raises the failure if there is none."""
        if run not in self._state.runs:
            raise error  # the segment was removed during the search: ``at`` searches again
        try:
            zone = self._zone(seq)
        except (LookupError, Corrupt):
            raise error from None
        assert self._state.lake is not None
        self._state.lake.replaced_files[run.segment.path] = str(error)
        return zone


def _payload_of(piece: Piece | _IndexedPiece, rows: list[int]) -> int:
    if isinstance(piece, _IndexedPiece):
        return len(rows) * (piece.payload_size // piece.count)
    if isinstance(piece, tuple):
        return sum(row_size(piece[1][row]) for row in rows)
    if isinstance(piece, Block):
        return piece.payload_at(rows)
    return int(piece.sizes()[rows].sum())


def _file_is_gone(error: Exception) -> bool:
    """Whether a checkpoint removed the file, or the store was closed."""
    return not isinstance(error, OSError) or error.errno in (errno.ENOENT, errno.EBADF)


def _unreadable(error: Exception) -> StrandlineError:
    """The error of a read whose file cannot be read."""
    if isinstance(error, FileNotFoundError):
        return Corrupt("a segment is missing", path=str(error.filename))
    remedy = advice(error, "check the disk, then retry")
    return Unavailable(f"records could not be read ({error}): {remedy}")


def _listed(run: SegmentRun, seq: int) -> _IndexedPiece:
    """The block with a seq as the index lists it, or the whole run as the checkpoint lists it."""
    try:
        index, place = run.index(), run.find(seq)
    except Corrupt:
        count = run.last_seq - run.first_seq + 1
        return _IndexedPiece(run.first_seq, count, run.payload_size, run.segment.info.ts_max)
    return _IndexedPiece(
        int(index.first_seq[place]),
        int(index.count[place]),
        int(index.payload_size[place]),
        int(index.ts_max[place]),
    )
