"""Counts the payload of deleted records without reading a block for each delete.

The size of one record is in its block, and a block of a segment has up to half a megabyte. So a
delete counts a record in a segment with the average size of its block, which the index of the
segment has, and notes its seq in ``state.unsized``. ``settle`` replaces these averages by the exact
sizes; it reads each block once for all deletes before it. It is called

    before a checkpoint is written    so that only exact numbers are stored
    before exact statistics           the usual ones; approximate statistics skip it
    before a cap by bytes is set      after that each delete of the topic reads the sizes at once
    at the end of a replay            whose deletes were counted by averages, too

Segments are rewritten, merged or removed only after a checkpoint was written: until then the sizes
can be read, and segments that were written before a delete have its records.

Between a delete and ``settle``, ``live_payload`` differs from the exact number by the difference of
the deleted records from the average.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

from pyroaring import BitMap64

from strandline.errors import Corrupt
from strandline.log.state.topic_state import SegmentRun, TopicState
from strandline.log.wal.writer import Writer


def averages_of(state: TopicState, seqs: BitMap64) -> tuple[BitMap64, int]:
    """Those of these live records that are in segments, and their payload by averages."""
    found, total = BitMap64(), 0
    if seqs and not state.config.cap_bytes:
        for run, place, part in _by_block(state, _in_segments(state, seqs)):
            found |= part
            total += len(part) * _average(run, place)
    return found, total


def resolve_averages(state: TopicState) -> None:
    """Replace the averages that deletes have counted by exact sizes. Safe from many threads.

    The result of a thread that reads segments while others replace them is outdated and dropped: a
    checkpoint was written in between, and has called this function.
    """
    while state.unsized:
        with state.guard:
            seqs, counted = state.unsized, state.unsized_payload
        if seqs:
            exact = sum(_payload(run, place, part) for run, place, part in _by_block(state, seqs))
            with state.guard:
                if state.unsized is seqs:
                    state.gone_payload += exact - counted
                    state.unsized, state.unsized_payload = None, 0


def acquire_resolved(writer: Writer, states: Sequence[TopicState]) -> None:
    """Acquire a writer's lock while no delete of its topics is counted by averages."""
    while True:
        for state in states:
            resolve_averages(state)
        writer.acquire()
        if not any(state.unsized for state in states):
            return
        writer.release()


def _in_segments(state: TopicState, seqs: BitMap64) -> BitMap64:
    """Those of the seqs that are neither in memory or log nor counted by files of the lake."""
    following = state.tail.first_seq
    if state.memory is not None and state.memory.pieces:
        following = min(following, state.memory.first_seq)
    found = seqs.copy()
    found.remove_range(0, state.hot_seq)
    found.remove_range(following, max(following, seqs.max()) + 1)
    return found


def _by_block(state: TopicState, seqs: BitMap64) -> Iterator[tuple[SegmentRun, int, BitMap64]]:
    """A run, the place of a block in its segment, and the seqs in that block."""
    runs, rest = state.runs, seqs.copy()
    while rest:
        seq = rest.min()
        number = bisect.bisect_right(runs, seq, key=lambda run: run.first_seq) - 1
        run = runs[number] if number >= 0 else None
        if run is None or seq > run.last_seq:
            rest.discard(seq)
            continue
        try:
            place, index = run.find(seq), run.segment.index()
        except (Corrupt, OSError):
            rest.remove_range(0, run.last_seq + 1)
            continue
        first_seq = int(index.first_seq[place])
        following = first_seq + int(index.count[place])
        yield run, place, rest & BitMap64(range(seq, following))
        rest.remove_range(0, following)


def _average(run: SegmentRun, place: int) -> int:
    index = run.segment.index()
    return int(index.payload_size[place]) // int(index.count[place])


def _payload(run: SegmentRun, place: int, seqs: BitMap64) -> int:
    try:
        block = run.segment.block(place)
    except (Corrupt, OSError):
        return len(seqs) * _average(run, place)
    return block.payload_at([seq - block.first_seq for seq in seqs])
