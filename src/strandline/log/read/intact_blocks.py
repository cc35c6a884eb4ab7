"""Finds intact copies of a topic's records: blocks of local segments, or zones of the lake.

Every block is read from its file and verified, without the caches, so that jobs which read all
records neither depend on nor evict what readers have in memory.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from strandline.errors import Corrupt
from strandline.lake.files.zone import Zone
from strandline.log.read.page import BlockSlice, table_of
from strandline.log.segments.rows import RecordRows, of_block
from strandline.log.state.topic_state import SegmentRun, TopicState, spans
from strandline.log.wal.block import Block


class BlockRange(NamedTuple):
    """Some records of a block or zone, both ends included."""

    source: Block | Zone
    first_seq: int
    last_seq: int


def local_ranges(runs: Sequence[SegmentRun], first_seq: int, last_seq: int) -> Iterator[BlockRange]:
    """The records of these runs between two seqs, block by block; Corrupt where one is damaged."""
    for run in runs:
        if run.last_seq < first_seq or run.first_seq > last_seq:
            continue
        index = run.index()
        following = len(index) if run.next_place < 0 else run.next_place
        for place in range(run.place, following):
            low = int(index.first_seq[place])
            high = low + int(index.count[place]) - 1
            if low <= last_seq and high >= first_seq:
                source = run.segment.read_block(place)
                yield BlockRange(source, max(low, first_seq), min(high, last_seq))


def intact_ranges(state: TopicState, first_seq: int, last_seq: int) -> Iterator[BlockRange]:
    """Every record between two seqs, from the first intact copy of it.

    Corrupt when there is none, with the seqs that are lost. Gaps and records below the floor are
    left out.
    """
    for low, high in spans(state, max(first_seq, state.floor)):
        seq = low
        while seq <= min(high, last_seq):
            source = _good_source(state, seq)
            part = BlockRange(source, seq, min(source.last_seq, high, last_seq))
            yield part
            seq = part.last_seq + 1


def lost_ranges(state: TopicState, first_seq: int, last_seq: int) -> Iterator[Corrupt]:
    """The ranges between two seqs of which there is no intact copy, as errors."""
    seq = first_seq
    while seq <= last_seq:
        try:
            for _ in intact_ranges(state, seq, last_seq):
                pass
        except Corrupt as error:
            if error.first_seq is None or error.last_seq is None:
                raise
            yield error
            seq = max(seq, error.last_seq) + 1
        else:
            return


def live_table(part: BlockRange, deleted: BitMap64 | None) -> pa.Table:
    """The rows of a part that are not deleted."""
    source, low, high = part.source, part.first_seq, part.last_seq + 1
    hidden = deleted
    if isinstance(source, Zone):
        hidden = union(deleted, source.holes())
    rows = None
    if hidden and hidden.range_cardinality(low, high):
        keep = np.ones(high - low, dtype=bool)
        keep[np.array(list(hidden & BitMap64(range(low, high))), dtype="<i8") - low] = False
        rows = np.flatnonzero(keep) + (low - source.first_seq)
    return table_of([BlockSlice(source, low - source.first_seq, high - source.first_seq, rows)])


def live_tables(parts: Iterable[BlockRange], deleted: BitMap64 | None) -> Iterator[pa.Table]:
    """The live rows of many parts, without empty tables."""
    for part in parts:
        table = live_table(part, deleted)
        if len(table):
            yield table


def rows_of(part: BlockRange, deleted: BitMap64 | None) -> RecordRows:
    """A part as rows of a segment: deleted records are empty places."""
    rows = of_block(part.source).slice(part.first_seq, part.last_seq + 1)
    return rows.without(deleted) if deleted else rows


def union(one: BitMap64 | None, other: BitMap64 | None) -> BitMap64 | None:
    return one | other if one and other else one or other


def _good_source(state: TopicState, seq: int) -> Block | Zone:
    failure: Corrupt | None = None
    runs = state.runs
    place = bisect.bisect_right(runs, seq, key=lambda run: run.first_seq) - 1
    if place >= 0 and seq <= runs[place].last_seq:
        block = _in_run(state, runs[place], seq)
        if not isinstance(block, Corrupt):
            return block
        failure = block
    cold, lake = state.cold, state.lake
    if cold is not None and lake is not None and (place := cold.find(seq)) >= 0:
        try:
            return lake.zone_uncached(state.id, cold, place, seq)
        except Corrupt as error:
            failure = failure or error
    raise failure or Corrupt(
        "records are in no file of the store",
        path="segments",
        topic_id=state.id,
        first_seq=seq,
        last_seq=seq,
    )


def _in_run(state: TopicState, run: SegmentRun, seq: int) -> Block | Corrupt:
    """The block with a seq, or its error, with the seqs of the block or of the whole run."""
    low, high, reason, path = seq, run.last_seq, "", run.segment.path
    try:
        index, place = run.index(), run.find(seq)
        low = int(index.first_seq[place])
        high = low + int(index.count[place]) - 1
        if low <= seq <= high:
            return run.segment.read_block(place)
        low = high = seq
        reason = "a record is in no block"
    except (Corrupt, OSError) as error:
        reason = error.reason if isinstance(error, Corrupt) else f"it cannot be read ({error})"
    return Corrupt(reason, path=path, topic_id=state.id, first_seq=low, last_seq=high)
